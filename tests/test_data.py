"""Tables from files: ids stay text, numbers stay exact, and what cannot be read is said with its place and remedy."""

from __future__ import annotations

import builtins
import csv
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data import read_table

GOOD = "id,y,age,income\n007,1,30,1.5\nA 2,0,41,-2e3\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="bank.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_the_first_column_holds_ids_and_the_second_labels_if_asked(write):
    table = read_table(write(GOOD), label_column=True)
    assert table.ids == ["007", "A 2"]
    assert table.labels.tolist() == [1, 0]
    assert table.names == ("age", "income")
    assert table.features.tolist() == [[30, 1.5], [41, -2000]]
    assert table.features.dtype == np.float64
    assert table.notes == ()


def test_without_labels_every_other_column_is_a_feature(write):
    table = read_table(write(GOOD))
    assert table.labels is None
    assert table.names == ("y", "age", "income")


def test_columns_by_name(write):
    table = read_table(write("a,who,b,sick\n1,x,2,0\n3,y,4,1\n"), id_column="who", label_column="sick")
    assert (table.ids, table.names, table.labels.tolist()) == (["x", "y"], ("a", "b"), [0, 1])
    table = read_table(write("y,id,b\n0,x,2\n1,y,4\n"), id_column="id", label_column=True)
    assert (table.ids, table.names, table.labels.tolist()) == (["x", "y"], ("b",), [0, 1])


def test_features_are_taken_in_the_order_of_their_names(write):
    table = read_table(write(GOOD), features=["income", "age"])
    assert table.names == ("income", "age")
    assert table.features[0].tolist() == [1.5, 30]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_delimiters_line_ends_a_mark_at_the_start_and_empty_lines(write, delimiter, newline):
    text = "\ufeff" + GOOD.replace(",", delimiter).replace("\n", newline) + newline
    table = read_table(write(text), label_column=True)
    assert table.ids == ["007", "A 2"]
    assert table.features.tolist() == [[30, 1.5], [41, -2000]]


def test_quoted_cells(write):
    table = read_table(write('id,"a,b"\n"x,\n""1""",5\ny,6\n'))
    assert table.ids == ['x,\n"1"', "y"]
    assert table.names == ("a,b",)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(texts, numbers, numbers), min_size=1, max_size=20), st.sampled_from(",;\t"))
@settings(max_examples=50)
def test_what_was_written_is_read(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([("id", "a", "b"), *rows])
    table = read_table(path)
    assert table.ids == [row[0] for row in rows]
    assert table.features.tolist() == [[row[1], row[2]] for row in rows]


def test_blocks_join_in_order(write):
    table = read_table(write("id,a\n" + "".join(f"{index:05d},{index}\n" for index in range(10_000))))
    assert table.ids[9_999] == "09999"
    assert np.array_equal(table.features[:, 0], np.arange(10_000))


def test_missing_values_are_refused_with_their_place(write):
    path = write("id,a,b\nx,1,2\n\ny,1,\nz,2,NA\n")
    with pytest.raises(ValueError, match=r"bank.csv, line 4, column 'b': the first of 2 missing values.*mean"):
        read_table(path)


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "NaN", "null", "None"])
def test_the_mean_can_be_put_in(write, cell):
    table = read_table(write(f"id,a,b\nx,1,2\ny,{cell},3\nz,4,4\n"), missing="mean")
    assert table.features[:, 0].tolist() == [1, 2.5, 4]
    assert table.notes == ("The column 'a' lacked 1 of 3 values: its mean was put in.",)


def test_a_constant_column_is_kept_and_said(write):
    table = read_table(write("id,a,b\nx,7,2\ny,7,3\n"))
    assert table.features[:, 0].tolist() == [7, 7]
    assert table.notes == ("The column 'a' has one value only: it is kept, and tells the model nothing.",)


