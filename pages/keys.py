"""The pages docs/reference/keys-KIND.md: every key of a file, with type, range, default, meaning and version."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pages.sections import Key, keys_of
from tacit import kind
from tacit.config.local import Local

_MEANINGS = Path(__file__).with_name("meanings.yaml")
_WORDS = {
    "horizontal": ("Keys of a federation", "A file with `kind: horizontal`. See [federations](../federation.md)."),
    "private_training": (
        "Keys of a private training",
        "A file with `kind: private_training`. See [private training](../private-training.md).",
    ),
    "vertical_logistic": (
        "Keys of a vertical regression",
        "A file with `kind: vertical_logistic`. See [vertical regression](../vertical.md) and [tables](../tables.md).",
    ),
    "vertical_trees": (
        "Keys of boosted trees",
        "A file with `kind: vertical_trees`. See [boosted trees](../trees.md) and [tables](../tables.md).",
    ),
    "split": ("Keys of a split training", "A file with `kind: split`. See [split learning](../split.md)."),
    "local": (
        "Keys of a party's own file",
        "The file given by `--local`. It is never sent and never compared. Paths are relative to the file itself. See "
        "[network](../network.md).",
    ),
}
_LOCAL = "Made by `python -m pages` from the settings."
_SHARED = (
    f"{_LOCAL} A key with the default *none* is off, or follows from other keys. Names in capitals are "
    "yours to choose. Every key can be given on the command line too: `--set KEY=VALUE`."
)


def every_key() -> dict[str, list[Key]]:
    """The keys of each kind of file that comes with Tacit."""
    found = {name: list(keys_of(kind.find(name).settings)) for name in _WORDS if name != "local"}
    return {**found, "local": list(keys_of(Local))}


@cache
def meanings() -> dict[str, Any]:
    """What `meanings.yaml` says."""
    data: dict[str, Any] = yaml.safe_load(_MEANINGS.read_text(encoding="utf-8"))
    return data


def meaning(key: Key) -> str:
    """What a key is for: a sentence of `meanings.yaml`, or else the comment behind its field; empty if neither is."""
    owner = key.owner.removeprefix("tacit.")
    if words := meanings().get(owner, {}).get(key.name):
        return str(words)
    comment = key.comment.strip()
    return f"{comment[0].upper()}{comment[1:].rstrip('.')}." if comment else ""


def since(key: Key) -> str:
    """The first version with this key."""
    return key.since or str(meanings()["since"])


def page(name: str) -> str:
    """The page of a kind, or of the local file."""
    title, opening = _WORDS[name]
    lines = [f"# {title}", "", opening, "", _LOCAL if name == "local" else _SHARED]
    sections: dict[str, list[Key]] = {"": []}  # the top level comes first
    for key in every_key()[name]:
        sections.setdefault(key.path.rpartition(".")[0], []).append(key)
    for section, keys in sections.items():
        lines += ["", f"## `{section}`" if section else "## Top level", ""]
        lines += ["| key | meaning | takes | default | since |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(key) for key in keys]
    return "\n".join(lines) + "\n"


def _row(key: Key) -> str:
    cells = (f"`{key.name}`", meaning(key) + _also(key), key.takes, key.default, since(key))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _also(key: Key) -> str:
    """The other spellings, in words. Keys of a section that may stand at the top level keep their name there."""
    top = " Also accepted at the top level." if "." in key.path and key.name in key.also else ""
    others = [f"`{each}`" for each in key.also if not (top and each == key.name)]
    return top + (f" Also accepted as {', '.join(others)}." if others else "")
