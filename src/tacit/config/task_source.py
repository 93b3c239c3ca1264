"""Digests of the code that a file names, found without running any of it.

    sources(names)      for each name of a file's task: its source file, the installed package that it is in, and the
                        modules beside the FILE or in the current folder that they import

A name is a task that comes with Tacit, whose code is Tacit's own package, or `package.module:function`. Its module is
looked for where `config.task` would import it from, one folder after the other: importing a module imports the packages
above it first, and runs them. Imports are read from the source: what is imported in another way is not part of the
digests, and nor is what is installed apart. A compiled file that Python would run in the place of a source must be what
that source compiles to.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from importlib.resources import files
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from typing import Any

from tacit.config.source import ConfigError
from tacit.config.task import is_beside

_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_OWNER = ("privacy", "owner")  # the key of a file that names a function which Tacit itself imports, beside the task
_LARGEST = 1 << 28  # bytes of one file
_HEADER = 16  # bytes before the code in a compiled file
_IMPORTERS = ("import_module", "__import__")


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
    if ":" not in name:
        yield Source("package tacit", package(map(Path, specs[0].submodule_search_locations or ())))
        return
    yield from _digests(module, specs)
    yield from _helpers(specs)


def _digests(module: str, specs: Sequence[ModuleSpec]) -> Iterator[Source]:
    for path in _source_files(specs):
        _check_compiled(path)
    if specs[-1].origin is not None:
        yield Source(f"source file of {module}", _file(Path(specs[-1].origin)))
    if folders := specs[0].submodule_search_locations:
        yield Source(f"package {specs[0].name}", package(map(Path, folders)))


def _helpers(specs: Sequence[ModuleSpec]) -> Iterator[Source]:
    """Modules and packages that are not installed, of which this code says that it imports them, and of those too."""
    seen, left = {specs[0].name, "tacit"}, [*_source_files(specs)]
    while left:
        for name in _imports(left.pop()):
            if name in seen:
                continue
            seen.add(name)
            spec = PathFinder.find_spec(name)
            if spec is not None and is_beside(spec):
                yield from _digests(name, [spec])
                left += _source_files([spec])


def _source_files(specs: Sequence[ModuleSpec]) -> list[Path]:
    origin = specs[-1].origin
    found = [] if origin is None else [Path(origin)]
    for folder in specs[0].submodule_search_locations or ():
        found += _python_files(Path(folder))
    return [path for path in dict.fromkeys(found) if path.suffix == ".py"]


def _imports(path: Path) -> Iterator[str]:
    """The first part of each name that a source imports."""
    try:
        nodes = [*ast.walk(ast.parse(_read(path)))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # then it cannot be imported either
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(module)), *_]
            ) if called in _IMPORTERS:
                yield module.partition(".")[0]


def _check_compiled(path: Path) -> None:
    """ConfigError if Python would run a compiled file in the place of this source, and it is of another one."""
    compiled = Path(cache_from_source(path))
    if not os.path.exists(compiled):
        return
    data, stat = _read(compiled), path.stat()
    time, size = (int(number) & 0xFFFFFFFF for number in (stat.st_mtime, stat.st_size))
    due = {0: time.to_bytes(4, "little") + size.to_bytes(4, "little"), 3: source_hash(_read(path))}
    if data[:4] != MAGIC_NUMBER or data[8:_HEADER] != due.get(int.from_bytes(data[4:8], "little"), data[8:_HEADER]):
        return  # Python compiles the source anew
    try:
        same = marshal.loads(data[_HEADER:]) == compile(_read(path), str(path), "exec", dont_inherit=True)  # noqa: S302
    except (ValueError, EOFError, TypeError, SyntaxError, RecursionError):
        same = False
    if not same:
        raise ConfigError(f"{compiled}: this compiled file is not that of {path}, and Python would run it: remove it")


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
    """A digest over all files of a package that can be imported: SHA-256 over a line for each, as in
    `store.environment`."""
    lines = []
    for root in folders:
        for path in sorted(_python_files(root), key=lambda path: path.relative_to(root).as_posix()):
            lines.append(f"{path.relative_to(root).as_posix()} {_file(path).removeprefix('sha256:')}\n")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _python_files(root: Path) -> Iterator[Path]:
    """In linked folders too, as an import finds them there; each folder once. Compiled files without a source and
    extensions are among them."""
    seen, endings = set(), tuple(all_suffixes())
    for folder, inside, names in os.walk(root, followlinks=True):
        seen.add(os.path.realpath(folder))
        others = sorted(name for name in inside if os.path.realpath(os.path.join(folder, name)) not in seen)
        inside[:] = [name for name in others if name != "__pycache__"]
        yield from (Path(folder, name) for name in names if name.endswith(endings))


def _file(path: Path) -> str:
    return f"sha256:{hashlib.sha256(_read(path)).hexdigest()}"


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path}: this file is too large for the source of a task")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: the source of a task cannot be read: {error.strerror}") from None
