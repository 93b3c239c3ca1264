"""What a source gives: columns of texts or numbers, nothing chosen or filled in yet.

A column is one of two things, whatever it came from:

    Numbers(values, kind)   floats, NaN where a cell is missing. kind: "number", or "date" for days since 1970-01-01
    Texts(values)           text, "" where a cell is missing

CSV gives texts only, of which true and false are read as 1 and 0; typed sources (Parquet, SQL, frames) give numbers for
numbers, booleans, decimals and dates, but texts for integers that a float cannot hold: ids have up to 20 digits.
`Reading` says how the texts of a column are read as numbers or dates. It is found once, on the table of the training,
and stored: a single new row "1,234" is read as the training's column was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.tables import dates, numerals
from tacit.tables.problems import Problem, Severity, places, shown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MISSING = frozenset({"", "na", "n/a", "nan", "null"})  # in any case, with white space around
NO_VALUE = "None"  # as Python writes it; "none" is a category: no guarantor, no claim
MARKS = frozenset(
    {"?", "-", "--", "–", "—", ".", "#n/a", "#na", "n.a.", "unknown", "missing", "none"}
)  # among numbers or dates
SEPARATOR = "\0"  # of cells in a block: no float holds it
CELLS = 1 << 27  # of a table, at most
_BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}  # in any case; typed sources have them as 1 and 0
_SAMPLE = 1000  # cells by which a long column of text is known
_EXACT = 2**53  # whole numbers up to here are floats exactly
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal() - _EPOCH


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
    numbers: Floats | None = None  # the same cells, if a source that has read them found plain floats only

    def __len__(self) -> int:
        return len(self.values)


class PlainTexts(Texts):
    """Texts that are plain floats or missing: kept in blocks as they are written, in a tenth of a list's memory."""

    __slots__ = ("_blocks", "_list")
    _blocks: Sequence[str]
    _list: list[str] | None

    def __init__(self, blocks: Sequence[str], numbers: Floats) -> None:
        for name, value in {"_blocks": blocks, "_list": None, "numbers": numbers}.items():
            object.__setattr__(self, name, value)

    @property
    def values(self) -> list[str]:  # made when it is asked for, which few columns are
        if self._list is None:
            texts = [text for block in self._blocks for text in block.split(SEPARATOR)]
            object.__setattr__(self, "_list", texts)
            object.__setattr__(self, "_blocks", ())
        return self._list or []

    def __len__(self) -> int:
        return len(self.numbers) if self.numbers is not None else 0


