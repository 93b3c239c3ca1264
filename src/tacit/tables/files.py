"""Tables in files: CSV and Parquet.

CSV has a header and is UTF-8. Its delimiter is a comma, a semicolon, a tab or a bar, whichever the header has most of.
A line with too many or too few cells is a problem and left out, so that everything else can be checked; the same holds
for a header with a name twice or missing. Whatever else cannot be read at all is a `TableError`.
Parquet needs the extra `parquet`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tacit.tables.assembly import assembled, fatal, header, too_large
from tacit.tables.cells import CELLS, SEPARATOR, Cells, Floats, Numbers, PlainTexts, Raw, Texts, clean, plain_floats
from tacit.tables.problems import Problem, counted, places

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SPREADSHEETS = {".xls", ".xlsx", ".xlsm", ".xlsb", ".ods", ".numbers"}
DELIMITERS = (",", ";", "\t", "|")
_BLOCK = 1 << 12  # rows that are turned into columns at a time


def read_file(path: Path) -> Raw:
    """The table of a file, which is Parquet if its name ends in .parquet or .pq, and CSV otherwise."""
    if not path.is_file():
        start = "" if path.is_absolute() else ", which starts from the current folder"
        raise fatal("file", str(path), "there is no such file", f"correct the path{start}")
    if path.suffix.lower() in _SPREADSHEETS:
        raise fatal("file", str(path), "spreadsheets are not read", "save the sheet as CSV UTF-8 or as Parquet")
    return _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)


@contextmanager
def _rows(path: Path) -> Iterator[Any]:
    """A reader of the file's rows, the header first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        bare = _QUOTED.sub("", first)  # a name in quotes may hold delimiters
        yield csv.reader(file, delimiter=max(DELIMITERS, key=bare.count), strict=True)


class _Lines:
    """The lines on which rows end. The file is read again for the first one asked, so faultless files pay nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ends: list[int] | None = None
        self.wrong: list[tuple[int, int]] = []  # lines with another number of cells than the header, and their number

    def __call__(self, row: int) -> str:
        if self._ends is None:
            self._ends = self.read()
        return f"line {self._ends[row]}"

    def read(self) -> list[int]:
        ends = []
        self.wrong = []
        with _rows(self._path) as rows, suppress(csv.Error):
            width = len(next(rows, []))
            for row in filter(None, rows):
                if len(row) == width:
                    ends.append(rows.line_num)
                else:
                    self.wrong.append((rows.line_num, len(row)))
        return ends


class _Column:
    """A column that grows by blocks, which are read as floats while they are at hand, as long as all are that."""

    def __init__(self) -> None:
        self.padded: list[int] = []
        self._plain: list[tuple[str, Floats]] = []
        self._values: list[str] | None = None  # once a block is something else

    def add(self, cells: Sequence[str], start: int) -> None:
        if self._values is None:
            joined = SEPARATOR.join(cells)
            numbers = plain_floats(cells, joined) if joined.split() == [joined] else None
            if numbers is not None:
                self._plain.append((joined, numbers))
                return
            self._values = self.texts().values
        cleaned, rows = clean(cells)
        self.padded += [start + row for row in rows]
        self._values += cleaned

    def texts(self) -> Texts:
        if self._values is not None or not self._plain:
            return Texts(self._values or [])
        return PlainTexts([block for block, _ in self._plain], np.concatenate([part for _, part in self._plain]))


def _read_csv(path: Path) -> Raw:
    where = str(path)
    columns: list[_Column] = []
    count, uneven = 0, False
    try:
        with _rows(path) as rows:
            names, problems = header(where, next(rows, []), "line 1")
            width = len(names)
            columns = [_Column() for _ in names]
            try:
                while block := list(islice(filter(None, rows), _BLOCK)):  # empty lines are left out
                    if set(map(len, block)) != {width}:
                        uneven = True
                        block = [row for row in block if len(row) == width]
                    for column, cells in zip(columns, zip(*block, strict=True), strict=bool(block)):
                        column.add(cells, count)
                    count += len(block)
                    if count * width > CELLS:
                        raise too_large(where, count - len(block), width)
            except csv.Error as error:
                place = f"line {rows.line_num}"
                problems.append(Problem("error", "quotes", where, str(error), "check the quotes", place))
    except UnicodeDecodeError as error:
        raise fatal("encoding", where, f"not UTF-8 ({error.reason})", "save the file as CSV UTF-8") from None
    except csv.Error as error:
        raise fatal("quotes", where, str(error), "check the quotes", "line 1") from None
    lines = _Lines(path)
    if uneven:
        problems.append(_uneven(where, lines, width))
    padded = {name: tuple(column.padded) for name, column in zip(names, columns, strict=True) if column.padded}
    return Raw(where, names, tuple(column.texts() for column in columns), lines, tuple(problems), padded)


def _uneven(where: str, lines: _Lines, width: int) -> Problem:
    lines.read()
    found = [line for line, _ in lines.wrong]
    sizes = ", ".join(str(cells) for _, cells in lines.wrong[:3])
    what = f"{counted(len(found), 'line has', 'lines have')} another number of cells than the header, which has {width}"
    place = places(lambda index: f"line {found[index]}", range(len(found)))
    remedy = "correct them, with quotes around cells that hold the delimiter"
    return Problem("error", "width", where, what, remedy, place, value=f"{sizes} cells", count=len(found))


def _read_parquet(path: Path) -> Raw:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise fatal(
            "extra", str(path), "Parquet needs the extra parquet", "pip install 'tacit-learning[parquet]'"
        ) from None
    where = str(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names, problems = header(where, file.schema_arrow.names)
            if file.metadata.num_rows * len(names) > CELLS:
                raise too_large(where, file.metadata.num_rows - 1, len(names))
            table = file.read()
    except pyarrow.ArrowException as error:
        raise fatal("file", where, f"no Parquet file that can be read ({error})", "write it again") from None
    return assembled(where, names, problems, [_arrow(column) or str(column.type) for column in table.columns])


def _arrow(column: Any) -> tuple[Cells, list[int]] | None:
    """A column of Arrow, and the rows with white space around a text; None for types that are no cells."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        texts, spaces = clean(["" if value is None else value for value in column.to_pylist()])
        return Texts(texts), spaces
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale <= 0):
        if any(abs(int(value.as_py() or 0)) > 2**53 for value in pyarrow.compute.min_max(column).values()):
            return Texts(["" if value is None else str(int(value)) for value in column.to_pylist()]), []
        return Numbers(_floats(column)), []
    if types.is_boolean(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Numbers(_floats(column)), []
    if types.is_date(kind):
        return Numbers(_floats(column.cast(pyarrow.date32()).cast(pyarrow.int32())), "date"), []
    if types.is_timestamp(kind):
        ticks = column.cast(pyarrow.timestamp("us", tz=kind.tz), safe=False).cast(pyarrow.int64())
        return Numbers(_floats(ticks) / 86_400_000_000, "date"), []
    return None


def _floats(column: Any) -> Any:
    import pyarrow

    values = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)