@pytest.mark.parametrize(
    ("labels", "expected", "note"),
    [
        (("0", "1", "1.0"), [0, 1, 1], None),
        (("-1", "+1", "1"), [0, 1, 1], "-1.0 is taken as 0 and 1.0 as 1"),
        (("10", "9", "9"), [1, 0, 0], "9.0 is taken as 0 and 10.0 as 1"),
        (("yes", "no", " yes "), [1, 0, 1], "no is taken as 0 and yes as 1"),
    ],
)
def test_two_labels_become_0_and_1(write, labels, expected, note):
    rows = "".join(f"{index},{label},{index}\n" for index, label in enumerate(labels))
    table = read_table(write("id,y,a\n" + rows), label_column=True)
    assert table.labels.tolist() == expected
    assert len(table.notes) == (note is not None)
    assert note is None or note in table.notes[0]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,y,a\nx,0,1\ny,1,2\nz,2,3\n", {"label_column": True}, r"column 'y': 3 different labels \(0.0, 1.0, 2.0\)"),
        ("id,y,a\nx,0,1\ny,0,2\n", {"label_column": True}, r"1 different labels"),
        ("id,y,a\nx,0,1\ny,,2\n", {"label_column": True, "missing": "mean"}, r"line 3, column 'y': a label is missing"),
        ("id,a\nx,1\ny,red\n", {}, r"line 3, column 'a': 'red' is no number: recode"),
        ("id;a\nx;1\ny;1,5\n", {}, r"line 3, column 'a': '1,5' is no number: write a point"),
        ("id,a\nx,1_000\n", {}, r"line 2, column 'a': '1_000' is no number"),
        ('id,a\n"x\n1",1\ny,red\n', {}, r"line 4, column 'a'"),
        ("id,a\nx,inf\n", {}, r"line 2, column 'a': an infinite number"),
        ("id,a\nx,\ny,\n", {"missing": "mean"}, r"column 'a': all values are missing"),
        ("id,a\nx,1\ny,1,2\n", {}, r"line 3: 3 cells where the header has 2"),
        ("id,a\nx\n", {}, r"line 2: 1 cells where the header has 2"),
        ('id,a\nx,1\n"y,2\n', {}, r"line 3: unexpected end of data: check the quotes"),
        ('id,a\nx,1\n"y"z,2\nw,3\n', {}, r"line 3: .*: check the quotes"),
        ("id,a\n", {}, r"no rows under the header"),
        ("", {}, r"without a name"),
        ("id,,a\nx,1,2\n", {}, r"without a name"),
        ("id,a,a\nx,1,2\n", {}, r"'a' twice"),
        ("1,2,3\n4,5,6\n", {}, r"needs a header"),
        (GOOD, {"id_column": "name"}, r"no column 'name'; the header has id, y, age, income"),
        (GOOD, {"label_column": "id"}, r"cannot hold both"),
        (GOOD, {"features": ["age", "age"]}, r"different columns"),
        (GOOD, {"features": ["id"]}, r"neither the ids nor the labels"),
        ("id\nx\n", {"label_column": True}, r"labels are the second column"),
        (GOOD, {"missing": "drop"}, r"refuse or mean, got 'drop'"),
    ],
)
def test_what_cannot_be_read_is_said(write, text, options, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(text), **options)


def test_another_encoding_is_said(write):
    with pytest.raises(ValueError, match=r"not UTF-8.*save the file as CSV UTF-8"):
        read_table(write("id,größe\nx,1\n", encoding="latin-1"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.csv")


def test_a_table_may_have_ids_and_labels_only(write):
    table = read_table(write("id,y\nx,0\ny,1\n"), label_column=True)
    assert table.features.shape == (2, 0)


def test_without_pyarrow_the_extra_is_named(write, monkeypatch):
    original = builtins.__import__

    def without(name, *arguments):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name=name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"extra parquet: pip install 'tacit\[parquet\]'"):
        read_table(write("", "bank.parquet"))


@pytest.fixture
def parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        path = tmp_path / "bank.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        return path

    return write


def test_parquet_is_read_alike(parquet):
    path = parquet(id=["007", "A 2"], y=[True, False], age=[30, 41], income=[1.5, -2000.0], glad=[True, False])
    table = read_table(path, label_column=True)
    assert (table.ids, table.labels.tolist()) == (["007", "A 2"], [1, 0])
    assert table.names == ("age", "income", "glad")
    assert table.features.tolist() == [[30, 1.5, 1], [41, -2000, 0]]


def test_parquet_columns_by_name_and_integer_ids(parquet):
    path = parquet(a=[1.0, 2.0], who=[10**17 + 1, 7], sick=["no", "yes"])
    table = read_table(path, id_column="who", label_column="sick", features=["a"])
    assert (table.ids, table.labels.tolist()) == (["100000000000000001", "7"], [0, 1])
    assert table.features.tolist() == [[1], [2]]


def test_parquet_missing_values(parquet):
    path = parquet(id=["x", "y", "z"], a=[1, None, 4], b=[1.0, 2.0, math.nan])
    with pytest.raises(ValueError, match=r"row 2, column 'a': the first of 1 missing"):
        read_table(path)
    assert read_table(path, missing="mean").features.tolist() == [[1, 1], [2.5, 2], [4, 1.5]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1.0, 2.0], "a": [1, 2]}, "column 'id': ids are text or integers, not double"),
        ({"id": ["x", "y"], "a": ["1", "2"]}, "column 'a': string is no number"),
        ({"id": ["x"], "a": [math.inf]}, "row 1, column 'a': an infinite number"),
    ],
)
def test_parquet_columns_of_other_types_are_refused(parquet, columns, message):
    with pytest.raises(ValueError, match=message):
        read_table(parquet(**columns))


def test_a_file_that_is_no_parquet(write):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    with pytest.raises(ValueError, match="no Parquet file that can be read"):
        read_table(write("id,a\n", "bank.parquet"))
