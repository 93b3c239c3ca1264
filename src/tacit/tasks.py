"""For authors of tasks: what a task is given, and what it returns. Each kind says more in its own `task`.

Task, Fitted, FitWork, Infers, Evaluates        of a federation
TorchTask, SklearnTask                          a federation of torch modules, or of linear models of scikit-learn
kept_by                                         what one of its clients kept at itself
TrainingTask                                    of a private training
Columns                                         of a vertical training
Seat, Rows, Bottom, Top, Ends, Trunk, Unfitted  of a split training
make, make_training                             built-in tasks, for one that is made of another
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door

if TYPE_CHECKING:
    from tacit.kinds.horizontal.kept_arrays import kept_by
    from tacit.kinds.horizontal.task import Evaluates, Fitted, FitWork, Infers, Task
    from tacit.kinds.horizontal.tasks.load import make
    from tacit.kinds.horizontal.tasks.sklearn_task import SklearnTask
    from tacit.kinds.horizontal.torch_tasks.task import TorchTask
    from tacit.kinds.private_training.task import Task as TrainingTask
    from tacit.kinds.private_training.tasks.load import make_training
    from tacit.kinds.split.task import Bottom, Ends, Rows, Seat, Top, Trunk, Unfitted
    from tacit.lockstep.cancer import Part as Columns

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
    "SklearnTask",
    "Task",
    "Top",
    "TorchTask",
    "TrainingTask",
    "Trunk",
    "Unfitted",
    "kept_by",
    "make",
    "make_training",
]

__getattr__, __dir__ = door(  # some need torch: imported only when they are used
    __name__,
    __all__,
    {
        "tacit.kinds.horizontal.task": "Evaluates FitWork Fitted Infers Task",
        "tacit.kinds.horizontal.kept_arrays": "kept_by",
        "tacit.kinds.horizontal.tasks.load": "make",
        "tacit.kinds.horizontal.tasks.sklearn_task": "SklearnTask",
        "tacit.kinds.horizontal.torch_tasks.task": "TorchTask",
        "tacit.kinds.private_training.task": "Task=TrainingTask",
        "tacit.kinds.private_training.tasks.load": "make_training",
        "tacit.kinds.split.task": "Bottom Ends Rows Seat Top Trunk Unfitted",
        "tacit.lockstep.cancer": "Part=Columns",
    },
)
