"""The task that the file of a federation names."""

from __future__ import annotations

from typing import Any

from tacit.config.task import made
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import FitsPrivately, Infers, Task

_FEDERATED = {
    "digits": "tacit.kinds.horizontal.tasks.digits",
    "digits_unsupervised": "tacit.kinds.horizontal.tasks.digits_unsupervised",
    "mnist_by_writer": "tacit.kinds.horizontal.tasks.mnist_by_writer",
}


def make(name: str, clients: int, seed: int, options: dict[str, Any]) -> Task:
    """The task of a horizontal federation that a file names: a built-in one, or `package.module:function`."""
    task: Task = made(name, _FEDERATED, "make_task", {"clients": clients, "seed": seed}, options, ("model", "fit"))
    return task


def check_private_fit(task: Task, settings: Settings) -> None:
    """ValueError if the file asks for private training at the clients, and the task cannot do it."""
    if settings.train.privacy is None:
        return
    if not isinstance(task, FitsPrivately):
        raise ValueError(
            f"train.privacy: task {settings.task} does not train privately: take a tacit.TorchTask, or leave it out"
        )
    try:
        task.check_private_fit()
    except ValueError as error:
        raise ValueError(f"train.privacy: {error}") from error


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
