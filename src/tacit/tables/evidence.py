"""Weight of evidence: a column becomes one number, by how often label 1 is in the group of a cell.

    grouped = group(cells, choice)              # the party of the column: groups of its training rows
    grouped = grouped.merge(sparse)             # until none has fewer than 5 rows of either class
    woe = evidence(grouped, positives)          # with counts of label 1 in each group

The value of a group is ln((p / P) / (n / N)): p of all P rows with label 1, and n of all N with label 0, are in it. It
is positive if label 1 is more frequent there than overall. The information value is Σ (p / P - n / N)·value.
Source: Siddiqi, Credit Risk Scorecards, 2006.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from tacit.fixedpoint import Ints
from tacit.tables.cells import Cells, Floats, Texts
from tacit.tables.choose import Choice
from tacit.tables.groups import Categories, Quantiles
from tacit.tables.missing import Fill
from tacit.tables.transforms import check_fill, check_rows, kind_of, plain, restored, rows_of

LEAST_OF_A_CLASS = 5  # rows of either class in a group, so that no count of labels tells one person's


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """A column's training rows in groups, before anything is known of their labels."""

    numbers: Ints  # the group of each training row, from 0
    groups: Quantiles | Categories
    fill: Fill

    @property
    def count(self) -> int:
        return self.groups.count

    @property
    def ordered(self) -> bool:
        """Whether groups have neighbours: those of numbers do, except the one of missing cells."""
        return isinstance(self.groups, Quantiles)

    @property
    def sizes(self) -> Ints:
        """How many training rows each group has."""
        return np.bincount(self.numbers, minlength=self.count).astype(np.int64)

    @property
    def parts(self) -> tuple[str, ...]:
        return ("",)

    def merge(self, sparse: Sequence[bool]) -> Grouped:
        """Each sparse group joins another, the smallest first; a group that another one joined stays as it is.

        A group of numbers joins its smaller neighbour, a category or the missing cells the smallest group.
        """
        if len(sparse) != self.count:
            raise ValueError(f"{len(sparse)} answers for {self.count} groups")
        sizes = self.sizes.tolist()
        waiting = sorted((number for number in range(self.count) if sparse[number]), key=sizes.__getitem__)
        clusters = [[number] for number in range(self.count)]
        for number in waiting:
            place = next(place for place, cluster in enumerate(clusters) if number in cluster)
            if len(clusters) > 1 and clusters[place] == [number]:
                low, high = sorted((place, self._joined(place, clusters, sizes)))
                clusters[low] += clusters.pop(high)  # at the first place: numbers stay in their order
                sizes[low] += sizes.pop(high)
        into = [0] * self.count
        for place, cluster in enumerate(clusters):
            for number in cluster:
                into[number] = place
        return Grouped(np.asarray(into, np.int64)[self.numbers], self.groups.merged(into), self.fill)

    def _joined(self, place: int, clusters: list[list[int]], sizes: list[int]) -> int:
        """The place of the cluster that this one joins."""
        others = [other for other in range(len(clusters)) if other != place]
        if isinstance(self.groups, Quantiles):
            apart = [self.groups.alone]
            if clusters[place] != apart:
                neighbours = [other for other in (place - 1, place + 1) if other in others and clusters[other] != apart]
                others = neighbours or others
        return min(others, key=sizes.__getitem__)


