"""What all sources share: names that differ, sizes that fit, and columns put together to a `Raw`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tacit.tables.cells import CELLS, Cells, Raw, Texts
from tacit.tables.problems import Problem, TableError, counted


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
    blank = [place for place, name in enumerate(names, 1) if not name]
    if blank:
        what = f"the header has {counted(len(blank), 'column', 'columns')} without a name, column {blank[0]} first"
        problems.append(Problem("error", "header", where, what, "give each one a name", place=line, count=len(blank)))
    for name, times in sorted(Counter(filter(None, names)).items()):
        if times == 1:
            continue
        what = f"the header has the column {name!r} {times} times"
        problems.append(Problem("error", "header", where, what, "give each column its own name", place=line))
    own: list[str] = []
    taken: set[str] = set()
    for place, name in enumerate(names, 1):
        own.append(f"column {place}" if not name else f"{name} (column {place})" if name in taken else name)
        taken.add(own[-1])
    return tuple(own), problems


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
            what = f"{column} is no text, number or date"
            remedy = "leave the column out, or convert it first"
            listed.append(Problem("error", "type", where, what, remedy, column=name))
        elif column[1]:
            padded[name] = tuple(column[1])
    return Raw(where, names, tuple(columns), lambda row: f"row {row + 1}", tuple(listed), padded)
