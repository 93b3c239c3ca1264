"""Tables from files: texts as they are written, and what cannot be read is said with its place and remedy."""

from __future__ import annotations

import builtins
import csv
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.tables import files
from tacit.tables.cells import Numbers, Texts
from tacit.tables.files import read_file
from tacit.tables.problems import TableError

GOOD = "id,y,age,income\n007,1,30,1.5\nA 2,0,41,-2e3\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="bank.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def texts(raw):
    return {name: column.values for name, column in zip(raw.names, raw.columns, strict=True)}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_delimiters_line_ends_a_mark_at_the_start_and_empty_lines(write, delimiter, newline):
    raw = read_file(write("\ufeff" + GOOD.replace(",", delimiter).replace("\n", newline) + newline))
    expected = {"id": ["007", "A 2"], "y": ["1", "0"], "age": ["30", "41"], "income": ["1.5", "-2e3"]}
    assert texts(raw) == expected
    assert raw.problems == ()
    assert all(isinstance(column, Texts) for column in raw.columns)


def test_quoted_cells(write):
    raw = read_file(write('id,"a,b"\n"x,\n""1""",5\ny,6\n'))
    assert texts(raw) == {"id": ['x,\n"1"', "y"], "a,b": ["5", "6"]}
    assert [raw.place(0), raw.place(1)] == ["line 3", "line 4"]


def test_white_space_and_missing_cells(write):
    raw = read_file(write("id,a\n x , NA\ny,\nz,None\nu,none\n"))
    assert texts(raw) == {"id": ["x", "y", "z", "u"], "a": ["", "", "", "none"]}
    assert raw.padded == {"id": (0,)}


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(cells, numbers), min_size=1, max_size=20), st.sampled_from(files.DELIMITERS))
@settings(max_examples=50)
def test_what_was_written_is_read(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([("id", "a"), *rows])
    raw = read_file(path)
    words = {"", "na", "n/a", "nan", "null"}
    assert texts(raw)["id"] == [
        "" if row[0].strip().lower() in words or row[0].strip() == "None" else row[0].strip() for row in rows
    ]
    assert raw.column("a").numbers.tolist() == [row[1] for row in rows]


def test_blocks_join_in_order_and_a_late_text_keeps_what_was_written_before(write):
    lines = [f"{index:05d},{index},{index / 4}" for index in range(10_000)]
    raw = read_file(write("id,a,b\n" + "\n".join(lines) + "\nlast,red, 7 \n"))
    assert texts(raw)["id"][:2] + texts(raw)["id"][-2:] == ["00000", "00001", "09999", "last"]
    assert texts(raw)["a"][9_999:] == ["9999", "red"]
    assert texts(raw)["b"][-2:] == ["2499.75", "7"]
    assert raw.padded == {"b": (10_000,)}


def test_lines_of_another_width_are_left_out_and_said_with_the_first_three(write):
    raw = read_file(write("id,a\nx,1\ny\n\nz,2\nu,1,2\nv\nw\n"))
    assert texts(raw) == {"id": ["x", "z"], "a": ["1", "2"]}
    assert raw.place(1) == "line 5"
    (problem,) = raw.problems
    assert (problem.kind, problem.place, problem.count) == ("width", "lines 3, 6 and 7", 4)
    assert "4 lines have another number of cells than the header, which has 2" in str(problem)


@pytest.mark.parametrize(
    ("text", "name"), [("id,,a\nx,1,2\n", "no name for column 2"), ("id,a,a\nx,1,2\n", "the column 'a' 2 times")]
)
def test_a_broken_header_does_not_hide_the_rest(write, text, name):
    raw = read_file(write(text))
    assert len(set(raw.names)) == 3
    assert [name in str(problem) for problem in raw.problems] == [True]
    assert texts(raw)[raw.names[2]] == ["2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header is empty"),
        ("1,2,3\n4,5,6\n", "numbers only.*needs a header"),
        ('"id\nx,1\n', "line 1.*check the quotes"),
    ],
)
def test_files_that_cannot_be_read_at_all(write, text, message):
    with pytest.raises(TableError, match=rf"(?s)1 problem.*bank.csv.*{message}"):
        read_file(write(text))


