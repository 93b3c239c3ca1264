"""Missing cells: what takes their place is found on the training rows; numbers and dates have one text each."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer

from tacit.tables.cells import Numbers, Texts, canonical, is_missing
from tacit.tables.missing import Fill, numbers_of, texts_of
from tacit.tables.settings import Column

columns_of_numbers = st.lists(st.floats(-1e100, 1e100) | st.just(math.nan), min_size=1, max_size=30)


@pytest.mark.parametrize("how", ["mean", "median"])
@given(values=columns_of_numbers.filter(lambda values: not all(map(math.isnan, values))))
def test_means_and_medians_are_those_of_scikit_learn(how, values):
    column = np.array(values)
    fill = Fill.of_numbers(Numbers(column), Column(missing=how))
    expected = SimpleImputer(strategy=how).fit_transform(column[:, None])[:, 0]
    scale = np.nanmax(np.abs(column), initial=1.0)
    assert np.allclose(fill.numbers(Numbers(column)) / scale, expected / scale, rtol=0, atol=1e-12)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=30), st.randoms())
def test_the_mean_does_not_depend_on_the_order_of_the_rows(values, random):
    shuffled = random.sample(values, len(values))
    first, second = (Fill.of_numbers(Numbers(np.array(v)), Column(missing="mean")) for v in (values, shuffled))
    assert first == second


def test_the_value_is_found_though_no_cell_was_missing():
    assert Fill.of_numbers(Numbers(np.array([1.0, 2, 6])), Column(missing="mean")) == Fill("mean", 3.0)
    assert Fill.of_numbers(Numbers(np.array([1.0, 2, 6])), Column(missing="median")) == Fill("median", 2.0)


def test_a_constant_takes_the_place_of_missing_cells_only():
    assert Fill("constant", -1.0).numbers(Numbers(np.array([np.nan, 0.0, 5]))).tolist() == [-1, 0, 5]
    assert Fill("constant", 0.0).numbers(Numbers(np.array([np.nan, 3]))).tolist() == [0, 3]
    assert Fill("constant", "none").texts(Texts(["", "a"])) == ["none", "a"]


def test_own_category_leaves_missing_cells_missing():
    assert np.isnan(Fill("own category").numbers(Numbers(np.array([np.nan, 1])))).tolist() == [True, False]
    assert Fill("own category").texts(Numbers(np.array([np.nan, 7.0]))) == ["", "7"]


def test_refuse_names_the_row():
    with pytest.raises(ValueError, match="row 3 has no value"):
        Fill("refuse").numbers(Numbers(np.array([1, 2, np.nan, np.nan])))
    with pytest.raises(ValueError, match="row 2 has no value"):
        Fill("refuse").texts(Texts(["a", ""]))
    assert Fill("refuse").texts(Texts(["a"])) == ["a"]


def test_a_column_without_any_value_has_no_mean():
    with pytest.raises(ValueError, match="no value in the training rows: drop it"):
        Fill.of_numbers(Numbers(np.array([np.nan, np.nan])), Column(missing="mean"))


def test_numbers_too_large_for_a_mean_are_refused():
    with pytest.raises(ValueError, match="too large for a mean"):
        Fill.of_numbers(Numbers(np.array([1.7e308, 1.7e308])), Column(missing="mean"))


@pytest.mark.parametrize(
    ("how", "value"),
    [("mean", None), ("constant", None), ("refuse", 1.0), ("own category", "x"), ("median", "x"), ("mean", math.nan)],
)
def test_a_fill_whose_parts_do_not_fit_is_refused(how, value):
    with pytest.raises(ValueError, match=r"missing|too large"):
        Fill(how, value)


def test_texts_are_no_numbers_unless_all_are_missing():
    assert np.isnan(numbers_of(Texts(["", ""]))).all()
    with pytest.raises(ValueError, match='row 2 holds "Rome"'):
        numbers_of(Texts(["", "Rome"]))


@pytest.mark.parametrize("read", [numbers_of, texts_of])
def test_infinite_numbers_are_refused_by_their_row(read):
    with pytest.raises(ValueError, match="row 2 holds an infinite number"):
        read(Numbers(np.array([1, np.inf])))


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.0, "7"), (-0.0, "0"), (0.1, "0.1"), (-12.5, "-12.5"), (1e22, "1e+22"), (2.0**53 - 1, "9007199254740991")],
)
def test_a_number_has_one_text(value, text):
    assert canonical(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_number_is_that_number(value):
    assert float(canonical(value)) == value


@given(st.dates())
def test_a_date_is_written_as_iso_does(day):
    number = float((day - date(1970, 1, 1)).days)
    assert texts_of(Numbers(np.array([number, np.nan]), "date")) == [day.isoformat(), ""]


def test_days_that_no_calendar_has_and_parts_of_days_are_numbers():
    assert [canonical(days, "date") for days in (-719_163.0, 2_932_897.0, 19_000.5)] == [
        "-719163",
        "2932897",
        "19000.5",
    ]


def test_which_cells_are_missing():
    assert is_missing(Texts(["a", ""])).tolist() == [False, True]
    assert is_missing(Numbers(np.array([1, np.nan]))).tolist() == [False, True]
