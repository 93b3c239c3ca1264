"""Ids and numbers of a file as they stand there: nothing is chosen or filled in, and all that is no number is said."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.tables.plain import read_numbers
from tacit.tables.problems import TableError

GOOD = "id,y,age,income\n007,1,30,1.5\nA 2,0,41,-2e3\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="bank.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_first_column_holds_ids_and_the_second_labels_if_asked(write):
    table = read_numbers(write(GOOD), label=True)
    assert table.ids == ["007", "A 2"]
    assert table.labels.codes.tolist() == [1, 0]
    assert table.names == ("age", "income")
    assert table.features.tolist() == [[30, 1.5], [41, -2000]]
    assert read_numbers(write(GOOD)).names == ("y", "age", "income")


def test_columns_by_name_in_their_order(write):
    path = write("a,who,b,sick\n1,x,2,0\n3,y,4,1\n")
    table = read_numbers(path, id="who", label="sick", columns=["b", "a"])
    assert (table.ids, table.names, table.labels.codes.tolist()) == (["x", "y"], ("b", "a"), [0, 1])
    assert table.features.tolist() == [[2, 1], [4, 3]]


def test_one_row_and_a_constant_column_stay(write):
    assert read_numbers(write("id,a\nx,7\n")).features.tolist() == [[7]]


def test_a_table_may_have_ids_and_labels_only(write):
    assert read_numbers(write("id,y\nx,0\ny,1\n"), label=True).features.shape == (2, 0)


def test_missing_values_are_refused_or_kept(write):
    path = write("id,a,b\nx,1,2\n\ny,1,\nz,2,NA\n")
    with pytest.raises(TableError, match=r"bank.csv, lines 4 and 5, column 'b': 2 values are missing"):
        read_numbers(path)
    assert np.isnan(read_numbers(path, missing=True).features).tolist() == [[False] * 2, [False, True], [False, True]]
    with pytest.raises(TableError, match="column 'a': 2 values are missing"):
        read_numbers(write("id,a\nx,\ny,\n"), missing=True)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,a\nx,1\ny,red\n", {}, r"line 3, column 'a': 1 cell is not a number \('red'\): recode"),
        ("id;a\nx;1\ny;1,5\n", {}, r"line 3, column 'a': 1 cell is not a number \('1,5'\)"),
        ("id,a\nx,1_000\n", {}, r"line 2, column 'a': 1 cell is not a number"),
        ("id,a\nx,inf\n", {}, r"line 2, column 'a': 1 cell is not a number"),
        ("id,y,a\nx,0,1\ny,0,2\n", {"label": True}, "one class only"),
        ("id,y,a\nx,0,1\ny,,2\nz,1,2\n", {"label": True}, "line 3, column 'y': 1 row has no label"),
        ("id,a\nx,1\ny,1,2\n", {}, "line 3: 1 line has another number of cells"),
        ("id,a\n", {}, "no rows"),
        (GOOD, {"id": "name"}, "no column 'name'"),
        (GOOD, {"columns": ["age", "age"]}, "neither the ids nor the labels"),
        (GOOD, {"columns": ["id"]}, "neither the ids nor the labels"),
    ],
)
def test_what_cannot_be_read_is_said(write, text, options, message):
    with pytest.raises(TableError, match=message):
        read_numbers(write(text), **options)
