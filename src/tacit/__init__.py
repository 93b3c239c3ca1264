"""Tacit lets several parties learn one model without telling each other what they know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.door import door
from tacit.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tacit.config.source import ConfigError
    from tacit.errors import BudgetError, PeerError, TacitError
    from tacit.kinds.horizontal.tasks.sklearn_task import SklearnTask
    from tacit.kinds.horizontal.torch_tasks.task import TorchTask
    from tacit.kinds.split.embedding_dp import EmbeddingDP
    from tacit.kinds.split.label_dp import LabelDP
    from tacit.runs.load import load
    from tacit.runs.outcome import Outcome
    from tacit.training.plan import Plan

__all__ = [
    "BudgetError",
    "ConfigError",
    "EmbeddingDP",
    "LabelDP",
    "PeerError",
    "Plan",
    "SklearnTask",
    "TacitError",
    "TorchTask",
    "__version__",
    "load",
    "run",
]
__getattr__, __dir__ = door(
    __name__,
    __all__,
    {
        "tacit.errors": "BudgetError PeerError TacitError",
        "tacit.config.source": "ConfigError",
        "tacit.kinds.horizontal.tasks.sklearn_task": "SklearnTask",
        "tacit.kinds.horizontal.torch_tasks.task": "TorchTask",
        "tacit.kinds.split.embedding_dp": "EmbeddingDP",
        "tacit.kinds.split.label_dp": "LabelDP",
        "tacit.runs.load": "load",
        "tacit.training.plan": "Plan",
    },
)


def run(
    path_or_dict: str | Path | dict[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    resume: str | Path | None = None,
    state: str | Path | None = None,
) -> Outcome:
    """Run every party of a file, or of a dict with the same keys, in this process.

    `overrides` are texts such as "rounds=5". With `resume`, the run in that directory is resumed with the settings that
    it stored; a file then only says where the task lies, and may be left out. With `state`, the run starts in that
    directory, or is resumed if it is there already.
    Returns the outcome: `status`, `model`, `history` (the finished rounds), `ledger` and `directory`.
    """
    from tacit.crypto.processes import refuse_while_imported  # heavy: only when it is used
    from tacit.runs.run import run as run_here

    refuse_while_imported()
    return run_here(path_or_dict, overrides=overrides, runs=runs, resume=resume, state=state)
