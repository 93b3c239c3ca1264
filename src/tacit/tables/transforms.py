"""Columns as numbers that a model learns from: numeric, log, bin and one_hot.

    transform = OneHot.fit(cells, choice)    # the cells of the training rows
    transform.apply(cells)                   # n × len(transform.parts), of any rows
    OneHot.restore(transform.state())        # the same, by plain JSON

What a cell becomes depends on it and on the training rows alone. What a transform says of cells that it refuses
lacks the name of the column: `fitted` adds it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgspec
import numpy as np

from tacit.fixedpoint import Ints
from tacit.tables.cells import Cells, Floats, Numbers, Texts
from tacit.tables.choose import Choice
from tacit.tables.groups import MISSING_PART, OTHER_PART, Quantiles, apart, check_texts
from tacit.tables.missing import Fill, numbers_of, texts_of

MOST_COLUMNS = 10_000  # that one column may become

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A frozen dataclass as plain JSON; floats keep every bit."""
    return msgspec.json.decode(msgspec.json.encode(value))


def restored(kind: type[T], state: Any) -> T:
    """A frozen dataclass from plain JSON: its fields, all of them and no others, with the right types."""
    found = msgspec.convert(state, kind)  # its ValidationError is a ValueError
    if plain(found) != plain(state):  # a default took the place of a field, or one is unknown
        raise ValueError(f"{kind.__name__} needs {', '.join(field.name for field in fields(kind))}, and no others")  # type: ignore[arg-type]
    return found


