"""What a source gives: columns of texts or numbers, nothing chosen or filled in yet.

A column is one of two things, whatever it came from:

    Numbers(values, kind)   floats, NaN where a cell is missing. kind: "number", or "date" for days since 1970-01-01
    Texts(values)           text, "" where a cell is missing

CSV gives texts only; typed sources (Parquet, SQL, frames) give numbers for numbers, booleans, decimals and dates.
`Reading` says how the texts of a column are read as numbers or dates. It is found once, on the table of the training,
and stored: a single new row "1,234" is read as the training's column was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})  # in any case, with white space around


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A column of numbers; NaN is missing."""

    values: Floats
    kind: Literal["number", "date"] = "number"

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of texts, without white space around them; "" is missing."""

    values: list[str]

    def __len__(self) -> int:
        return len(self.values)


Cells = Numbers | Texts


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A table as its source gives it."""

    where: str  # the file, or the database, for messages; never a password
    names: tuple[str, ...]
    columns: tuple[Cells, ...]
    place: Callable[[int], str]  # what a row is called in messages: "line 7", or "row 6"

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Cells:
        return self.columns[self.names.index(name)]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the texts of a column are read. Columns that a typed source gives as numbers stay as they are."""

    kind: Literal["text", "number", "date"] = "text"
    decimal: Literal[".", ","] = "."
    thousands: str = ""  # the separator: a comma, a point, a space, an apostrophe, or none
    affix: str = ""  # a sign before or behind every number, such as € or %
    date: str = ""  # the format, as strptime has it
