"""For authors of tasks: what a task is given, and what it returns. Each kind says more in its own `task`.

Task, Fitted, FitWork, Infers, Evaluates        of a federation
TrainingTask                                    of a private training
Columns                                         of a vertical training
Seat, Rows, Bottom, Top, Ends, Trunk            of a split training
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.kinds.horizontal.task import Evaluates, Fitted, FitWork, Infers, Task
    from tacit.kinds.private_training.task import Task as TrainingTask
    from tacit.kinds.split.task import Bottom, Ends, Rows, Seat, Top, Trunk
    from tacit.kinds.vertical_logistic.tasks.cancer import Part as Columns

__all__ = [
    "Bottom",
    "Columns",
    "Ends",
    "Evaluates",
    "FitWork",
    "Fitted",
    "Infers",
    "Rows",
    "Seat",
    "Task",
    "Top",
    "TrainingTask",
    "Trunk",
]

_HOMES = {  # some need torch: imported only when they are used
    **dict.fromkeys(("Evaluates", "FitWork", "Fitted", "Infers", "Task"), "tacit.kinds.horizontal.task"),
    **dict.fromkeys(("Bottom", "Ends", "Rows", "Seat", "Top", "Trunk"), "tacit.kinds.split.task"),
    "TrainingTask": "tacit.kinds.private_training.task",
    "Columns": "tacit.kinds.vertical_logistic.tasks.cancer",
    "make": "tacit.kinds.horizontal.tasks.load",  # built-in tasks, for one that is made of another
    "make_training": "tacit.kinds.private_training.tasks.load",
}
_OWN_NAMES = {"TrainingTask": "Task", "Columns": "Part"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), _OWN_NAMES.get(name, name))
