"""Frames of pandas and polars give the cells that a file with the same table gives."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest

from tacit.tables.cells import Numbers
from tacit.tables.frames import read_frame

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")


def check(raw):
    assert raw.column("id").values == ["007", "x", "y"]
    assert raw.padded == {"id": (1,)}
    assert raw.column("large").values == ["100000000000000001", "7", "8"]
    for name, expected in {"whole": [1, math.nan, 3], "real": [1.5, math.nan, 2], "glad": [1, 0, math.nan]}.items():
        assert np.array_equal(raw.column(name).values, expected, equal_nan=True), name
    assert np.array_equal(raw.column("price").values, [1.5, math.nan, 2], equal_nan=True)
    assert raw.column("city").values == ["Rome", "", "Oslo"]
    assert raw.column("note").values == ["a", "", "b"]
    for name in ("day", "moment"):
        assert raw.column(name).kind == "date", name
    assert np.array_equal(raw.column("day").values, [19753, math.nan, 0], equal_nan=True)
    assert np.array_equal(raw.column("moment").values, [19753.5, math.nan, 0], equal_nan=True)
    assert raw.problems == ()
    assert raw.place(0) == "row 1"


COLUMNS = {
    "id": ["007", " x", "y"],
    "large": [10**17 + 1, 7, 8],
    "price": [Decimal("1.50"), None, Decimal(2)],
    "note": ["a", None, "b"],
    "day": [date(2024, 1, 31), None, date(1970, 1, 1)],
    "moment": [datetime(2024, 1, 31, 12), None, datetime(1970, 1, 1)],
}


def test_a_frame_of_pandas():
    check(
        read_frame(
            pandas.DataFrame(
                COLUMNS
                | {
                    "whole": pandas.array([1, pandas.NA, 3], dtype="Int64"),
                    "real": [1.5, math.nan, 2],
                    "glad": pandas.array([True, False, pandas.NA], dtype="boolean"),
                    "city": pandas.Categorical(["Rome", None, "Oslo"]),
                    "moment": pandas.to_datetime(COLUMNS["moment"]),
                }
            )
        )
    )


def test_times_with_a_zone_are_in_utc():
    moments = pandas.to_datetime(["2024-01-31 12:00", "1970-01-01 01:00"]).tz_localize("Europe/Rome")
    raw = read_frame(pandas.DataFrame({"id": ["x", "y"], "moment": moments}))
    assert raw.column("moment").values == pytest.approx([19753 + 11 / 24, 0])


@pytest.mark.parametrize("lazy", [False, True])
def test_a_frame_of_polars(lazy):
    frame = polars.DataFrame(
        COLUMNS
        | {
            "whole": [1, None, 3],
            "real": [1.5, math.nan, 2.0],
            "glad": [True, False, None],
            "city": polars.Series(["Rome", None, "Oslo"], dtype=polars.Categorical),
        }
    )
    check(read_frame(frame.lazy() if lazy else frame))


def test_plain_columns_of_pandas_are_numbers():
    raw = read_frame(pandas.DataFrame({"id": [1, 2], "a": [1.5, 2], "b": [True, False]}))
    assert all(isinstance(column, Numbers) for column in raw.columns)
    assert raw.column("b").values.tolist() == [1, 0]


def test_types_that_are_no_cells():
    raw = read_frame(pandas.DataFrame({"id": ["x"], "many": [[1, 2]]}))
    assert [(problem.column, problem.kind) for problem in raw.problems] == [("many", "type")]


def test_what_is_no_frame():
    with pytest.raises(ValueError, match="dict is not a frame"):
        read_frame({"id": [1]})
