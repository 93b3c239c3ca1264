"""Tacit lets several parties learn one model without telling each other what they know."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tacit.errors import BudgetError, PeerError, TacitError
    from tacit.kinds.split.embedding_dp import EmbeddingDP
    from tacit.kinds.split.label_dp import LabelDP
    from tacit.runs.outcome import Outcome
    from tacit.training.plan import Plan

__version__ = "0.1.0"
__all__ = ["BudgetError", "EmbeddingDP", "LabelDP", "PeerError", "Plan", "TacitError", "__version__", "run"]

_HOMES = {  # some are heavy: imported only when they are used
    "BudgetError": "tacit.errors",
    "PeerError": "tacit.errors",
    "TacitError": "tacit.errors",
    "EmbeddingDP": "tacit.kinds.split.embedding_dp",
    "LabelDP": "tacit.kinds.split.label_dp",
    "Plan": "tacit.training.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def run(
    path_or_dict: str | Path | dict[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    resume: str | Path | None = None,
    state: str | Path | None = None,
) -> Outcome:
    """Run every party of a file, or of a dict with the same keys, in this process.

    `overrides` are texts such as "rounds=5". With `resume`, the run in that directory is resumed, and the first
    argument may be left out. With `state`, the run starts in that directory, or is resumed if it is there already.
    Returns the outcome: `status`, `model`, `history` (the finished rounds), `ledger` and `directory`.
    """
    from tacit.crypto.processes import refuse_while_imported  # heavy: only when it is used
    from tacit.runs.run import run as run_here

    refuse_while_imported()
    return run_here(path_or_dict, overrides=overrides, runs=runs, resume=resume, state=state)
