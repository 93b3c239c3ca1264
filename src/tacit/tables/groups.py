"""Groups of a column's cells: numbers between quantiles, and categories. What a cell belongs to depends on it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from tacit.fixedpoint import Ints
from tacit.tables.cells import Floats, canonical

MISSING_PART, OTHER_PART = "missing", "other"
MOST_TEXTS, LONGEST_TEXT = 1 << 20, 1 << 16
_NAMED = 3  # categories in the name of a group


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Numbers between edges: group i holds edges[i-1] ≤ x < edges[i], the first and the last one all beyond.

    Args:
        missing: the group of missing cells: one more than the groups of numbers, one of these that it was merged
            with, or None if the training rows had none.
    """

    edges: tuple[float, ...]
    missing: int | None = None
    kind: Literal["number", "date"] = "number"

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.edges)) or any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError("edges must be finite and increase")
        if self.missing is not None and not 0 <= self.missing <= len(self.edges) + 1:
            raise ValueError(
                f"the group of missing cells is {self.missing}, and there are {len(self.edges) + 1} others"
            )

    @classmethod
    def fit(cls, values: Floats, bins: int, kind: Literal["number", "date"] = "number") -> Quantiles:
        """Groups of nearly as many rows each; NaN is missing. Equal quantiles are one, and no group is empty."""
        present = values[~np.isnan(values)]
        edges: Floats = np.empty(0)
        if len(present):
            edges = np.unique(np.quantile(present, np.linspace(0, 1, bins + 1)[1:-1]))
            edges = edges[edges > present.min()]
            occupied = np.unique(np.searchsorted(edges, present, side="right"))
            edges = edges[occupied[occupied > 0] - 1]
        missing = len(edges) + 1 if len(present) < len(values) else None
        return cls(tuple(edges.tolist()), missing, kind)

    @property
    def alone(self) -> int | None:
        """The group of missing cells, if it holds nothing else."""
        return self.missing if self.missing == len(self.edges) + 1 else None

    @property
    def count(self) -> int:
        return len(self.edges) + 1 + (self.alone is not None)

    def numbers(self, values: Floats) -> Ints:
        """The group of each number; -1 for a missing one that no group holds."""
        groups = np.searchsorted(np.asarray(self.edges), values, side="right").astype(np.int64)
        groups[np.isnan(values)] = -1 if self.missing is None else self.missing
        return groups

    def merged(self, into: Sequence[int]) -> Quantiles:
        """Group i becomes a part of group into[i]; only neighbours, and the missing ones with any, may be merged."""
        edges = tuple(edge for place, edge in enumerate(self.edges) if into[place] != into[place + 1])
        return replace(self, edges=edges, missing=None if self.missing is None else into[self.missing])

    @property
    def names(self) -> tuple[str, ...]:
        """Of each group: "below 12", "12 to 30", "30 and above"."""
        edges = _shown(self.edges, self.kind)
        if edges:
            middle = [f"{low} to {high}" for low, high in pairwise(edges)]
            names = [f"below {edges[0]}", *middle, f"{edges[-1]} and above"]
        else:
            names = ["any value"]
        if self.alone is not None:
            return (*names, MISSING_PART)
        return tuple(f"{name} or missing" if place == self.missing else name for place, name in enumerate(names))


def _shown(edges: Sequence[float], kind: Literal["number", "date"]) -> list[str]:
    """Edges to be read: whole days, or about five digits, and more only if two would look alike."""
    if kind == "date":
        days = [canonical(float(math.floor(edge)), "date") for edge in edges]
        if len(set(days)) == len(edges):
            return days
    largest = max(map(abs, edges), default=0.0)
    if 1e-4 < largest < 1e15:
        for decimals in range(max(0, 4 - math.floor(math.log10(largest))), 18):
            texts = [canonical(round(edge, decimals)) for edge in edges]
            if len(set(texts)) == len(edges):
                return texts
    return [canonical(edge) for edge in edges]


@dataclass(frozen=True, slots=True)
class Categories:
    """Texts that count as one, group by group. "" is a missing cell."""

    texts: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        check_texts([text for group in self.texts for text in group])
        if not self.texts or not all(self.texts):
            raise ValueError("a group of categories is empty")

    @property
    def count(self) -> int:
        return len(self.texts)

    def numbers(self, texts: Sequence[str]) -> Ints:
        """The group of each text; -1 for one that no group holds."""
        groups = {text: number for number, group in enumerate(self.texts) for text in group}
        return np.fromiter((groups.get(text, -1) for text in texts), np.int64, len(texts))

    def merged(self, into: Sequence[int]) -> Categories:
        """Group i becomes a part of group into[i]."""
        groups: list[list[str]] = [[] for _ in range(max(into) + 1)]
        for group, texts in zip(into, self.texts, strict=True):
            groups[group].extend(texts)
        return Categories(tuple(map(tuple, groups)))

    @property
    def names(self) -> tuple[str, ...]:
        """Of each group: its categories, the first three if it has many."""
        missing = apart(MISSING_PART, {text for group in self.texts for text in group})
        return tuple(_name([text or missing for text in group]) for group in self.texts)


def _name(texts: Sequence[str]) -> str:
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def check_texts(texts: Sequence[str]) -> None:
    """Refuse categories that are too many, too long or there twice."""
    if len(texts) > MOST_TEXTS:
        raise ValueError(f"has {len(texts)} categories, and at most {MOST_TEXTS} are kept: drop it or group it before")
    if len(set(texts)) != len(texts):
        raise ValueError("a category is there twice")
    if (longest := max(map(len, texts), default=0)) > LONGEST_TEXT:
        raise ValueError(f"has a category of {longest} characters, and at most {LONGEST_TEXT} are kept: drop it")


def apart(name: str, texts: set[str] | Sequence[str]) -> str:
    """The name of a group that is no category, in parentheses if a category is called so."""
    while name in texts:
        name = f"({name})"
    return name
