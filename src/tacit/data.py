"""Tables of a party: CSV and Parquet files as ids, features and labels.

    read_table(path, id_column=..., label_column=..., missing=...)    -> Table

A file has a header and one row a person. The first column holds the ids unless another is named; with
`label_column=True` the second one holds the labels. All others are features, or those that `features` names.
- Ids are text, as they are written: "007" is not "7".
- Features are numbers. A cell that is empty or says NA, N/A, NaN, null or None is missing: it is refused, or with
  `missing="mean"` replaced by the mean of its column in this file. Infinite numbers are refused.
- Labels have exactly two values, which become 0 and 1 in their order, of numbers if both are numbers. None is missing.
- A column with one value only is kept, and said in `notes`.
- CSV: UTF-8; comma, semicolon or tab, whichever the header has most of. Parquet needs the extra `parquet`.

Whatever cannot be read is a ValueError with the file, the line or column, and what to do.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})  # in any case, with white space around
DELIMITERS = (",", ";", "\t")
_BLOCK = 1 << 12  # rows that are turned into numbers at a time
_SHOWN = 30  # characters of a cell in a message, which stays with this party

Floats = NDArray[np.float64]
Missing = Literal["refuse", "mean"]


@dataclass(frozen=True, slots=True)
class Table:
    """One party's rows. `labels` are 0 and 1, or None where none were asked for."""

    ids: list[str]
    features: Floats
    names: tuple[str, ...]  # of the features
    labels: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()  # sentences about what was done or may surprise


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns of a file play which part, by position."""

    header: tuple[str, ...]
    id: int
    label: int | None
    features: tuple[int, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(self.header[column] for column in self.features)


@dataclass(frozen=True, slots=True)
class _Raw:
    """A file's columns before missing values are treated: NaN is missing."""

    columns: _Columns
    ids: list[str]
    features: Floats
    labels: list[str] | None
    place: Callable[[int], str]  # what a row is called in messages


def read_table(
    path: str | Path,
    *,
    id_column: str | None = None,
    label_column: str | Literal[True] | None = None,
    features: Sequence[str] | None = None,
    missing: Missing = "refuse",
) -> Table:
    """The table of a file, which is Parquet if its name ends in .parquet or .pq, and CSV otherwise.

    Args:
        id_column: its name; by default the first column.
        label_column: its name, or True for the second column (the first beside the ids); by default there are none.
        features: the names of the features, in the order they are wanted; by default all other columns.
        missing: "refuse" a missing feature, or put in the "mean" of its column.
    """
    path = Path(path)
    if missing not in ("refuse", "mean"):
        raise ValueError(f"missing must be refuse or mean, got {missing!r}")

    def choose(header: Sequence[str]) -> _Columns:
        return _choose(path, header, id_column, label_column, features)

    parquet = path.suffix.lower() in (".parquet", ".pq")
    raw = _read_parquet(path, choose) if parquet else _read_csv(path, choose)
    if not raw.ids:
        raise ValueError(f"{path}: no rows under the header")
    notes: list[str] = []
    values = _without_missing(path, raw, missing, notes)
    names = raw.columns.names()
    for column, name in enumerate(names):
        if values[:, column].min() == values[:, column].max():
            notes.append(f"The column {name!r} has one value only: it is kept, and tells the model nothing.")
    labels = None if raw.labels is None else _two_classes(path, raw, notes)
    return Table(raw.ids, values, names, labels, tuple(notes))


