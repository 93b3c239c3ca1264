"""The page docs/reference/events.md: every event of `events.jsonl` with its fields."""

from __future__ import annotations

import dataclasses
import inspect
from typing import cast

from pages.sections import comments
from tacit.events import KINDS

_OPENING = """\
# Events

Made by `python -m pages` from `tacit.events`. Everything that a user is shown was an event first. A run appends each
one to `events.jsonl` in its folder, as one JSON object a line: `time` is the time of writing (ISO 8601), `event` the
name, and the other keys are those below. A number that is not finite is `null`. Rounds and epochs count from 0 here.

Readers should ignore keys that they do not know: later versions may add some. A key with a default may be missing in
files of earlier versions."""


def page() -> str:
    """The page of all events."""
    lines = [_OPENING]
    for name, kind in sorted(KINDS.items()):
        lines += ["", f"## `{name}`", ""]
        words = inspect.getdoc(kind) or ""
        if words and not words.startswith(f"{name}("):  # a dataclass without a docstring has its signature there
            lines += [words, ""]
        said = comments(cast(type, kind))
        lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
        for field in dataclasses.fields(kind):
            cells = (f"`{field.name}`", f"`{field.type}`", _default(field), said.get(field.name, ""))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(field: dataclasses.Field[object]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{field.default!r}`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    return ""
