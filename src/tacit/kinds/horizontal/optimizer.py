"""How a mean update becomes the next model.

Source: Reddi et al. 2021, Algorithm 2 (FedAvgM and FedAdam; the mean update is a pseudo-gradient).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.kinds.horizontal.settings import ServerOptimizer
from tacit.kinds.horizontal.vector import Flat


class Optimizer:
    """The coordinator's optimizer and its state."""

    def __init__(self, settings: ServerOptimizer, size: int) -> None:
        self._settings = settings
        self._first = np.zeros(size if settings.kind != "average" else 0)
        self._second = np.zeros(size if settings.kind == "adam" else 0)

    def step(self, model: Flat, update: Flat) -> Flat:
        """The next model, in the memory of `update` where they are of one type: models are large."""
        rate = self._settings.learning_rate
        match self._settings.kind:
            case "average":
                update *= rate
                update += model
                moved = update
            case "momentum":
                self._first *= self._settings.momentum
                self._first += update
                moved = model + rate * self._first
            case "adam":
                first, second = self._settings.momentum, self._settings.second_momentum
                self._first += (1 - first) * (update - self._first)
                self._second += (1 - second) * (np.square(update) - self._second)
                moved = model + rate * self._first / (np.sqrt(self._second) + self._settings.stability)
        return moved.astype(model.dtype, copy=False)

    def state(self) -> dict[str, Any]:
        return {"first": self._first.copy(), "second": self._second.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        first, second = np.array(state["first"]), np.array(state["second"])
        if first.shape != self._first.shape or second.shape != self._second.shape:
            raise ValueError(f"the stored optimizer has {len(first)} numbers, {len(self._first)} are due")
        if first.dtype != np.float64 or not np.isfinite(first).all() or not (second >= 0).all():
            raise ValueError("the stored optimizer has numbers that cannot be")
        self._first, self._second = first, second