Cells = Numbers | Texts


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A table as its source gives it."""

    where: str  # the file, or the database, for messages; never a password
    names: tuple[str, ...]
    columns: tuple[Cells, ...]
    place: Callable[[int], str]  # what a row is called in messages: "line 7", or "row 6"
    problems: tuple[Problem, ...] = ()  # found while reading; those of a column count only if it is used
    padded: Mapping[str, tuple[int, ...]] | None = None  # rows of a column whose text had white space around it
    _places: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {name: place for place, name in reversed(list(enumerate(self.names)))})

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Cells:
        return self.columns[self._places[name]]

    def has(self, name: str) -> bool:
        return name in self._places

    def problem(
        self,
        severity: Severity,
        kind: str,
        what: str,
        remedy: str,
        column: str = "",
        rows: Sequence[int] | Ints = (),
        texts: Sequence[str] = (),
    ) -> Problem:
        """A problem of this table, at these rows, whose cells are these texts."""
        place = places(self.place, [int(row) for row in rows[:3]]) if len(rows) else ""
        return Problem(severity, kind, self.where, what, remedy, place, column, shown(texts), max(1, len(rows)))


@dataclass(frozen=True, slots=True)
class Reading:
    """How the texts of a column are read. Columns that a typed source gives as numbers stay as they are."""

    kind: Literal["text", "number", "date", "boolean"] = "text"  # booleans, written as true and false, are 1 and 0
    decimal: Literal[".", ","] = "."
    thousands: str = ""  # the separator: a comma, a point, a space, an apostrophe, or none
    affix: str = ""  # a sign before or behind every number, such as € or %
    date: str = ""  # the format, as strptime has it; several are separated by |

    def apply(self, cells: Cells) -> tuple[Cells, list[int]]:
        """The cells read this way, and the rows whose cell cannot be; those are missing in the result."""
        if isinstance(cells, Numbers):
            if self.kind == "text":
                return Texts(canonical_texts(cells)), []
            present = np.flatnonzero(~np.isnan(cells.values))
            if cells.kind == self._numbers or not len(present):
                return Numbers(cells.values, self._numbers), []
            return Numbers(np.full(len(cells), np.nan), self._numbers), present.tolist()
        if self.kind == "text":
            return cells, []
        if self.kind == "number" and self == Reading("number") and (values := plain(cells)) is not None:
            return Numbers(values), []
        read = {text: self._value(text) for text in set(cells.values)}
        unread = {text for text, value in read.items() if value is None and text.lower() not in MARKS | {""}}
        known = {text: np.nan if value is None else value for text, value in read.items()}
        values = np.fromiter((known[text] for text in cells.values), dtype=np.float64, count=len(cells))
        rows = [row for row, text in enumerate(cells.values) if text in unread] if unread else []
        return Numbers(values, self._numbers), rows

    def state(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Reading:
        """What `state` gave; ValueError for anything else."""
        fits = (
            set(state) == {"kind", "decimal", "thousands", "affix", "date"}
            and all(isinstance(value, str) for value in state.values())
            and state["kind"] in ("text", "number", "date", "boolean")
            and state["decimal"] in (".", ",")
            and state["thousands"] in numerals.THOUSANDS
            and state["affix"] in numerals.AFFIXES
            and set(state["date"].split("|") if state["date"] else ()) <= dates.FORMATS.keys()
            and bool(state["date"]) == (state["kind"] == "date")
        )
        if not fits:
            raise ValueError("a stored reading of a column is damaged: take the model from a copy")
        return cls(**state)

    @property
    def _numbers(self) -> Literal["number", "date"]:
        """The kind of the numbers that are read."""
        return "date" if self.kind == "date" else "number"

    def _value(self, text: str) -> float | None:
        if self.kind == "boolean":
            return _BOOLEANS.get(text.lower())
        if self.kind == "date":
            return dates.value(text, tuple(self.date.split("|")))
        return numerals.value(text, self.decimal, self.thousands, self.affix)


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A column after reading: how, what came out, which rows cannot be read so, and what is worth saying."""

    reading: Reading
    cells: Cells
    unread: list[int]
    note: str = ""
    doubtful: bool = False  # whether a comma is decimal: no cell of this column tells, but another column may


def infer(cells: Cells, decimal: Literal[".", ","] | None = None) -> Reading:
    """How a column is read: as numbers or dates if at least 95% of its cells, and two, are that; else as text."""
    return read(cells, decimal).reading


