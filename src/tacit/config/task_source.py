"""Digests of the code that a file names, found without running any of it.

    sources(names)      for each name of a file's task: its source file, and the installed package that it is in

A name is a task that comes with Tacit, whose code is Tacit's own package, or `package.module:function`. Its module is
looked for where `config.task` would import it from, one folder after the other: importing a module imports the packages
above it first, and runs them. What such a module imports in turn is not part of the digests, unless it is in the same
package; nor are compiled files that lie beside the source.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.resources import files
from pathlib import Path
from typing import Any

from tacit.config.source import ConfigError

_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_OWNER = ("privacy", "owner")  # the key of a file that names a function which Tacit itself imports, beside the task
_LARGEST = 1 << 28  # bytes of one file


@dataclass(frozen=True, slots=True)
class Source:
    """Code that a file would run."""

    what: str
    digest: str  # "sha256:" and 64 digits


def sources(task: str | None, settings: Any) -> tuple[Source, ...]:
    """Of the task, of the function that names owners, and of every other value of the settings that names a function
    of a module that there is."""
    found = dict.fromkeys(_of(task, must=True)) if task is not None else {}
    for name, imported in _named(settings):
        if name != task:
            found |= dict.fromkeys(_of(name, must=imported))
    return tuple(found)


def _named(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """Values that may name code, and whether Tacit imports it: then it must be found, however it is written."""
    if isinstance(value, str):
        imported = keys[-2:] == _OWNER and ":" in value
        if imported or _CODE.fullmatch(value):
            yield value, imported
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _named(each, (*keys, str(key)))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named(each, keys)


def _of(name: str, *, must: bool) -> Iterator[Source]:
    module = name.partition(":")[0] if ":" in name else "tacit"
    specs = _specs(module)
    if specs is None:
        if must:
            raise ConfigError(
                f"policy.tasks: the source of {name!r} was not found in the installed packages, the folder of the "
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
        for path in sorted(_python_files(root), key=lambda path: path.relative_to(root).as_posix()):
            lines.append(f"{path.relative_to(root).as_posix()} {_file(path).removeprefix('sha256:')}\n")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _python_files(root: Path) -> Iterator[Path]:
    """In linked folders too, as an import finds them there; each folder once."""
    seen = set()
    for folder, inside, names in os.walk(root, followlinks=True):
        seen.add(os.path.realpath(folder))
        inside[:] = sorted(name for name in inside if os.path.realpath(os.path.join(folder, name)) not in seen)
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _file(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path}: this file is too large for the source of a task")
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        raise ConfigError(f"{path}: the source of a task cannot be read: {error.strerror}") from None
