"""Which records each step takes: the same for all who have the same file and number of records.

A kind gives the order of an epoch and the cut of that order into batches: another order, or another cut, is another
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a training.

    Args:
        steps: of an epoch.
        order: all records, as an epoch takes them.
        cut: which part of that order a step of an epoch takes.
        limit: steps in all, at most.
    """

    records: int
    epochs: int
    steps: int
    order: Callable[[int], Order]
    cut: Callable[[int], slice]
    limit: int | None = None

    @property
    def total(self) -> int:
        whole = self.steps * self.epochs
        return whole if self.limit is None else min(whole, self.limit)

    @property
    def visits(self) -> int:
        """How often a record is part of a step, at most."""
        return -(-self.total // self.steps) if self.steps else 0

    def batches(self, epoch: int) -> list[Order]:
        """The records of each step of an epoch."""
        order = self.order(epoch)
        return [order[self.cut(step)] for step in range(self.steps)]

    def size(self, step: int) -> int:
        """Records of a step; steps are counted through all epochs."""
        part = self.cut(step % self.steps)
        return int(part.stop - part.start)

    def from_step(self, start: int) -> Iterator[tuple[int, Order]]:
        """Each step from `start` on, with its records."""
        epoch, order = -1, np.empty(0, dtype=np.int64)
        for step in range(start, self.total):
            if step // self.steps != epoch:
                epoch = step // self.steps
                order = self.order(epoch)
            yield step, order[self.cut(step % self.steps)]

    def sizes_from(self, start: int) -> Iterator[tuple[int, range]]:
        """The same for who holds no records, and makes no list of as many as another party says there are."""
        for step in range(start, self.total):
            yield step, range(self.size(step))

    def ends_epoch(self, step: int) -> bool:
        """Whether this many steps end an epoch, or all of them."""
        return step % self.steps == 0 or step == self.total

    def evaluates(self, step: int, every: int) -> bool:
        return step == self.total or (step % self.steps == 0 and step // self.steps % every == 0)

    def evaluations(self, every: int) -> int:
        return sum(self.evaluates(step, every) for step in range(1, self.total + 1) if self.ends_epoch(step))
