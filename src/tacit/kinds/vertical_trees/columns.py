"""A party's columns in bins: fitted on the training rows, applied to any rows, and kept with its part of the model.

    fit(table, rows, most, sign)        bins by own quantiles or categories
    columns.apply(cells)                uint8 [rows, columns]
    smallest_group(binned)              the rows of the smallest bin that has some; smallest_words: in a sentence
    Columns.restore(columns.state())    by plain JSON, exactly

The owner alone has the names, edges and categories. The other parties see numbers of columns and of bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.config.source import ConfigError
from tacit.kinds.vertical_trees.protocol import bins as binning
from tacit.kinds.vertical_trees.protocol.bins import Bins, Categories, Numbers
from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BinArray, IntArray
from tacit.tables import cells as tabled
from tacit.tables.cells import Cells, Reading, canonical, canonical_texts, is_missing, take
from tacit.tables.choose import Choice
from tacit.tables.table import Table

VERSION = 1
_KEYS = {"version", "columns", "readings"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, and how its cells become bins.

    Args:
        filled: what missing cells are taken for; None: they have a bin of their own.
        sign: of numbers: 1 if predictions may only rise with it, -1 only fall, 0 without a constraint.
    """

    name: str
    bins: Numbers | Categories
    filled: float | str | None = None
    sign: int = 0

    def values(self, cells: Cells) -> NDArray[Any]:
        """The cells as `Bins.apply` takes them: numbers with NaN, or texts with an empty one, if missing."""
        return _values(cells, isinstance(self.bins, Numbers), self.filled)

    def part(self, number: int) -> str:
        """What a bin holds, as people read it."""
        if number == self.bins.bins - 1:
            return "missing" if isinstance(self.bins, Numbers) else "missing or rare"
        if isinstance(self.bins, Categories):
            return self.bins.values[number] if number < len(self.bins.values) else "none"
        edges = self.bins.edges
        if not edges:
            return "any"
        if number == 0:
            return f"up to {edges[0]:.6g}"
        return f"above {edges[-1]:.6g}" if number == len(edges) else f"{edges[number - 1]:.6g} to {edges[number]:.6g}"


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns of a party that trees may split by, in order, and how their texts are read."""

    columns: tuple[Column, ...]
    readings: Mapping[str, Reading]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def bins(self) -> Bins:
        return Bins(tuple(column.bins for column in self.columns))

    @property
    def signs(self) -> IntArray:
        return np.array([column.sign for column in self.columns], dtype=np.int64)

    def apply(self, cells: Mapping[str, Cells]) -> BinArray:
        """The bin of every cell. What a row becomes does not depend on the others."""
        if absent := [name for name in self.names if name not in cells]:
            raise ValueError(f"the table has no column {', '.join(absent)}, which the model needs")
        return self.bins.apply([column.values(cells[column.name]) for column in self.columns])

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        columns = []
        for column in self.columns:
            numbers = isinstance(column.bins, Numbers)
            parts = column.bins.edges if isinstance(column.bins, Numbers) else column.bins.values
            columns.append(
                {
                    "name": column.name,
                    "use": "numbers" if numbers else "categories",
                    "parts": list(parts),
                    "filled": column.filled,
                    "sign": column.sign,
                }
            )
        return {
            "version": VERSION,
            "columns": columns,
            "readings": {name: asdict(reading) for name, reading in self.readings.items()},
        }

    @classmethod
    def restore(cls, state: Any) -> Columns:
        """The same as was stored; ValueError if it is damaged."""
        try:
            if state.keys() != _KEYS or state["version"] != VERSION:
                raise ValueError(f"they need {', '.join(sorted(_KEYS))} of version {VERSION}")
            columns = tuple(_restored(each) for each in state["columns"])
            return cls(columns, {name: Reading.restore(each) for name, each in state["readings"].items()})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"the stored columns are damaged: {error}") from error


def fit(table: Table, rows: IntArray, most: int, sign: Callable[[str], int]) -> Columns:
    """Bins of all columns that are used, by these rows only.

    Args:
        most: bins of a column, one of them for missing values.
        sign: the monotone constraint of a column.
    """
    found = []
    for choice in table.choices:
        if choice.use != "drop":
            found.append(_fitted(choice, take(table.cells[choice.name], rows), most, sign(choice.name)))
    if not found:
        raise ConfigError(f"{table.where}: no column is left to learn from: name some under columns")
    used = {column.name for column in found}
    return Columns(tuple(found), {name: each for name, each in table.readings.items() if name in used})


def smallest_group(binned: BinArray) -> int:
    """The fewest rows that share a bin of a column: what is known of a cell whose bin is known."""
    return min(int(np.unique(column, return_counts=True)[1].min()) for column in binned.T)


def smallest_words(binned: BinArray, active: str) -> str:
    """What the size of the smallest group means to the owner of the columns."""
    return (
        f"the smallest bin of a column has {smallest_group(binned):,} of {len(binned):,} rows: {active} may learn "
        "which; fewer train.bins, or rare for categories, make bins larger"
    )


def _fitted(choice: Choice, cells: Cells, most: int, sign: int) -> Column:
    name, given = choice.name, choice.column
    if choice.use == "woe":
        raise ConfigError(f"column {name}: use: woe is for regressions: take one_hot, or leave it to be chosen")
    if given.missing == "refuse" and (blank := int(is_missing(cells).sum())):
        raise ConfigError(f"column {name}: {blank} values are missing in the training rows: fill them in, or drop it")
    filled = given.value if given.missing == "constant" else None
    numbers = choice.use in ("numeric", "log", "bin")
    values = _values(cells, numbers, filled)
    if numbers:
        return Column(name, binning.numbers(values, most), filled, sign)
    distinct, counts = np.unique(values[values != ""], return_counts=True)
    frequent = distinct[counts >= given.rare]
    kept = np.where(np.isin(values, frequent), values, "")
    return Column(name, binning.categories(kept, most), filled, 0)


def _values(cells: Cells, numbers: bool, filled: float | str | None) -> NDArray[Any]:
    if numbers:
        if not isinstance(cells, tabled.Numbers):
            raise ValueError("a column of numbers in the training holds text here")
        return cells.values if filled is None else np.where(np.isnan(cells.values), float(filled), cells.values)
    texts = np.array([*canonical_texts(cells), ""], dtype=object)[:-1]
    missing = is_missing(cells)
    texts[missing] = "" if filled is None else canonical(filled) if isinstance(filled, float) else filled
    return texts


def _restored(state: Mapping[str, Any]) -> Column:
    name, use, parts = state["name"], state["use"], state["parts"]
    if not isinstance(name, str) or use not in ("numbers", "categories") or not isinstance(parts, Sequence):
        raise ValueError("a column needs name, use and parts")
    if len(parts) > MOST_BINS - 1 or state["sign"] not in (-1, 0, 1):
        raise ValueError(f"column {name}: {len(parts)} edges or categories, or a wrong sign")
    if use == "categories":
        return Column(name, Categories(tuple(str(part) for part in parts)), state["filled"], state["sign"])
    edges = tuple(float(part) for part in parts)
    if not all(low < high for low, high in pairwise(edges)):
        raise ValueError(f"column {name}: its edges do not rise")
    return Column(name, Numbers(edges), state["filled"], state["sign"])
