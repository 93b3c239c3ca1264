"""Built-in data and models, and the loading of a user's own task."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Infers, Task

if TYPE_CHECKING:
    from tacit.tasks.cancer import Part as Columns
    from tacit.training.task import Task as TrainingTask
    from tacit.vertical.settings import Settings as VerticalSettings

_FEDERATED = {
    "digits": "tacit.tasks.digits",
    "digits_unsupervised": "tacit.tasks.digits_unsupervised",
    "mnist_by_writer": "tacit.tasks.mnist_by_writer",
}
_COLUMNS = {"cancer": "tacit.tasks.cancer"}
_TRAINING = {"digits": "tacit.tasks.digits_torch"}


def make(name: str, clients: int, seed: int, options: dict[str, Any]) -> Task:
    """The task of a horizontal federation that a file names: a built-in one, or `package.module:function`."""
    task: Task = made(name, _FEDERATED, "make_task", {"clients": clients, "seed": seed}, options, ("model", "fit"))
    return task


def make_training(name: str, seed: int, options: dict[str, Any]) -> TrainingTask:
    """The task of a private training that a file names."""
    methods = ("model", "loss", "evaluate")
    task: TrainingTask = made(name, _TRAINING, "make_training", {"seed": seed}, options, methods)
    return task


def make_columns(settings: VerticalSettings, name: str) -> Columns:
    """One party's columns of the data that the file of a vertical training names."""
    given = {"parties": tuple(settings.parties), "active": settings.active, "seed": settings.seed}
    options = {"align": settings.align, **settings.task_options}
    parts = made(settings.task or "", _COLUMNS, "make_parts", given, options, ("__getitem__",))
    part: Columns = parts[name]
    return part


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
