"""A table from a pandas or polars frame. Neither is imported: a frame is known by what it can do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.tables.assembly import assembled, fatal, header, too_large
from tacit.tables.cells import CELLS, Cells, Numbers, Raw, whole_numbers
from tacit.tables.typed import typed_column

_WHERE = "the frame"


def read_frame(frame: Any) -> Raw:
    """The table of a frame, with its columns by name. The index of a pandas frame is no column."""
    if callable(getattr(frame, "collect", None)):
        frame = frame.collect()  # a lazy frame of polars
    if not all(hasattr(frame, name) for name in ("columns", "shape", "dtypes")):
        what = f"{type(frame).__name__} is not a frame"
        raise fatal("frame", _WHERE, what, "give a DataFrame of pandas or polars")
    rows, width = frame.shape
    if rows * width > CELLS:
        raise too_large(_WHERE, rows - 1, width)
    names, problems = header(_WHERE, [str(name) for name in frame.columns])
    series = [frame.iloc[:, place] if hasattr(frame, "iloc") else frame[:, place] for place in range(width)]
    return assembled(_WHERE, names, problems, list(map(_column, series)))


def _column(series: Any) -> tuple[Cells, list[int]] | str:
    """Plain arrays of numbers as they are; all else, such as nullable integers, by Python's objects."""
    plain = getattr(series.dtype, "kind", "") if isinstance(series.dtype, np.dtype) else ""
    if plain == "f":
        return Numbers(series.to_numpy().astype(np.float64)), []
    if plain in ("i", "u", "b"):
        return whole_numbers(series.to_numpy().astype(np.int64) if plain == "b" else series.to_numpy()), []
    return typed_column(series.to_list())
