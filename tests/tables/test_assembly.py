"""Names that a header lacks or has twice: tables that people join and export have both."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.tables.assembly import header, without_copies
from tacit.tables.cells import Numbers, Raw, Texts
from tacit.tables.settings import Data
from tacit.tables.table import TableError, checked, open_rows, open_table


@pytest.fixture
def write(tmp_path):
    def write(first, cells, rows=60, name="bank.csv"):
        lines = [first, *(",".join(map(str, cells(row))) for row in range(rows))]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return name

    return write


def test_a_column_without_a_name_is_called_by_its_place_and_can_be_the_id(write, tmp_path):
    """As R and pandas export row names."""
    data = Data(path=write(",y,age,", lambda row: (row + 1, row % 2, 20 + row * 7 % 50, "")), label="y")
    table = open_table(data, tmp_path, label="classes")
    assert table.ids[:2] == ["1", "2"]
    assert [choice.use for choice in table.choices] == ["numeric", "drop"]
    named = Data(path=data.path, id="column 1", label="y")
    assert open_table(named, tmp_path, label="classes").ids == table.ids
    first, second = (problem for problem in checked(data, tmp_path, "classes").problems if problem.kind == "header")
    assert "line 1: the header has no name for column 1" in str(first)
    assert "it is called 'column 1'" in str(first)
    assert (first.severity, second.severity) == ("warning", "warning")


def test_names_that_are_made_differ_from_those_that_are_there():
    names, problems = header("bank.csv", ["", "column 1", "a", "a", "a (column 4)", "a"])
    assert names == ("column 1*", "column 1", "a", "a (column 4)*", "a (column 4)", "a (column 6)")
    assert [problem.severity for problem in problems] == ["warning", "error", "error"]


def test_a_copy_of_a_column_is_left_out(write, tmp_path):
    data = Data(path=write("id,y,age,age", lambda row: (row, row % 2, row % 9, row % 9)))
    found = checked(data, tmp_path, "classes")
    assert not found.errors
    assert list(found.contents.cells) == ["age"]
    assert any("there again with the same cells" in note for note in found.contents.notes)


def test_columns_of_one_name_with_different_cells_are_refused_until_one_is_dropped(write, tmp_path):
    path = write("id,y,age,age", lambda row: (row, row % 2, row % 9, row % 9 + (row == 7)))
    for columns in (None, ("age",), {"age": "drop"}):
        (error,) = checked(Data(path=path, columns=columns), tmp_path, "classes").errors
        assert "the column 'age' 2 times, with different cells" in str(error)
        assert "set `age (column 4): drop` under columns" in str(error)
    dropped = Data(path=path, columns={"age (column 4)": "drop"})
    table = open_table(dropped, tmp_path, label="classes")
    assert table.cells["age"].values[7] == 7
    rows = open_rows(dropped, tmp_path, table.fit(np.arange(60)))
    assert rows.cells["age"].values.tolist() == [row % 9 for row in range(60)]


def test_ids_of_one_name_with_different_cells_are_refused(write, tmp_path):
    path = write("id,y,id,age", lambda row: (row, row % 2, row + 1, row % 9))
    (error,) = checked(Data(path=path, columns=("age",)), tmp_path, "classes").errors
    assert "the column 'id' 2 times" in str(error)


def test_new_rows_in_which_a_copy_has_other_cells_are_refused(write, tmp_path):
    data = Data(path=write("id,y,age,age", lambda row: (row, row % 2, row % 9, row % 9)))
    fitted = open_table(data, tmp_path, label="classes").fit(np.arange(60))
    same = Data(path=write("id,age,age", lambda row: (row, 5, 5), rows=1, name="new.csv"))
    assert open_rows(same, tmp_path, fitted).cells["age"].values.tolist() == [5.0]
    other = Data(path=write("id,age,age", lambda row: (row, 5, 6), rows=1, name="other.csv"))
    with pytest.raises(TableError, match="the column 'age' 2 times, with different cells"):
        open_rows(other, tmp_path, fitted)


def test_copies_among_typed_columns():
    names, problems = header("frame", ["a", "a", "a", "a"])
    numbers = Numbers(np.array([1.0, np.nan]))
    columns = (numbers, Numbers(np.array([1.0, np.nan])), Numbers(np.array([1.0, np.nan]), "date"), Texts(["1", ""]))
    raw = without_copies(Raw("frame", names, columns, lambda row: f"row {row}", tuple(problems)))
    assert raw.names == ("a", "a (column 3)", "a (column 4)")
    assert [problem.severity for problem in raw.problems] == ["warning", "error", "error"]
