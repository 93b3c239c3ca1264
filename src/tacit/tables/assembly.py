"""What all sources share: names that differ, sizes that fit, and columns put together to a `Raw`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from tacit.tables.cells import CELLS, Cells, Numbers, Raw, Texts
from tacit.tables.problems import Problem, TableError

TWICE = "name again"  # the kind of problem of a column whose name another column has
_CALLED = " (column "  # between its name and its number


def fatal(kind: str, where: str, what: str, remedy: str, place: str = "") -> TableError:
    """A problem after which nothing of the table can be read."""
    return TableError([Problem("error", kind, where, what, remedy, place=place)])


def too_large(where: str, rows: int, width: int) -> TableError:
    what = f"more than {rows} rows of {width} columns"
    return fatal("size", where, what, f"a table has at most {CELLS} cells: leave out rows or columns")


def header(where: str, given: Sequence[str], line: str = "") -> tuple[tuple[str, ...], list[Problem]]:
    """The names of the columns, made different where they are not, and what is wrong with them."""
    names = [name.strip() for name in given]
    if not any(names):
        raise fatal("header", where, "the header is empty", "the first line names the columns", line)
    if all(map(_is_number, names)):
        remedy = "the table needs a header with the columns' names"
        raise fatal("header", where, "the first line has numbers only", remedy, line)
    problems = []
    own: list[str] = []
    counts, taken = Counter(names), set[str]()
    for place, name in enumerate(names, 1):
        if not name:
            own.append(apart(f"column {place}", counts))
            what = f"the header has no name for column {place}, as tables with row names often do"
            problems.append(Problem("warning", "header", where, what, f"it is called {own[-1]!r}", place=line))
        elif name in taken:
            own.append(apart(f"{name}{_CALLED}{place})", counts))
            what = f"the header has the column {name!r} {counts[name]} times, with different cells"
            remedy = f"give each its own name, or set `{own[-1]}: drop` under columns"
            problems.append(Problem("error", TWICE, where, what, remedy, place=line, column=own[-1]))
        else:
            own.append(name)
        taken.add(name)
    return tuple(own), problems


def apart(name: str, names: Collection[str]) -> str:
    """A name that no column of the header has."""
    while name in names:
        name = f"{name}*"
    return name


def first_of(problem: Problem) -> str:
    """The name that a column of a problem has in common with another one, which has it alone."""
    return problem.column.rpartition(_CALLED)[0]


def without_copies(raw: Raw) -> Raw:
    """The table without columns whose name and cells are those of a column before: joined tables often have such."""
    copies = set()
    problems = []
    for problem in raw.problems:
        name = first_of(problem)
        if problem.kind == TWICE and name in raw.names and _alike(raw.column(name), raw.column(problem.column)):
            copies.add(problem.column)
            what = f"the column {name!r} is there again with the same cells, as {problem.column!r}"
            problem = Problem("warning", "copy", raw.where, what, "it is left out", problem.place, name)
        problems.append(problem)
    if not copies:
        return raw
    kept = [place for place, name in enumerate(raw.names) if name not in copies]
    names = tuple(raw.names[place] for place in kept)
    return replace(raw, names=names, columns=tuple(raw.columns[place] for place in kept), problems=tuple(problems))


def _alike(one: Cells, other: Cells) -> bool:
    if isinstance(one, Texts) and isinstance(other, Texts):
        return one.values == other.values
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return one.kind == other.kind and np.array_equal(one.values, other.values, equal_nan=True)
    return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def assembled(
    where: str, names: tuple[str, ...], problems: Sequence[Problem], found: Sequence[tuple[Cells, list[int]] | str]
) -> Raw:
    """The table of a typed source. `found`: a column and its rows with white space around a text, or a type's name."""
    rows = next((len(column[0]) for column in found if not isinstance(column, str)), 0)
    columns = [Texts([""] * rows) if isinstance(column, str) else column[0] for column in found]
    listed = list(problems)
    padded = {}
    for name, column in zip(names, found, strict=True):
        if isinstance(column, str):
            what = f"{column} is not text, a number or a date"
            remedy = "leave the column out, or convert it first"
            listed.append(Problem("error", "type", where, what, remedy, column=name))
        elif column[1]:
            padded[name] = tuple(column[1])
    return Raw(where, names, tuple(columns), lambda row: f"row {row + 1}", tuple(listed), padded)
