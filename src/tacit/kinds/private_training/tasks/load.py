"""The task that the file of a private training names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.config.task import made

if TYPE_CHECKING:
    from tacit.kinds.private_training.task import Task as TrainingTask


_TRAINING = {"digits": "tacit.kinds.private_training.tasks.digits"}


def make_training(name: str, seed: int, options: dict[str, Any]) -> TrainingTask:
    """The task of a private training that a file names."""
    methods = ("model", "loss", "evaluate")
    task: TrainingTask = made(name, _TRAINING, "make_training", {"seed": seed}, options, methods)
    return task
