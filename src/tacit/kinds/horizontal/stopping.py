"""Ending a run once the coordinator's own evaluation no longer improves, with the best model.

The evaluation is on the coordinator's own data and follows from models that were released anyway: it costs nothing in
privacy, and a run that ends earlier has spent less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.kinds.horizontal.settings import Stop
from tacit.kinds.horizontal.vector import Flat


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The best model so far."""

    model: Flat
    value: float
    round: int


class Stopping:
    """Watches one metric over the rounds."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.best: Best | None = None
        self.waited = 0  # rounds since then that were evaluated

    @property
    def due(self) -> bool:
        """Whether the run is to end."""
        return self.waited >= self._stop.patience

    @property
    def reason(self) -> str:
        """Why it ended, and which model it ended with; empty if it did not."""
        if not self.due or self.best is None:
            return ""
        rounds = "round" if self.waited == 1 else f"{self.waited} rounds"
        return (
            f"{self._stop.metric} has not improved for {rounds}: the model is that of round {self.best.round + 1}, "
            f"with {self._stop.metric} {self.best.value:.4g}"
        )

    def check(self, metrics: Mapping[str, float]) -> None:
        """ValueError unless the metric is among those that `evaluate` returns."""
        if self._stop.metric not in metrics:
            found = ", ".join(metrics) or "none, as the task has no evaluate()"
            raise ValueError(
                f"stop.metric is {self._stop.metric!r}, which the task's evaluate() does not return: there is {found}"
            )

    def look(self, round: int, metrics: Mapping[str, float], model: Flat) -> None:
        """A round was evaluated."""
        self.check(metrics)
        value = metrics[self._stop.metric]
        if self._improved(value):
            self.best, self.waited = Best(model.copy(), value, round), 0
        else:
            self.waited += 1

    def _improved(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.best is None:
            return True
        gain = value - self.best.value if self._stop.upwards else self.best.value - value
        return gain > self._stop.minimum_improvement

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {"waited": self.waited}
        if self.best is not None:
            found |= {"best": self.best.model.copy(), "best_value": self.best.value, "best_round": self.best.round}
        return found

    def restore(self, state: Mapping[str, Any], size: int) -> None:
        """Take up `state`. ValueError if no run can have stored it."""
        waited, model, value = state.get("waited", 0), state.get("best"), state.get("best_value")
        if type(waited) is not int or waited < 0:
            raise ValueError(f"the stored state cannot be: {waited!r} rounds without improvement")
        self.waited, self.best = waited, None
        if model is None:
            return
        if not isinstance(model, np.ndarray) or model.shape != (size,) or not np.isfinite(model).all():
            raise ValueError("the stored state cannot be: its best model is not one of this task")
        if type(value) is not float or type(state.get("best_round")) is not int:
            raise ValueError("the stored state cannot be: it does not say how good its best model is")
        self.best = Best(model.copy(), value, state["best_round"])
