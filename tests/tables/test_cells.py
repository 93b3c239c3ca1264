"""Columns of texts are read as numbers or dates once, and new rows are read the same way."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.tables.cells import (
    Numbers,
    PlainTexts,
    Reading,
    Texts,
    canonical,
    canonical_texts,
    clean,
    infer,
    is_missing,
    plain,
    read,
    take,
    whole_numbers,
)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "", "2.5"], Reading("number")),
        (["1,234.50", "", "7"], Reading("number", thousands=",")),
        (["12 %", "5 %"], Reading("number", affix="%")),
        (["2024-01-31", "", "01.02.2024"], Reading("date", date="%Y-%m-%d|%d.%m.%Y")),
        (["20240131", "20240201"], Reading("number")),
        (["red", "blue"], Reading()),
        (["1"], Reading()),  # one cell tells nothing
        (["", ""], Reading()),
        (["1_000", "2_000"], Reading()),
        (["inf", "1", "2"], Reading()),
    ],
)
def test_how_a_column_is_read(texts, expected):
    assert infer(Texts(texts)) == expected


def test_95_of_100_numbers_make_a_column_of_numbers():
    assert infer(Texts(["1.5"] * 95 + ["red"] * 5)).kind == "number"
    assert infer(Texts(["1.5"] * 94 + ["red"] * 6)).kind == "text"
    assert infer(Texts(["2024-01-31"] * 95 + ["red"] * 5)).kind == "date"


def test_long_columns_are_read_as_short_ones():
    words = [f"word {index}" for index in range(5_000)]
    assert infer(Texts(words)).kind == "text"
    assert infer(Texts([*words[:250], *(f"1,{index % 1000:03d}.5" for index in range(4_750))])) == Reading(
        "number", thousands=","
    )
    assert infer(Texts([*words[:251], *(f"1,{index % 1000:03d}.5" for index in range(4_749))])).kind == "text"


def test_cells_that_cannot_be_read_are_listed_and_missing():
    found = read(Texts(["1.5"] * 40 + ["red", "", "?"]))
    assert found.unread == [40]
    assert np.isnan(found.cells.values[40:]).all()
    assert not np.isnan(found.cells.values[:40]).any()


def test_what_no_cell_tells_is_noted():
    assert "thousands" in read(Texts(["1,234", "5,678"])).note
    assert "day/month" in read(Texts(["01/02/2024", "03/04/2024"])).note
    assert read(Texts(["1,5", "5,678"])).note == ""


@pytest.mark.parametrize(
    ("reading", "texts", "expected", "unread"),
    [
        (Reading("number", thousands=","), ["1,234"], [1234], []),
        (Reading("number", decimal=","), ["1,234"], [1.234], []),
        (Reading("number"), ["1,234", "5", "-", "inf"], [math.nan, 5, math.nan, math.nan], [0, 3]),
        (Reading("date", date="%d/%m/%Y"), ["01/02/1970", "12/31/1970"], [31, math.nan], [1]),
    ],
)
def test_new_rows_are_read_as_stored(reading, texts, expected, unread):
    stored = Reading.restore(json.loads(json.dumps(reading.state())))
    assert stored == reading
    cells, rows = stored.apply(Texts(texts))
    assert np.array_equal(cells.values, expected, equal_nan=True)
    assert rows == unread


def test_typed_columns_follow_the_stored_kind():
    numbers = Numbers(np.array([7.0, math.nan, 7.5]))
    assert Reading().apply(numbers)[0].values == ["7", "", "7.5"]
    assert Reading("number").apply(numbers)[0].values is numbers.values
    assert Reading("date").apply(numbers)[1] == [0, 2]


@pytest.mark.parametrize(
    "change", [{"kind": "x"}, {"decimal": ";"}, {"thousands": "x"}, {"affix": "zz"}, {"date": "%q"}, {"more": "1"}]
)
def test_a_damaged_reading_is_refused(change):
    with pytest.raises(ValueError, match="damaged"):
        Reading.restore(Reading("number").state() | change)


floats = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.one_of(st.none(), floats), min_size=2, max_size=40))
def test_plain_floats_come_back_to_the_last_bit(values):
    texts = ["" if value is None else repr(value) for value in values]
    expected = [math.nan if value is None else value for value in values]
    assert np.array_equal(plain(Texts(texts)), expected, equal_nan=True)


@given(st.lists(st.text("0123456789.,-eE_+ infa", max_size=6), max_size=5))
def test_plain_reads_what_python_reads_and_nothing_more(texts):
    texts = clean(texts)[0]
    numbers = plain(Texts(texts))
    if numbers is not None:
        assert [text for text in texts if "_" in text] == []
        assert np.array_equal(numbers, [float(text or "nan") for text in texts], equal_nan=True)
        assert not np.isinf(numbers).any()


def test_texts_in_blocks_are_those_that_were_written():
    cells = PlainTexts(["007\x00", "1.50"], np.array([7, math.nan, 1.5]))
    assert len(cells) == 3
    assert cells.values == ["007", "", "1.50"]
    assert cells.values is cells.values


def test_cleaning():
    assert clean([" a ", "N/A", "b", "null", " ", "1"]) == (["a", "", "b", "", "", "1"], [0])
    assert clean(["1", "2.5", ""]) == (["1", "2.5", ""], [])


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (7.0, "7"), (-0.0, "0"), (7.5, "7.5"), (1e300, "1e+300")])
def test_a_number_has_one_text(value, text):
    assert canonical(value) == text


def test_dates_have_one_text():
    assert canonical_texts(Numbers(np.array([0, 19753, math.nan]), "date")) == ["1970-01-01", "2024-01-31", ""]


def test_large_integers_stay_exact():
    assert whole_numbers(np.array([10**17 + 1, 7])).values == ["100000000000000001", "7"]
    assert whole_numbers(np.array([2**53, 7])).values.tolist() == [2.0**53, 7]


def test_missing_cells_and_some_rows():
    assert is_missing(Texts(["", "a"])).tolist() == [True, False]
    assert is_missing(Numbers(np.array([math.nan, 1]))).tolist() == [True, False]
    assert take(Texts(["a", "b", "c"]), np.array([2, 0])).values == ["c", "a"]
    assert take(Numbers(np.array([1.0, 2, 3]), "date"), np.array([2, 0])).kind == "date"


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["True", "False", "", "TRUE"], [1, 0, math.nan, 1]),
        (["false", "?", "false"], [0, math.nan, 0]),
    ],
)
def test_booleans_are_read_as_sources_with_types_have_them(texts, values):
    found = read(Texts(texts))
    assert found.reading == Reading("boolean")
    assert np.array_equal(found.cells.values, values, equal_nan=True)
    assert Reading.restore(json.loads(json.dumps(found.reading.state()))) == found.reading
    typed, unread = found.reading.apply(Numbers(np.array([1.0, 0.0])))
    assert (typed.values.tolist(), unread) == ([1, 0], [])
    assert found.reading.apply(Texts(["1", "0", "yes", "7"]))[1] == [2, 3]


@pytest.mark.parametrize("texts", [["true", "7"], ["true", "false", "perhaps"], ["true"]])
def test_other_words_beside_booleans_make_a_column_of_text(texts):
    assert infer(Texts(texts)) == Reading()


@pytest.mark.parametrize(
    "change",
    [{"date": "%Q"}, {"date": ""}, {"kind": "number"}, {"date": "%d.%m.%Y|"}, {"thousands": "x"}, {"affix": "<"}],
)
def test_a_stored_reading_that_cannot_be_is_refused(change):
    state = Reading("date", date="%d.%m.%Y").state()
    with pytest.raises(ValueError, match="damaged"):
        Reading.restore(state | change)


def test_a_comma_that_few_cells_tell_is_said():
    thousands = [f"{number},{number:03d}" for number in range(100, 199)]
    found = read(Texts([*thousands, "12,5"]))
    assert found.cells.values[0] == 100.1
    assert found.note == "a comma is taken for a decimal comma as in '12,5' (if not, set decimal: '.')"
    found = read(Texts([*thousands, "12,5"]), ".")
    assert (found.cells.values[0], found.unread, found.note) == (100_100, [99], "")
    assert read(Texts([f"{number},5" for number in range(20)])).note == ""
