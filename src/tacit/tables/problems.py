"""What is wrong with a table: each problem with its place, value and remedy, in one sentence.

Sentences name files, lines and values: they stay with the party whose table it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

_PLACES = 3  # of a kind of problem in a column that are named; the rest is counted
_SHOWN = 30  # characters of a cell in a message

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem in one column, or of the table. Errors block a run; warnings are said."""

    severity: Severity
    kind: str  # a short name of what is wrong: unread, missing, constant
    where: str  # the file or the database
    what: str
    remedy: str
    place: str = ""  # "line 7", or "lines 7, 9 and 12"
    column: str = ""
    value: str = ""  # the cells at these places
    count: int = 1  # of cells or rows

    def __str__(self) -> str:
        column = f"column {self.column!r}" if self.column else ""
        value = f" ({self.value})" if self.value else ""
        words = f"{', '.join(filter(None, (self.where, self.place, column)))}: {self.what}{value}: {self.remedy}"
        return printable(words)


class TableError(ValueError):
    """A table that cannot be used as it is: every error, one a line, behind their number."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [problem for problem in problems if problem.severity == "error"]
        where = sorted({problem.where for problem in errors})
        many = f"{len(errors)} problems" if len(errors) != 1 else "1 problem"
        super().__init__("\n".join([f"{', '.join(where)}: {many} to correct first", *map(str, errors)]))


def printable(words: str) -> str:
    """Words in which no name or cell of a table starts a line of its own or steers a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in words)


def places(place: Callable[[int], str], rows: Sequence[int]) -> str:
    """What the first rows are called: "line 7", or "lines 7, 9 and 12"."""
    names = [place(int(row)) for row in rows[:_PLACES]]
    word = names[0].partition(" ")[0]
    if len(names) == 1 or any(not name.startswith(f"{word} ") for name in names):
        return ", ".join(names)
    numbers = [name.partition(" ")[2] for name in names]
    return f"{word}s {', '.join(numbers[:-1])} and {numbers[-1]}"


def shown(values: Sequence[str]) -> str:
    """The first cells, each cut to a length that a message can hold."""
    first = [repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…") for value in values[:_PLACES]]
    return ", ".join(dict.fromkeys(first)) + (", …" if len(values) > _PLACES else "")


def counted(count: int, one: str, many: str) -> str:
    """ "1 cell is", "17 cells are"."""
    return f"{count} {one if count == 1 else many}"
