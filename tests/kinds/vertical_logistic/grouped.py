"""Groups of rows as a column of a table would have them, small enough to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Ordered groups, as bins of numbers: a sparse one joins the one to its right, the last the one to its left."""

    numbers: np.ndarray
    count: int

    @classmethod
    def quantiles(cls, values: np.ndarray, bins: int) -> Neighbours:
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
        return cls(ranks * bins // len(values), bins)

    @classmethod
    def texts(cls, values: Sequence[str]) -> Neighbours:
        names, numbers = np.unique(values, return_inverse=True)
        return cls(numbers.astype(np.int64), len(names))

    def merge(self, sparse: Sequence[bool]) -> Neighbours:
        assert len(sparse) == self.count
        into, now = [], 0
        for group in range(self.count):
            into.append(now)
            now += not sparse[group]
        joined = np.minimum(into, max(0, now - 1))
        return Neighbours(joined[self.numbers], int(joined.max()) + 1)


def merged_in_the_clear(column: Neighbours, labels: np.ndarray, few: int = 5) -> tuple[Neighbours, list[int]]:
    """The oracle: plain Python integers, no encryption."""
    while True:
        rows = [[int(y) for y, g in zip(labels, column.numbers, strict=True) if g == k] for k in range(column.count)]
        sparse = [min(sum(group), len(group) - sum(group)) < few for group in rows]
        if not any(sparse):
            return column, [sum(group) for group in rows]
        column = column.merge(sparse)
