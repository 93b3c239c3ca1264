"""Digests of the code that a file names, found without running any of it.

    sources(names)      for each name of a file's task: its source file, and the installed package that it is in

A name is a task that comes with Tacit, whose code is Tacit's own package, or `package.module:function`. Its module is
looked for where `config.task` would import it from, one folder after the other: importing a module imports the packages
above it first, and runs them. What such a module imports in turn is not part of the digests, unless it is in the same
package; nor are compiled files that lie beside the source.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.resources import files
from pathlib import Path
from typing import Any

from tacit.config.source import ConfigError

_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_LARGEST = 1 << 28  # bytes of one file


@dataclass(frozen=True, slots=True)
class Source:
    """Code that a file would run."""

    what: str
    digest: str  # "sha256:" and 64 digits


def sources(task: str | None, settings: Any) -> tuple[Source, ...]:
    """Of the task, and of every other value of the settings that names a function of a module that there is."""
    found = dict.fromkeys(_of(task, must=True)) if task is not None else {}
    for name in _named(settings):
        if name != task:
            found |= dict.fromkeys(_of(name, must=False))
    return tuple(found)


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, str) and _CODE.fullmatch(value):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _named(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named(each)


def _of(name: str, *, must: bool) -> Iterator[Source]:
    module = name.partition(":")[0] if ":" in name else "tacit"
    specs = _specs(module)
    if specs is None:
        if must:
            raise ConfigError(
                f"policy.tasks: the source of task {name!r} was not found in the installed packages, the folder of the "
                "FILE or the current folder"
            )
        return
    if specs[-1].origin is not None and ":" in name:
        yield Source(f"source file of {module}", _file(Path(specs[-1].origin)))
    if folders := specs[0].submodule_search_locations:
        yield Source(f"package {specs[0].name}", package(map(Path, folders)))


def _specs(module: str) -> list[ModuleSpec] | None:
    """Of the packages that a module is in, and its own; None if it is not found in files."""
    if module == "tacit":
        root = str(files("tacit"))
        own = ModuleSpec("tacit", None, is_package=True)
        own.submodule_search_locations = [root]
        return [own]
    found: list[ModuleSpec] = []
    path: list[str] | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path)
        if spec is None:
            return None
        found.append(spec)
        path = list(spec.submodule_search_locations or [])
    return found if found[-1].origin is None or found[-1].has_location else None


def package(folders: Iterable[Path]) -> str:
    """A digest over all Python files of a package: SHA-256 over a line for each, as in `store.environment`."""
    lines = []
    for root in folders:
        for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
            lines.append(f"{path.relative_to(root).as_posix()} {_file(path).removeprefix('sha256:')}\n")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _file(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path}: this file is too large for the source of a task")
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        raise ConfigError(f"{path}: the source of a task cannot be read: {error.strerror}") from None
