import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.protocol.bins import Bins, Categories, Numbers, categories, numbers
from tacit.lockstep.held_out import hold_out

values = st.lists(st.floats(-1e300, 1e300) | st.just(float("nan")) | st.integers(-3, 3).map(float), min_size=1)


@given(values, st.integers(3, 256))
def test_bins_of_numbers_keep_their_order_and_leave_the_last_to_missing_values(column, most):
    column = np.array(column)
    found = numbers(column, most)
    assert found.bins <= most
    assert all(low < high for low, high in zip(found.edges, found.edges[1:], strict=False))
    placed = found.apply(column)
    assert ((placed == found.bins - 1) == np.isnan(column)).all()
    for one, its_bin in zip(column, placed, strict=True):
        if not np.isnan(one):
            assert its_bin == sum(edge < one for edge in found.edges)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_few_distinct_values_have_a_bin_each(column):
    placed = numbers(np.array(column), 32).apply(np.array(column))
    ranks = {value: rank for rank, value in enumerate(sorted(set(column)))}
    assert placed.tolist() == [ranks[value] for value in column]


def test_many_distinct_values_are_spread_evenly():
    column = np.random.default_rng(0).normal(size=31_000)
    counts = np.bincount(numbers(column, 32).apply(column), minlength=32)
    assert counts[31] == 0
    assert counts[:31].min() >= 998
    assert counts[:31].max() <= 1002


def test_a_value_that_fills_several_quantiles_has_one_bin():
    column = np.concatenate([np.zeros(900), np.arange(1, 101)])
    found = numbers(column, 12)
    assert np.bincount(found.apply(column))[0] == 900


def test_a_column_without_values_has_two_bins():
    assert numbers(np.array([np.nan, np.nan]), 32).bins == 2
    assert categories(np.array(["", ""]), 32).bins == 2


def test_an_infinite_value_is_refused():
    with pytest.raises(ValueError, match="infinite"):
        numbers(np.array([1.0, np.inf]), 32)


@pytest.mark.parametrize("most", [2, 257])
def test_too_few_or_too_many_bins_are_refused(most):
    with pytest.raises(ValueError, match=f"bins: {most}"):
        numbers(np.array([1.0]), most)


def test_rare_missing_and_new_categories_share_the_last_bin():
    column = np.array(["red"] * 5 + ["blue"] * 4 + ["green"] * 4 + ["grey"] + [""])
    found = categories(column, 4)
    assert found == Categories(("red", "blue", "green"))
    assert found.apply(np.array(["green", "grey", "", "pink", "red"])).tolist() == [2, 3, 3, 3, 0]


def test_all_columns_at_once():
    found = Bins((Numbers((0.5, 1.5)), Categories(("a", "b"))))
    assert found.bins.tolist() == [4, 3]
    assert found.ordered.tolist() == [True, False]
    binned = found.apply([np.array([1.0, 7.0, np.nan]), np.array(["b", "a", "c"])])
    assert binned.dtype == np.uint8
    assert binned.tolist() == [[1, 1], [2, 0], [3, 2]]
    with pytest.raises(ValueError, match="2 columns were binned in training, here are 1"):
        found.apply([np.array([1.0])])


def groups(*trainings):
    """Of each row how many rows share its bins of all trainings, and how many groups there are."""
    _, place, counts = np.unique(np.stack(trainings), axis=1, return_inverse=True, return_counts=True)
    return counts[place.ravel()], len(counts)


def test_bins_of_several_trainings_make_smaller_groups_together():
    """The figures of docs/trees-leaks.md: each training has bins by the quantiles of rows that it draws anew."""
    values = np.random.default_rng(0).normal(size=10_000)
    trainings = []
    for seed in range(20):
        shuffled = np.random.default_rng(100 + seed).permutation(len(values))
        trainings.append(numbers(values[shuffled[hold_out(len(values), 0.2, 0)[0]]], 9).apply(values))
    assert [groups(*trainings[:count])[1] for count in (1, 5, 20)] == [8, 35, 132]
    assert np.mean(groups(*trainings)[0] < 10) == pytest.approx(0.04, abs=0.001)
    assert groups(*(numbers(values, most).apply(values) for most in (9, 8, 7, 6, 5)))[1] == 22
