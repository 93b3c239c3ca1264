"""Built-in data and models, and the loading of a user's own task."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Infers, Task

_BUILT_IN = {
    "digits": "tacit.tasks.digits",
    "digits_unsupervised": "tacit.tasks.digits_unsupervised",
    "mnist_by_writer": "tacit.tasks.mnist_by_writer",
}


def make(name: str, clients: int, seed: int, options: dict[str, Any]) -> Task:
    """The task that a file names: a built-in one, or `package.module:function`."""
    if ":" in name:
        module_name, _, function = name.partition(":")
    elif name in _BUILT_IN:
        module_name, function = _BUILT_IN[name], "make_task"
    else:
        raise ValueError(f"task {name!r} is not known: take one of {', '.join(_BUILT_IN)}, or package.module:function")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"task {name!r} needs the module {error.name!r}, which is not installed, and not in this folder or beside "
            "the FILE: install it, or give the FILE that it lies beside"
        ) from error
    if not callable(getattr(module, function, None)):
        raise ValueError(f"task {name!r}: the module {module_name} has no function {function}")
    maker = getattr(module, function)
    try:
        inspect.signature(maker).bind(clients=clients, seed=seed, **options)
    except TypeError as error:
        raise ValueError(f"task {name!r} does not take these task_options: {error}") from None
    try:
        task: Task = maker(clients=clients, seed=seed, **options)
    except ValueError as error:
        raise ValueError(f"task {name}: {error}") from error
    for method in ("model", "fit"):
        if not callable(getattr(task, method, None)):
            raise ValueError(f"task {name!r} made a {type(task).__name__}, which has no method {method}")
    return task


def infers(task: Task, settings: Settings) -> Infers | None:
    """The task as one whose model is judged by what it infers, where the file asks for that."""
    if settings.unsupervised is None:
        return None
    if not isinstance(task, Infers):
        raise ValueError(
            f"unsupervised: task {settings.task} has no infer() and no number of classes, so that there is nothing to "
            "evaluate: take a task that has them, such as digits_unsupervised, or leave the section out"
        )
    return task
