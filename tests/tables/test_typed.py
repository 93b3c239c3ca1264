"""Columns of Python's objects: one kind of cells, and numbers with one text where they are mixed with others."""

from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest

from tacit.tables.cells import Numbers, Texts
from tacit.tables.typed import typed_column


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, True, 2.5, Decimal("1.5"), None, math.nan, Decimal("nan")], [1, 1, 2.5, 1.5, *[math.nan] * 3]),
        ([np.int64(3), np.float32(0.5), np.bool_(True)], [3, 0.5, 1]),
        ([date(1970, 1, 2), np.datetime64("1970-01-03"), None], [1, 2, math.nan]),
    ],
)
def test_numbers_and_dates(values, expected):
    cells = typed_column(values)[0]
    assert isinstance(cells, Numbers)
    assert np.array_equal(cells.values, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, 7.0, "7", Decimal(7), " 7", None, "NA"], ["7", "7", "7", "7", "7", "", ""]),
        ([2**53 + 1, 7, None], ["9007199254740993", "7", ""]),
        ([Decimal(10**20)], ["100000000000000000000"]),
        ([UUID(int=1)], ["00000000-0000-0000-0000-000000000001"]),
        ([None, None], ["", ""]),
        (["x", date(2024, 1, 31)], ["x", "2024-01-31"]),
    ],
)
def test_texts(values, expected):
    cells = typed_column(values)[0]
    assert isinstance(cells, Texts)
    assert cells.values == expected


@pytest.mark.parametrize(("value", "name"), [(b"x", "bytes"), (timedelta(1), "timedelta"), ([1], "list")])
def test_other_types_are_named(value, name):
    assert typed_column([1, value]) == name
