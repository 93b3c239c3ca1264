"""Groups of cells: quantiles as numpy and scikit-learn have them, and categories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import KBinsDiscretizer

from tacit.tables.groups import Categories, Quantiles

numbers = st.lists(st.floats(-1e100, 1e100) | st.integers(0, 3).map(float), min_size=1, max_size=60)


@pytest.mark.parametrize("bins", [2, 5, 10])
def test_distinct_quantiles_are_those_of_scikit_learn(bins):
    values = np.random.default_rng(1).normal(size=1000)
    oracle = KBinsDiscretizer(bins, encode="ordinal", quantile_method="linear").fit(values[:, None])
    quantiles = Quantiles.fit(values, bins)
    assert quantiles.edges == pytest.approx(oracle.bin_edges_[0][1:-1].tolist(), rel=1e-12)  # it takes percentiles
    new = np.random.default_rng(2).normal(size=500) * 2  # some lie beyond the training's
    assert quantiles.numbers(new).tolist() == oracle.transform(new[:, None])[:, 0].tolist()


@given(numbers, st.integers(2, 12))
def test_edges_are_quantiles_that_increase_and_no_group_is_empty(values, bins):
    column = np.array(values)
    quantiles = Quantiles.fit(column, bins)
    assert set(quantiles.edges) <= set(np.quantile(column, np.linspace(0, 1, bins + 1)).tolist())
    assert set(quantiles.numbers(column).tolist()) == set(range(quantiles.count))
    assert quantiles.count <= bins
    assert quantiles.missing is None


@given(numbers, st.integers(2, 12))
def test_a_number_lies_between_the_edges_of_its_group(values, bins):
    quantiles = Quantiles.fit(np.array(values), bins)
    edges = (-math.inf, *quantiles.edges, math.inf)
    for value, group in zip(values, quantiles.numbers(np.array(values)).tolist(), strict=True):
        assert edges[group] <= value < edges[group + 1]


def test_two_values_are_two_groups_whichever_is_more_frequent():
    for ones in (3, 97):
        values = np.array([1.0] * ones + [0.0] * (100 - ones))
        assert Quantiles.fit(values, 100).count == 2
    assert Quantiles.fit(np.array([0.0] * 30 + [1.0] * 70), 10).edges == (1.0,)


def test_missing_numbers_are_the_last_group_if_there_were_any():
    quantiles = Quantiles.fit(np.array([1.0, 2, 3, 4, np.nan]), 2)
    assert (quantiles.edges, quantiles.missing, quantiles.count) == ((2.5,), 2, 3)
    assert quantiles.numbers(np.array([np.nan, 0, 9])).tolist() == [2, 0, 1]
    assert Quantiles((2.5,)).numbers(np.array([np.nan])).tolist() == [-1]


def test_merged_quantiles_lose_the_edge_between_them():
    quantiles = Quantiles((1.0, 2.0, 3.0), missing=4)
    merged = quantiles.merged([0, 0, 1, 2, 1])
    assert (merged.edges, merged.missing, merged.count) == ((2.0, 3.0), 1, 3)
    assert merged.numbers(np.array([0.5, 1.5, 2.5, 3.5, np.nan])).tolist() == [0, 0, 1, 2, 1]


def test_names_of_quantiles():
    assert Quantiles((12.0, 30.0), missing=3).names == ("below 12", "12 to 30", "30 and above", "missing")
    assert Quantiles((12.25,), missing=0).names == ("below 12.25 or missing", "12.25 and above")
    assert Quantiles((), missing=1).names == ("any value", "missing")
    assert Quantiles((1234.5678, 20_000.1)).names[1] == "1235 to 20000"
    assert Quantiles((20_000.0001, 20_000.0002)).names[1] == "20000.0001 to 20000.0002"
    assert Quantiles((10_957.0, 19_000.5), kind="date").names[1] == "2000-01-01 to 2022-01-08"


@given(st.sets(st.floats(-1e18, 1e18), min_size=1, max_size=12), st.sampled_from(["number", "date"]))
def test_names_of_quantiles_differ(edges, kind):
    quantiles = Quantiles(tuple(sorted(edges)), kind=kind)
    assert len(set(quantiles.names)) == quantiles.count


@pytest.mark.parametrize(
    ("edges", "missing"), [((2.0, 1.0), None), ((1.0, 1.0), None), ((math.nan,), None), ((1.0,), 3), ((1.0,), -1)]
)
def test_damaged_quantiles_are_refused(edges, missing):
    with pytest.raises(ValueError, match=r"edges|group of missing"):
        Quantiles(edges, missing)


def test_categories_and_their_names():
    categories = Categories((("a",), ("b", "c", "d", "e"), ("", "missing")))
    assert categories.numbers(["e", "", "a", "z"]).tolist() == [1, 2, 0, -1]
    assert categories.names == ("a", "b, c, d and 1 more", "(missing), missing")
    merged = categories.merged([0, 1, 0])
    assert merged.texts == (("a", "", "missing"), ("b", "c", "d", "e"))


@pytest.mark.parametrize("texts", [(), ((),), (("a",), ("b", "a")), (("a" * 100_000,),)])
def test_damaged_categories_are_refused(texts):
    with pytest.raises(ValueError, match=r"empty|twice|characters"):
        Categories(texts)
