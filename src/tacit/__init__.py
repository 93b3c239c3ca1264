"""Tacit lets several parties learn one model without telling each other what they know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.runs.execute import Outcome

__version__ = "0.1.0"


def run(path_or_dict: str | Path | dict[str, Any], *, runs: str | Path = "runs") -> Outcome:
    """Run every party of a file, or of a dict with the same keys, in this process.

    Returns the outcome: `status`, `model`, `history` (the finished rounds), `ledger` and `directory`.
    """
    from tacit.runs.execute import run as run_here  # heavy: only when it is used

    return run_here(path_or_dict, runs=runs)