@dataclass(frozen=True, slots=True)
class Numeric:
    """Numbers as they are."""

    fill: Fill

    def __post_init__(self) -> None:
        check_fill(self.fill, numbers=True)

    @classmethod
    def fit(cls, cells: Cells, choice: Choice) -> Numeric:
        return cls(Fill.of_numbers(cells, choice.column))

    @property
    def parts(self) -> tuple[str, ...]:
        return ("",)

    def apply(self, cells: Cells) -> Floats:
        return self.fill.numbers(cells)[:, None]

    def state(self) -> dict[str, Any]:
        return {"use": "numeric", **plain(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Numeric:
        return restored(cls, state)


@dataclass(frozen=True, slots=True)
class Log:
    """sign(x)·log(1 + |x|): amounts of many sizes, with their sign. A missing cell is filled before."""

    fill: Fill

    def __post_init__(self) -> None:
        check_fill(self.fill, numbers=True)

    @classmethod
    def fit(cls, cells: Cells, choice: Choice) -> Log:
        return cls(Fill.of_numbers(cells, choice.column))

    @property
    def parts(self) -> tuple[str, ...]:
        return ("",)

    def apply(self, cells: Cells) -> Floats:
        values = self.fill.numbers(cells)
        # One by one: numpy may take another instruction for the last rows, and another last bit with it.
        logs = (math.copysign(math.log1p(abs(value)), value) for value in values.tolist())
        return np.fromiter(logs, np.float64, len(values))[:, None]

    def state(self) -> dict[str, Any]:
        return {"use": "log", **plain(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Log:
        return restored(cls, state)


@dataclass(frozen=True, slots=True)
class Bin:
    """Numbers as one indicator for each group between quantiles of the training rows.

    Missing cells that are a category of their own are the last group, if at least `rare` training rows had any; if not,
    they get the mean of each indicator: a group of few rows would tell their labels.
    """

    fill: Fill
    quantiles: Quantiles
    rows: tuple[int, ...]  # training rows of each group

    def __post_init__(self) -> None:
        check_fill(self.fill, numbers=True, category=True)
        if self.quantiles.missing != self.quantiles.alone:
            raise ValueError("a group of numbers holds missing cells")
        check_rows(self.rows, self.quantiles.count)

    @classmethod
    def fit(cls, cells: Cells, choice: Choice) -> Bin:
        fill = Fill.of_numbers(cells, choice.column)
        values = fill.numbers(cells)
        if np.isnan(values).sum() < choice.column.rare:
            values = values[~np.isnan(values)]
        quantiles = Quantiles.fit(values, choice.column.bins, kind_of(cells))
        return cls(fill, quantiles, rows_of(quantiles.numbers(values), quantiles.count))

    @property
    def parts(self) -> tuple[str, ...]:
        return self.quantiles.names

    def apply(self, cells: Cells) -> Floats:
        return _indicators(self.quantiles.numbers(self.fill.numbers(cells)), self.rows)

    def state(self) -> dict[str, Any]:
        return {"use": "bin", **plain(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Bin:
        return restored(cls, state)


@dataclass(frozen=True, slots=True)
class OneHot:
    """Categories as one indicator each; of two parts the second one only, since the first follows from it.

    Categories of few training rows are one part, `other`; so are categories that the training rows did not have. If
    there is no such part, these get the mean of each indicator. "" stands for missing cells: a category as any other.
    """

    fill: Fill
    categories: tuple[str, ...]
    other: bool  # whether there is one more part, of all other categories
    rows: tuple[int, ...]  # training rows of each part

    def __post_init__(self) -> None:
        check_fill(self.fill, numbers=False, category=True)
        check_texts(self.categories)
        check_rows(self.rows, len(self.categories) + self.other)
        if len(self.rows) > MOST_COLUMNS:
            raise ValueError(f"one_hot makes {len(self.rows)} columns, at most {MOST_COLUMNS}: raise `rare` or say woe")

    @classmethod
    def fit(cls, cells: Cells, choice: Choice) -> OneHot:
        fill = Fill.of_texts(choice.column)
        counts = Counter(fill.texts(cells))
        kept = _frequent(counts, choice.column.rare, choice.most)
        ordered = _in_order(kept, cells)
        rest = counts.total() - sum(counts[text] for text in ordered)
        rows = [counts[text] for text in ordered] + ([rest] if rest else [])
        return cls(fill, tuple(ordered), rest > 0, tuple(rows))

    @property
    def every_part(self) -> tuple[str, ...]:
        """All parts in their order, also the first of two, which has no column."""
        names = tuple(text or apart(MISSING_PART, self.categories) for text in self.categories)
        return (*names, apart(OTHER_PART, self.categories)) if self.other else names

    @property
    def parts(self) -> tuple[str, ...]:
        return self.every_part[1:] if len(self.rows) == 2 else self.every_part

    def apply(self, cells: Cells) -> Floats:
        unknown = len(self.categories) if self.other else -1
        places = {text: place for place, text in enumerate(self.categories)}
        texts = self.fill.texts(cells)
        numbers = np.fromiter((places.get(text, unknown) for text in texts), np.int64, len(texts))
        indicators = _indicators(numbers, self.rows)
        return indicators[:, 1:] if len(self.rows) == 2 else indicators

    def state(self) -> dict[str, Any]:
        return {"use": "one_hot", **plain(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> OneHot:
        return restored(cls, state)


def _frequent(counts: Counter[str], rare: int, most: int | None) -> list[str]:
    """The categories that are a part of their own, the most frequent first."""
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    kept = [text for text in ranked if counts[text] >= rare]
    if most is not None and len(kept) + (len(kept) < len(ranked)) > most:
        kept = kept[: most - 1]
    rest = counts.total() - sum(counts[text] for text in kept)
    while 0 < rest < rare and kept:  # a small group tells the labels of its rows, as a rare category does
        rest += counts[kept.pop()]
    return kept


def _in_order(kept: list[str], cells: Cells) -> list[str]:
    """Numbers and dates in their order, texts by the alphabet, missing last."""
    if isinstance(cells, Texts):
        return sorted(kept, key=lambda text: (text == "", text))
    values = np.unique(numbers_of(cells))
    order = {text: place for place, text in enumerate(texts_of(Numbers(values, cells.kind)))}
    return sorted(kept, key=lambda text: (text == "", order.get(text, -1)))


def _indicators(numbers: Ints, rows: tuple[int, ...]) -> Floats:
    """1 in the column of each row's group. A row without a group (-1) gets each column's mean over the training."""
    indicators = np.zeros((len(numbers), len(rows)))
    unknown = numbers < 0
    indicators[np.flatnonzero(~unknown), numbers[~unknown]] = 1.0
    indicators[unknown] = [count / max(1, sum(rows)) for count in rows]
    return indicators


def kind_of(cells: Cells) -> Any:
    """Whether these are plain numbers or dates."""
    return cells.kind if isinstance(cells, Numbers) else "number"


def rows_of(numbers: Ints, count: int) -> tuple[int, ...]:
    """How many rows each group has."""
    return tuple(np.bincount(numbers, minlength=count).tolist())


def check_fill(fill: Fill, *, numbers: bool, category: bool = False) -> None:
    """Refuse a stored treatment of missing cells that this transform cannot have."""
    text = isinstance(fill.value, str)
    if (numbers and text) or (not numbers and isinstance(fill.value, float)):
        raise ValueError(f"missing cells are filled with {fill.value!r}")
    if fill.how == "own category" and not category:
        raise ValueError("a missing number is not a category")


def check_rows(rows: tuple[int, ...], count: int) -> None:
    if len(rows) != count or not rows or min(rows) < 0 or sum(rows) < 1:
        raise ValueError(f"{len(rows)} counts of rows for {count} groups")