def _choose(
    path: Path,
    header: Sequence[str],
    id_column: str | None,
    label_column: str | Literal[True] | None,
    features: Sequence[str] | None,
) -> _Columns:
    names = tuple(name.strip() for name in header)
    if not names or not all(names):
        raise ValueError(f"{path}: the header has a column without a name: give each one a name")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: the header has the column {twice[0]!r} twice: give each one its own name")
    if _is_number(names[0]) and all(map(_is_number, names)):
        raise ValueError(f"{path}: the first line has numbers only: the file needs a header with the columns' names")

    def position(name: str) -> int:
        if name not in names:
            raise ValueError(f"{path}: there is no column {name!r}; the header has {', '.join(names[:20])}")
        return names.index(name)

    identity = 0 if id_column is None else position(id_column)
    label: int | None = None
    if label_column is True:
        if len(names) < 2:
            raise ValueError(f"{path}: labels are the second column, and there is only {names[0]!r}")
        label = 1 if identity == 0 else 0
    elif label_column is not None:
        label = position(label_column)
    if label == identity:
        raise ValueError(f"{path}: the column {names[identity]!r} cannot hold both ids and labels")
    if features is None:
        chosen = tuple(column for column in range(len(names)) if column not in (identity, label))
    else:
        chosen = tuple(position(name) for name in features)
    if {identity, label} & set(chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(f"{path}: features must be different columns, and neither the ids nor the labels")
    return _Columns(names, identity, label, chosen)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_csv(path: Path, choose: Callable[[Sequence[str]], _Columns]) -> _Raw:
    ids: list[str] = []
    labels: list[str] = []
    blocks: list[Floats] = []
    try:
        with _rows(path) as rows:
            columns = choose(next(rows, []))
            while block := list(islice(filter(None, rows), _BLOCK)):  # empty lines are left out
                start = len(ids)
                _check_widths(path, block, len(columns.header), start)
                cells = list(zip(*block, strict=True))
                ids.extend(cells[columns.id])
                if columns.label is not None:
                    labels.extend(cells[columns.label])
                numbers = [_numbers(path, columns.header[column], cells[column], start) for column in columns.features]
                blocks.append(np.column_stack(numbers) if numbers else np.empty((len(block), 0)))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason}): save the file as CSV UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"{path}, {_line(path, sys.maxsize - 1)}: {error}: check the quotes") from None
    features = np.concatenate(blocks) if blocks else np.empty((0, len(columns.features)))
    return _Raw(columns, ids, features, labels if columns.label is not None else None, partial(_line, path))


@contextmanager
def _rows(path: Path) -> Iterator[Any]:
    """A reader of the file's rows, the header first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        file.seek(0)
        yield csv.reader(file, delimiter=max(DELIMITERS, key=header.count), strict=True)


def _line(path: Path, row: int) -> str:
    """Where a row ends in the file, or what cannot be read before it. Reads again, so faultless files pay nothing."""
    with _rows(path) as rows, suppress(csv.Error):
        next(islice(filter(None, rows), row + 1, None), None)  # the header is the first
    return f"line {rows.line_num}"


def _check_widths(path: Path, block: list[list[str]], width: int, start: int) -> None:
    if set(map(len, block)) != {width}:
        row = next(row for row, cells in enumerate(block) if len(cells) != width)
        where = f"{path}, {_line(path, start + row)}"
        raise ValueError(f"{where}: {len(block[row])} cells where the header has {width}: correct the line")


def _numbers(path: Path, name: str, cells: Sequence[str], start: int) -> Floats:
    """A column's cells as numbers, NaN where one is missing."""
    try:
        if "_" in "".join(cells):
            raise ValueError  # Python reads 1_000 as a number, nobody else does
        return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        return np.array([_number(path, name, cell, start + row) for row, cell in enumerate(cells)])


def _number(path: Path, name: str, cell: str, row: int) -> float:
    if cell.strip().lower() in MISSING:
        return float("nan")
    if "_" in cell or not _is_number(cell):
        hint = "write a point for the decimal comma" if _is_number(cell.replace(",", ".")) else "recode it as numbers"
        where = f"{path}, {_line(path, row)}, column {name!r}"
        raise ValueError(f"{where}: {cell[:_SHOWN]!r} is no number: {hint}, or leave the column out")
    return float(cell)