@pytest.mark.parametrize(("text", "line"), [('id,a\nx,1\n"y,2\n', "line 3"), ('id,a\nx,1\n"y"z,2\nw,3\n', "line 3")])
def test_broken_quotes_end_the_table_there(write, text, line):
    raw = read_file(write(text))
    assert [(problem.kind, problem.place) for problem in raw.problems] == [("quotes", line)]


def test_another_encoding_is_said(write):
    with pytest.raises(ValueError, match=r"not UTF-8.*save the file as CSV UTF-8"):
        read_file(write("id,größe\nx,1\n", encoding="latin-1"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"none.csv: there is no such file"):
        read_file(tmp_path / "none.csv")


def test_a_table_that_is_too_large(write, monkeypatch):
    monkeypatch.setattr(files, "CELLS", 10)
    with pytest.raises(ValueError, match=r"more than 0 rows of 2 columns: a table has at most"):
        read_file(write("id,a\n" + "x,1\n" * 6))


def test_without_pyarrow_the_extra_is_named(write, monkeypatch):
    original = builtins.__import__

    def without(name, *arguments):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name=name)
        return original(name, *arguments)

    path = write("", "bank.parquet")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"extra parquet: pip install 'tacit-learning\[parquet\]'"):
        read_file(path)


@pytest.fixture
def parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    module = pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        path = tmp_path / "bank.parquet"
        module.write_table(pyarrow.table(columns), path)
        return path

    return write


def test_parquet_gives_numbers_texts_and_dates(parquet):
    day = datetime(2024, 1, 31, 12, tzinfo=UTC)
    raw = read_file(
        parquet(
            id=["007", " A2"],
            large=[10**17 + 1, 7],
            age=[30, None],
            glad=[True, False],
            price=[Decimal("1.50"), None],
            day=[date(2024, 1, 31), None],
            moment=[day, None],
            void=[None, None],
        )
    )
    assert raw.column("id").values == ["007", "A2"]
    assert raw.padded == {"id": (1,)}
    assert raw.column("large").values == ["100000000000000001", "7"]
    assert np.array_equal(raw.column("age").values, [30, math.nan], equal_nan=True)
    assert raw.column("glad").values.tolist() == [1, 0]
    assert raw.column("price").values[0] == 1.5
    assert [raw.column(name).values[0] for name in ("day", "moment")] == [19753, 19753.5]
    assert {raw.column(name).kind for name in ("day", "moment")} == {"date"}
    assert raw.column("void").values == ["", ""]
    assert isinstance(raw.column("age"), Numbers)
    assert raw.place(1) == "row 2"


def test_parquet_categories_and_types_that_are_no_cells(parquet):
    import pyarrow

    raw = read_file(parquet(id=["x", "y"], city=pyarrow.array(["Rome", None]).dictionary_encode(), many=[[1], [2]]))
    assert raw.column("city").values == ["Rome", ""]
    assert [(problem.column, problem.kind) for problem in raw.problems] == [("many", "type")]


def test_a_file_that_is_no_parquet(write):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    with pytest.raises(ValueError, match="no Parquet file that can be read"):
        read_file(write("id,a\n", "bank.parquet"))


@pytest.mark.parametrize("header", ['"id, of a, person";y', '"id "", x";y', 'id;"a,b,c"'])
def test_delimiters_in_a_quoted_name_do_not_count(write, header):
    raw = read_file(write(f"{header}\n1;2\n"))
    assert len(raw.names) == 2
    assert [column.values for column in raw.columns] == [["1"], ["2"]]


def test_a_name_that_looks_like_one_made_for_a_repeated_column(write):
    raw = read_file(write("a,a (column 3),a\n1,2,3\n"))
    assert len(raw.names) == len(raw.columns) == 3
    assert "the column 'a' 2 times" in str(raw.problems[0])