@dataclass(frozen=True, slots=True)
class Woe:
    """Each cell as the weight of evidence of its group. A category that was not in the training has the value 0."""

    fill: Fill
    groups: Quantiles | Categories
    values: tuple[float, ...]
    rows: tuple[int, ...]  # training rows of each group
    information: float  # the information value

    def __post_init__(self) -> None:
        check_fill(self.fill, numbers=isinstance(self.groups, Quantiles), category=True)
        check_rows(self.rows, self.groups.count)
        if len(self.values) != len(self.rows) or not all(map(math.isfinite, (*self.values, self.information))):
            raise ValueError(f"{len(self.values)} values for {len(self.rows)} groups, or one that is not a number")

    @property
    def parts(self) -> tuple[str, ...]:
        return ("",)

    def apply(self, cells: Cells) -> Floats:
        numbers = _numbers(self.groups, self.fill, cells)
        return np.asarray((*self.values, 0.0))[numbers][:, None]  # -1, no group, is the last

    def state(self) -> dict[str, Any]:
        return {"use": "woe", **plain(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Woe:
        stored = restored(_Stored, state)
        ordered = "edges" in stored.groups
        groups = restored(Quantiles, stored.groups) if ordered else restored(Categories, stored.groups)
        return cls(restored(Fill, stored.fill), groups, stored.values, stored.rows, stored.information)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A `Woe` as JSON has it, in which the kind of its groups is told by their fields."""

    fill: dict[str, Any]
    groups: dict[str, Any]
    values: tuple[float, ...]
    rows: tuple[int, ...]
    information: float


def group(cells: Cells, choice: Choice) -> Grouped:
    """Quantiles of numbers, or categories with rare ones together; groups of fewer than `least` rows are merged."""
    groups: Quantiles | Categories
    if isinstance(cells, Texts):
        fill = Fill.of_texts(choice.column)
        groups = _categories(fill.texts(cells), choice.column.rare, choice.column.least)
    else:
        fill = Fill.of_numbers(cells, choice.column)
        values = fill.numbers(cells)
        enough = int((~np.isnan(values)).sum()) // choice.column.least  # groups of nearly `least` rows would all merge
        groups = Quantiles.fit(values, max(1, min(choice.column.bins, enough)), kind_of(cells))
    grouped = Grouped(_numbers(groups, fill, cells), groups, fill)
    while grouped.ordered and grouped.count > 1 and min(grouped.sizes) < choice.column.least:
        smallest = int(np.argmin(grouped.sizes))  # one at a time: what it joins may be large enough then
        grouped = grouped.merge([number == smallest for number in range(grouped.count)])
    return grouped


def _categories(texts: list[str], rare: int, least: int) -> Categories:
    """Rare ones together; then the smallest group joins the next one until none is too small."""
    counts = Counter(texts)
    kept = sorted((text for text in counts if counts[text] >= rare), key=lambda text: (text == "", text))
    together = sorted(text for text in counts if counts[text] < rare)
    groups = [[text] for text in kept] + ([together] if together else [])
    smallest = [(sum(counts[text] for text in group), place) for place, group in enumerate(groups)]
    heapify(smallest)
    while len(smallest) > 1 and smallest[0][0] < least:
        (rows, place), (others, other) = heappop(smallest), heappop(smallest)
        low, high = sorted((place, other))
        groups[low] += groups[high]
        heappush(smallest, (rows + others, low))
    return Categories(tuple(tuple(groups[place]) for place in sorted(place for _, place in smallest)))


def _numbers(groups: Quantiles | Categories, fill: Fill, cells: Cells) -> Ints:
    """The group of each cell; -1 if it has none."""
    if isinstance(groups, Quantiles):
        return groups.numbers(fill.numbers(cells))
    return groups.numbers(fill.texts(cells))


def with_labels(grouped: Grouped, labels: Ints) -> Woe:
    """At the party that has the labels (0 and 1): merge groups with fewer than 5 of either class, and count."""
    if len(labels) != len(grouped.numbers):
        raise ValueError(f"{len(labels)} labels for {len(grouped.numbers)} training rows")
    while True:
        positives = np.bincount(grouped.numbers, weights=labels, minlength=grouped.count).astype(np.int64)
        sparse = (np.minimum(positives, grouped.sizes - positives) < LEAST_OF_A_CLASS).tolist()
        if grouped.count == 1 or not any(sparse):
            return evidence(grouped, positives)
        grouped = grouped.merge(sparse)


def evidence(grouped: Grouped, positives: Ints) -> Woe:
    """The values of groups from counts of label 1; 0 if there is one group only, which tells nothing.

    Guarantee: none of privacy: values and rows give the counts back. That every group has 5 rows of either class or
    more is checked, not arranged: merge before.
    """
    sizes = grouped.sizes
    if np.shape(positives) != (grouped.count,):
        raise ValueError(f"counts of shape {np.shape(positives)} for {grouped.count} groups")
    negatives = sizes - positives
    if grouped.count == 1:
        return Woe(grouped.fill, grouped.groups, (0.0,), rows_of(grouped.numbers, 1), 0.0)
    if (fewest := int(min(positives.min(), negatives.min()))) < LEAST_OF_A_CLASS:
        raise ValueError(f"a group has {fewest} rows of one class, at least {LEAST_OF_A_CLASS}: merge it before")
    totals = int(positives.sum()), int(negatives.sum())
    shares = [(p / totals[0], n / totals[1]) for p, n in zip(positives.tolist(), negatives.tolist(), strict=True)]
    values = tuple(math.log(p / n) for p, n in shares)
    information = math.fsum((p - n) * value for (p, n), value in zip(shares, values, strict=True))
    return Woe(grouped.fill, grouped.groups, values, rows_of(grouped.numbers, grouped.count), information)