def _without_missing(path: Path, raw: _Raw, missing: Missing, notes: list[str]) -> Floats:
    values = raw.features
    for index, name in enumerate(raw.columns.names()):
        column = values[:, index]
        if np.isinf(column).any():
            row = int(np.flatnonzero(np.isinf(column))[0])
            raise ValueError(f"{path}, {raw.place(row)}, column {name!r}: an infinite number: correct it")
        absent = np.flatnonzero(np.isnan(column))
        if not len(absent):
            continue
        if missing == "refuse":
            raise ValueError(
                f"{path}, {raw.place(int(absent[0]))}, column {name!r}: the first of {len(absent)} missing values: "
                "fill them in, leave the column out, or set missing to mean"
            )
        if len(absent) == len(column):
            raise ValueError(f"{path}, column {name!r}: all values are missing: leave the column out")
        column[absent] = np.delete(column, absent).mean()
        notes.append(f"The column {name!r} lacked {len(absent)} of {len(column)} values: its mean was put in.")
    return values


def _two_classes(path: Path, raw: _Raw, notes: list[str]) -> NDArray[np.int64]:
    """The labels as 0 and 1."""
    texts = [text.strip() for text in raw.labels or ()]
    name = raw.columns.header[raw.columns.label or 0]
    found = set(texts)
    absent = {text for text in found if text.lower() in MISSING}
    if absent:
        row = next(row for row, text in enumerate(texts) if text in absent)
        raise ValueError(f"{path}, {raw.place(row)}, column {name!r}: a label is missing: fill it in or remove the row")
    numeric = all(map(_is_number, found))
    keys: dict[str, float | str] = {text: float(text) if numeric else text for text in found}
    classes = sorted(set(keys.values()), key=lambda key: key)
    if len(classes) != 2:
        some = ", ".join(str(value)[:_SHOWN] for value in classes[:5])
        raise ValueError(
            f"{path}, column {name!r}: {len(classes)} different labels ({some}): there must be exactly two"
        )
    if classes != [0, 1]:
        shown = [str(value)[:_SHOWN] for value in classes]
        notes.append(f"In the column {name!r} {shown[0]} is taken as 0 and {shown[1]} as 1.")
    codes = {text: int(key == classes[1]) for text, key in keys.items()}
    return np.fromiter((codes[text] for text in texts), dtype=np.int64, count=len(texts))


def _read_parquet(path: Path, choose: Callable[[Sequence[str]], _Columns]) -> _Raw:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ValueError(f"{path}: Parquet needs the extra parquet: pip install 'tacit[parquet]'") from None
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = choose(file.schema_arrow.names)
            chosen = (columns.id, columns.label, *columns.features)
            names = [file.schema_arrow.names[column] for column in chosen if column is not None]
            table = file.read(columns=names)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: no Parquet file that can be read: {error}") from None
    identity = _texts(path, columns.header[columns.id], table.column(0))
    labels = None
    if columns.label is not None:
        labels = _texts(path, columns.header[columns.label], table.column(1), floats=True)
    features = np.empty((table.num_rows, len(columns.features)))
    for index, name in enumerate(columns.names()):
        features[:, index] = _arrow_numbers(path, name, table.column(len(names) - len(columns.features) + index))
    return _Raw(columns, identity, features, labels, lambda row: f"row {row + 1}")


def _texts(path: Path, name: str, column: Any, floats: bool = False) -> list[str]:
    import pyarrow.types as types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    numbers = types.is_integer(kind) or (floats and (types.is_floating(kind) or types.is_boolean(kind)))
    if not (numbers or types.is_string(kind) or types.is_large_string(kind)):
        raise ValueError(f"{path}, column {name!r}: ids are text or integers, not {column.type}: write them as text")
    return ["" if value is None else _plain(value) for value in column.to_pylist()]


def _plain(value: str | float) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _arrow_numbers(path: Path, name: str, column: Any) -> Floats:
    import pyarrow
    import pyarrow.types as types

    kind = column.type
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    if not numeric:
        raise ValueError(f"{path}, column {name!r}: {kind} is no number: recode it as numbers or leave it out")
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    values: Floats = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values
