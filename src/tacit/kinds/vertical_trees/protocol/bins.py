"""The values of one party's columns as bins, by its own quantiles or categories.

    numbers(values, most)       the edges of a column of numbers, at most `most` bins with that of missing values
    categories(values, most)    the categories of a column, those most frequent first
    Bins(columns)               of all columns: `apply` gives uint8 [rows, features] of any rows, also new ones

The last bin of a column holds its missing values. For categories it also holds those that were rare or not seen in
training. Edges and categories stay with their owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BinArray, BoolArray, IntArray

__all__ = ["Bins", "Categories", "Numbers", "categories", "numbers"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers: bin k holds those above edge k-1 and at most edge k."""

    edges: tuple[float, ...]

    @property
    def bins(self) -> int:
        return len(self.edges) + 2  # the bin above the last edge, and that of missing values

    def apply(self, values: NDArray[Any]) -> BinArray:
        found = np.searchsorted(np.asarray(self.edges), values, side="left")
        return np.where(np.isnan(values), self.bins - 1, found).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Categories:
    """A column of categories: bin k holds the k-th of them, the last bin every other value."""

    values: tuple[str, ...]

    @property
    def bins(self) -> int:
        return max(len(self.values), 1) + 1

    def apply(self, values: NDArray[Any]) -> BinArray:
        places = {value: place for place, value in enumerate(self.values)}
        return np.array([places.get(value, self.bins - 1) for value in values], dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Bins:
    """All columns of one party."""

    columns: tuple[Numbers | Categories, ...]

    @property
    def bins(self) -> IntArray:
        return np.array([column.bins for column in self.columns], dtype=np.int64)

    @property
    def ordered(self) -> BoolArray:
        return np.array([isinstance(column, Numbers) for column in self.columns], dtype=bool)

    def apply(self, values: Sequence[NDArray[Any]]) -> BinArray:
        """The bin of every cell, [rows, features]. A column of numbers has NaN for missing values, one of categories
        an empty string."""
        if len(values) != len(self.columns):
            raise ValueError(f"{len(self.columns)} columns were binned in training, here are {len(values)}")
        if not values:
            raise ValueError("a party without columns has nothing to bin")
        return np.stack([column.apply(found) for column, found in zip(self.columns, values, strict=True)], axis=1)


def numbers(values: Floats, most: int) -> Numbers:
    """Edges so that each bin holds about as many rows: midpoints of neighbours if there are few distinct values."""
    _check(most)
    present = values[~np.isnan(values)]
    if not np.isfinite(present).all():
        raise ValueError("a column holds an infinite value: replace it by a number, or leave it out as missing")
    distinct = np.unique(present)
    if len(distinct) < most:
        below, above = distinct[:-1], distinct[1:]
        middle = below / 2 + above / 2
        edges = np.where(middle < above, middle, below)  # neighbouring doubles have no number between them
    else:
        edges = np.unique(np.quantile(present, np.arange(1, most - 1) / (most - 1), method="lower"))
        edges = edges[edges < distinct[-1]]
    return Numbers(tuple(edges.tolist()))


def categories(values: NDArray[Any], most: int) -> Categories:
    """The most frequent categories, each with a bin of its own; equally frequent ones in alphabetical order."""
    _check(most)
    distinct, counts = np.unique(values[values != ""], return_counts=True)
    order = np.lexsort((distinct, -counts))[: most - 1]
    return Categories(tuple(str(distinct[place]) for place in order))


def _check(most: int) -> None:
    if not 3 <= most <= MOST_BINS:
        raise ValueError(f"bins: {most} is not possible: choose 3 to {MOST_BINS}, one of which is for missing values")