def read(cells: Cells, decimal: Literal[".", ","] | None = None, share: float = 0.95) -> Read:
    """A column read as numbers or dates if at least this share of its cells, and two, are that; else as text."""
    if isinstance(cells, Numbers):
        return Read(Reading(cells.kind), cells, [])
    if decimal != "," and (values := plain(cells)) is not None:
        known = int(np.count_nonzero(~np.isnan(values)))
        return Read(Reading("number"), Numbers(values), []) if known >= 2 else Read(Reading(), cells, [])
    if _booleans(cells.values):
        return Read(Reading("boolean"), *Reading("boolean").apply(cells))
    if len(cells) > 4 * _SAMPLE:  # text is known by a part of it: what follows looks at every cell
        some = _counts(cells.values[:: len(cells) // _SAMPLE])
        if max(numerals.found(some, decimal).cells, dates.found(some).cells) < share / 4 * some.total():
            return Read(Reading(), cells, [])
    counts = _counts(cells.values)
    least = max(2, share * counts.total())
    number = numerals.found(counts, decimal)
    reading, note = Reading(), ""
    if number.cells >= least:
        reading = Reading("number", "," if number.decimal == "," else ".", number.thousands, number.affix)
        note = "a comma is taken for a separator of thousands (if not, set decimal: ',')" if number.ambiguous else ""
        if number.told_by:
            note = f"a comma is taken for a decimal comma as in {number.told_by!r} (if not, set decimal: '.')"
    else:
        day = dates.found(counts)
        if day.cells >= least:
            reading = Reading("date", date="|".join(day.formats))
            note = "dates are read as day/month, because no cell shows the order" if day.ambiguous else ""
    return Read(reading, *reading.apply(cells), note, number.ambiguous and reading.kind == "number")


def _booleans(texts: Sequence[str]) -> bool:
    """Whether two cells or more are true or false, and all others missing: as a source with types would have them."""
    first = next((text for text in texts if text and text.lower() not in MARKS), "")
    if first.lower() not in ("true", "false"):
        return False  # at once, as for nearly all columns
    counts = _counts(texts)
    return counts.total() >= 2 and {text.lower() for text in counts} <= {"true", "false"}


def _counts(texts: Sequence[str]) -> Counter[str]:
    """How often each text comes that is not missing."""
    counts = Counter(texts)
    return Counter({text: count for text, count in counts.items() if text.lower() not in MARKS and text})


def plain(cells: Texts) -> Floats | None:
    """A column of plain finite floats, NaN where one is missing; None if any cell is something else."""
    return plain_floats(cells.values) if cells.numbers is None else cells.numbers


def plain_floats(values: Sequence[str], joined: str | None = None) -> Floats | None:
    """Cleaned texts as finite floats, NaN for ""; None if any is something else. `joined`: the same texts in one."""
    if "_" in ("".join(values) if joined is None else joined):
        return None  # Python reads 1_000 as a number, nobody else does
    blanks = values.count("")
    try:
        cells = (value or "nan" for value in values) if blanks else values
        numbers = np.fromiter(map(float, cells), dtype=np.float64, count=len(values))
    except ValueError:
        return None
    return numbers if np.count_nonzero(np.isfinite(numbers)) == len(values) - blanks else None


def clean(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Texts without white space around them, "" where one is missing; and the rows that had white space."""
    joined = "".join(values)
    if joined.split() == [joined] and joined.upper() == joined.lower():
        return list(values), []  # neither white space nor a word
    cleaned = {}
    padded = set()
    for value in set(values):
        text = value.strip()
        cleaned[value] = "" if text.lower() in MISSING or text == NO_VALUE else text
        if text != value and cleaned[value]:
            padded.add(value)
    rows = [row for row, value in enumerate(values) if value in padded] if padded else []
    return [cleaned[value] for value in values], rows


def canonical(value: float, kind: Literal["number", "date"] = "number") -> str:
    """The one text of a number or a date that is an id or a category: 7 and 7.0 are "7"; "" of NaN."""
    if math.isnan(value):
        return ""
    if not math.isfinite(value) or value != int(value):
        return repr(float(value))
    if kind == "date" and -_EPOCH < value <= _LAST_DAY:
        return date.fromordinal(int(value) + _EPOCH).isoformat()
    return str(int(value)) if abs(value) < 1e16 else repr(float(value))


def canonical_texts(cells: Cells) -> list[str]:
    """A column as ids or categories: texts as they are, numbers by their one text, dates as 2024-01-31."""
    if isinstance(cells, Texts):
        return cells.values
    distinct, places = np.unique(cells.values, return_inverse=True)
    texts = [canonical(value, cells.kind) for value in distinct.tolist()]
    return [texts[place] for place in places.tolist()]


def whole_numbers(values: NDArray[Any]) -> Cells:
    """Integers as numbers, or as texts if a float cannot hold one of them exactly."""
    if len(values) and max(abs(int(values.max())), abs(int(values.min()))) > _EXACT:
        return Texts([str(int(value)) for value in values])
    return Numbers(values.astype(np.float64))


def is_missing(cells: Cells) -> NDArray[np.bool_]:
    if isinstance(cells, Numbers):
        return np.isnan(cells.values)
    return np.fromiter((not text for text in cells.values), dtype=np.bool_, count=len(cells))


def take(cells: Cells, rows: Ints) -> Cells:
    """Some rows of a column."""
    if isinstance(cells, Numbers):
        return Numbers(cells.values[rows], cells.kind)
    return Texts([cells.values[row] for row in rows.tolist()])
