"""Finding and making the task that a file names."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def look_beside(file: Path | None) -> None:
    """Find modules of tasks in this folder and beside the file too. Last, so that none there hides an installed one."""
    folders = [Path.cwd(), *([] if file is None else [file.resolve().parent])]
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]


def module_of(name: str, built_in: dict[str, str], default: str) -> tuple[ModuleType, str]:
    """The module of a task, and the name of its maker there."""
    if ":" in name:
        module_name, _, function = name.partition(":")
    elif name in built_in:
        module_name, function = built_in[name], default
    else:
        raise ValueError(f"task {name!r} is not known: take one of {', '.join(built_in)}, or package.module:function")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ValueError(f"task {name!r} needs torch: pip install 'tacit[torch]'") from error
        raise ValueError(
            f"task {name!r} needs the module {error.name!r}, which is not installed, and not in this folder or beside "
            "the FILE: install it, or give the FILE that it lies beside"
        ) from error
    if not callable(getattr(module, function, None)):
        raise ValueError(f"task {name!r}: the module {module_name} has no function {function}")
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
