"""Finding and making the task that a file names.

Its module is looked for among the installed ones, then in the folder of the file, then in the current folder. What an
earlier file brought with it from another folder is forgotten first: two folders may hold modules of the same name.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_being_imported: ContextVar[str | None] = ContextVar("_being_imported", default=None)  # the module of a task
_added: list[str] = []  # folders at the end of sys.path that were put there for tasks
_ever_added: set[Path] = set()
_beside: list[str] = []  # the folder of the file, if there is one


def look_beside(file: Path | None) -> None:
    """Find modules of tasks in the folder of the file, then in this one. Last, so that none hides an installed one.

    Of an earlier file neither the folders nor the modules from there stay, unless they are found in the same place.
    """
    for folder in _added:
        if folder in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
    _beside[:] = [] if file is None else [str(file.resolve().parent)]
    _added[:] = [folder for folder in dict.fromkeys([*_beside, str(Path.cwd())]) if folder not in sys.path]
    sys.path += _added
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if "." not in name and _is_stale(name)]:
        for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[each]
    _ever_added.update(Path(folder) for folder in _added)


def _is_stale(name: str) -> bool:
    """Whether a module came from a folder of an earlier file, and would be another one now."""
    spec = getattr(sys.modules[name], "__spec__", None)
    if spec is None or name == "__main__" or _folder(spec) not in _ever_added:
        return False
    now = PathFinder.find_spec(name)
    return now is None or _folder(now) != _folder(spec)


def is_beside(spec: ModuleSpec) -> bool:
    """Whether a module lies in the folder of the file, or in the current one: it is not installed."""
    return _folder(spec) in {Path.cwd().resolve(), *map(Path, _beside)}


def _folder(spec: ModuleSpec) -> Path | None:
    """Where a module or a package lies."""
    inside = list(spec.submodule_search_locations or [])
    place = inside[0] if inside else spec.origin if spec.has_location else None
    return None if place is None else Path(place).resolve().parent


def _refuse_hidden(named: str, module_name: str) -> None:
    """Raise ValueError if a module in the file's folder is hidden by one that is not installed: it would not be run."""
    top = module_name.partition(".")[0]
    own = PathFinder.find_spec(top, _beside) if _beside and top != "__main__" else None
    found = None if own is None or own.origin is None else importlib.util.find_spec(top)
    if own is None or found is None or _folder(found) in (None, _folder(own)):
        return
    script = getattr(sys.modules["__main__"], "__file__", None)
    installed = {Path(folder).resolve() for folder in sys.path} - {Path.cwd().resolve()}
    installed -= set() if script is None else {Path(script).resolve().parent}
    if _folder(found) not in installed:
        raise ValueError(
            f"{named} is in the folder of the FILE, {own.origin}, but Python finds {found.origin} first: rename one of "
            "them, or start from another folder"
        )


class _StartedInImport(ValueError):
    pass


def refuse_in_import() -> None:
    """Raise ValueError if a run is started by the module of a task while that is imported for another run."""
    if (module := _being_imported.get()) is not None:
        raise _StartedInImport(
            f"the module {module} is imported for its task, and starts a run itself: put what it does under "
            '`if __name__ == "__main__":`'
        )


def module_of(name: str, built_in: dict[str, str], default: str, what: str = "task") -> tuple[ModuleType, str]:
    """The module of a task, or of what else a file names so, and the name of its maker there."""
    if ":" in name:
        module_name, _, function = name.partition(":")
    elif name in built_in:
        module_name, function = built_in[name], default
    else:
        raise ValueError(f"{what} {name!r} is not known: take one of {', '.join(built_in)}, or package.module:function")
    _refuse_hidden(f"{what} {name!r}", module_name)
    before = _being_imported.set(module_name)
    try:
        module = importlib.import_module(module_name)
    except _StartedInImport as error:
        raise ValueError(str(error)) from None
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ValueError(f"{what} {name!r} needs torch: pip install 'tacit-learning[torch]'") from error
        if (error.name or "").startswith("tacit."):
            raise ValueError(
                f"{what} {name!r} needs the module {error.name}, which does not exist: what tasks need is in "
                "tacit.tasks"
            ) from error
        raise ValueError(
            f"{what} {name!r} needs the module {error.name!r}, which is not installed, not in the folder of the FILE "
            "and not in the current folder: install it, or start in the folder that holds it"
        ) from error
    finally:
        _being_imported.reset(before)
    if not callable(getattr(module, function, None)):
        raise ValueError(
            f"{what} {name!r}: the module {module_name} has no function {function}: define it there, or name another"
        )
    return module, function


def made(
    name: str,
    built_in: dict[str, str],
    default: str,
    given: dict[str, Any],
    options: dict[str, Any],
    methods: tuple[str, ...],
) -> Any:
    """Find the maker, and make the task: what is wrong with either is said in a sentence."""
    module, function = module_of(name, built_in, default)
    maker = getattr(module, function)
    try:
        inspect.signature(maker).bind(**given, **options)
    except TypeError as error:
        raise ValueError(f"task {name!r} does not take these task_options: {error}") from None
    try:
        task = maker(**given, **options)
    except ValueError as error:
        raise ValueError(f"task {name}: {error}") from error
    for method in methods:
        if not callable(getattr(task, method, None)):
            raise ValueError(f"task {name!r} made a {type(task).__name__}, which has no method {method}")
    return task
