"""What a party keeps of a training on shares, so that it can resume after an interruption.

A snapshot holds this party's shares of the weights: nothing without those of the others. It holds no seed and no mask.
A meeting begins with new ones, and opens the tables and every later value under masks that were never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.kinds.vertical_logistic.shared.ring import Words


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A party's training after some steps.

    Args:
        weights: its shares of all parties' weights, the intercept last: (columns + 1, outputs).
        best: the same at the lowest loss so far; as many as `weights` without figures.
        loss: the lowest one, at the active.
        waited: epochs since then.
        stopped: the training ended early.
        mark: a digest of words opened in the last step. All parties have the same, if their shares belong together.
    """

    session: bytes
    agreed: bytes
    position: int
    weights: Words
    best: Words
    loss: float = np.inf
    waited: int = 0
    stopped: bool = False
    mark: bytes = b""

    def state(self) -> dict[str, Any]:
        """All of it as plain data and arrays, for a file."""
        return {
            "session": self.session.hex(),
            "agreed": self.agreed.hex(),
            "position": self.position,
            "weights": self.weights,
            "best": self.best,
            "loss": self.loss,
            "waited": self.waited,
            "stopped": self.stopped,
            "mark": self.mark.hex(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Snapshot:
        weights, best = (np.asarray(state[name], dtype=np.uint64) for name in ("weights", "best"))
        if weights.ndim != 2 or weights.shape != best.shape:
            raise ValueError(f"a snapshot of {weights.shape} weights and {best.shape} best ones: the file is damaged")
        return cls(
            session=bytes.fromhex(state["session"]),
            agreed=bytes.fromhex(state["agreed"]),
            position=int(state["position"]),
            weights=weights,
            best=best,
            loss=float(state["loss"]),
            waited=int(state["waited"]),
            stopped=bool(state["stopped"]),
            mark=bytes.fromhex(state.get("mark", "")),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What a party can resume from: snapshots, by the step after which each lets it begin; none at the start."""

    snapshots: Mapping[int, Snapshot] = field(default_factory=dict)

    @property
    def positions(self) -> tuple[int, ...]:
        """The steps after which this party can begin."""
        return tuple(self.snapshots) or (0,)

    @property
    def session(self) -> bytes:
        """Of the training that it resumes, or nothing."""
        return next((snapshot.session for snapshot in self.snapshots.values()), b"")

    @property
    def marks(self) -> tuple[bytes, ...]:
        """Of the shares that it kept of each of these steps; those of other marks do not add up to weights."""
        return tuple(snapshot.mark for snapshot in self.snapshots.values())
