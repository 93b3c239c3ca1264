"""How far two sequences of figures go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3  # two points lie on a line whatever they are


@dataclass(frozen=True, slots=True)
class Correlation:
    pearson: float  # of the values
    spearman: float  # of their ranks
    pairs: int


def correlation(pairs: Sequence[tuple[float, float]]) -> Correlation | None:
    """Of the first with the second numbers. None for fewer than 3 pairs, or where one side does not vary."""
    values = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    if len(values) < _FEWEST or not np.isfinite(values).all() or (np.ptp(values, axis=0) == 0).any():
        return None
    first, second = values.T
    return Correlation(_pearson(first, second), _pearson(_ranks(first), _ranks(second)), len(values))


def mean_relative_difference(of: Mapping[int, float], to: Mapping[int, float]) -> tuple[float, int] | None:
    """The mean of |of - to| / |to| over the keys that both have, and how many these are; None where there is none."""
    both = [key for key in of if key in to and to[key] != 0]
    if not both:
        return None
    return float(np.mean([abs(of[key] - to[key]) / abs(to[key]) for key in both])), len(both)


def _pearson(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    first, second = first - first.mean(), second - second.mean()
    first, second = first / np.abs(first).max(), second / np.abs(second).max()  # squares of tiny numbers would vanish
    return float(np.clip(first @ second / np.sqrt((first @ first) * (second @ second)), -1, 1))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], dtype=np.float64)
