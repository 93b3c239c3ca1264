"""The oracle goes through all splits one by one, in plain Python."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.protocol.splits import FREE, Columns, Rules, Sums, best_splits, value


def columns(bins, ordered=None, signs=None, used=None):
    count = len(bins)
    return Columns(
        np.array(bins),
        np.ones(count, dtype=bool) if ordered is None else np.array(ordered),
        np.zeros(count, dtype=np.int64) if signs is None else np.array(signs),
        np.ones(count, dtype=bool) if used is None else np.array(used),
    )


def left_sides(bins, ordered):
    """All sets of bins that may go left: cuts of numbers, any subset of categories; missing values either way."""
    valued = range(bins - 1)
    sides = [tuple(range(last + 1)) for last in valued]
    if not ordered:
        sides = [side for size in range(1, bins) for side in combinations(valued, size)]
    return [{*side, *missing} for side in sides for missing in ((), (bins - 1,))]


def gain_of(g, h, left, rules):
    """Exactly, or None if the split is not allowed."""
    sides = [(sum(g[k] for k in part), sum(h[k] for k in part)) for part in (left, set(range(len(g))) - left)]
    if any(side <= 0 or side < rules.min_child_weight for _, side in sides):
        return None
    sides.append((sum(g), sum(h)))
    scores = [Fraction(gs**2) / (hs + Fraction(rules.l2)) for gs, hs in sides]
    return (scores[0] + scores[1] - scores[2]) / 2


@st.composite
def nodes(draw, features=3):
    bins = draw(st.lists(st.integers(2, 5), min_size=1, max_size=features))
    ordered = [draw(st.booleans()) for _ in bins]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 3))
    g, h = np.zeros((2, count, len(bins), max(bins)), dtype=np.int64)
    for node in range(count):
        for row in range(draw(st.integers(1, 12))):
            own_g, own_h = rng.integers(-9, 10), rng.integers(0 if row else 1, 5)
            for feature, most in enumerate(bins):
                place = rng.integers(0, most)
                g[node, feature, place] += own_g if own_h else 0
                h[node, feature, place] += own_h
    return Sums(g, h), columns(bins, ordered)


@given(nodes(), st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([0.0, 2.0]), st.sampled_from([0.0, 3.0]))
def test_the_split_is_the_best_of_all(drawn, l2, min_child_weight, min_gain):
    sums, own = drawn
    rules = Rules(l2, min_child_weight, min_gain)
    for node, split in enumerate(best_splits(sums, own, [FREE] * len(sums.gradients), rules)):
        gains = {}
        for feature, bins in enumerate(own.bins.tolist()):
            g, h = (part[node, feature, :bins].tolist() for part in (sums.gradients, sums.hessians))
            for left in left_sides(bins, own.ordered[feature]):
                gains[feature, frozenset(left)] = gain_of(g, h, left, rules)
        best = max((gain for gain in gains.values() if gain is not None), default=Fraction(0))
        if split is None:
            assert best <= min_gain + 1e-9
        else:
            chosen = gains[split.feature, frozenset(np.flatnonzero(split.left).tolist())]
            assert chosen is not None
            assert float(chosen) == pytest.approx(float(best)) == pytest.approx(split.gain)
            assert split.gain > min_gain


@given(nodes(), st.integers(0, 2))
def test_features_parted_among_parties_give_the_same_split(drawn, cut):
    sums, own = drawn
    bounds = [FREE] * len(sums.gradients)
    whole = best_splits(sums, own, bounds, Rules())
    parts = []
    for part in (slice(0, cut), slice(cut, None)):
        most = max(own.bins[part], default=1)  # fewer bins: sums are not padded alike
        some = Sums(sums.gradients[:, part, :most], sums.hessians[:, part, :most])
        parts.append(best_splits(some, columns(own.bins[part], own.ordered[part]), bounds, Rules()))
    for one, first, second in zip(whole, *parts, strict=True):
        if one is None:
            assert first is None
            assert second is None
        elif one.feature < min(cut, len(own.bins)):
            assert first is not None
            assert (first.gain, first.feature) == (one.gain, one.feature)
            assert np.array_equal(first.left, one.left)
            assert second is None or second.gain <= one.gain
        else:
            assert second is not None
            assert (second.gain, second.feature + cut) == (one.gain, one.feature)
            assert np.array_equal(second.left, one.left)
            assert first is None or first.gain < one.gain


def one_split(g, h, *, bounds=FREE, rules=None, **own):
    sums = Sums(np.array([[g]]), np.array([[h]]))
    return best_splits(sums, columns([len(g)], **own), [bounds], rules or Rules(0.0, 0.0))[0]


def test_missing_values_go_to_the_side_with_the_larger_gain():
    assert one_split([-9, 9, 8], [5, 5, 5]).left.tolist() == [True, False, False]
    assert one_split([-9, 9, -8], [5, 5, 5]).left.tolist() == [True, False, True]


def test_without_missing_values_in_the_node_they_go_with_most():
    assert one_split([-9, 9, 0], [5, 6, 0]).left.tolist() == [True, False, False]
    assert one_split([-9, 9, 0], [6, 5, 0]).left.tolist() == [True, False, True]


def test_categories_that_are_not_in_the_node_go_with_most():
    found = one_split([-9, 0, 9, 0], [6, 0, 5, 0], ordered=[False])
    assert found.left.tolist() == [True, True, False, True]


@given(nodes())
def test_left_is_the_side_of_the_first_bin(drawn):
    sums, own = drawn
    for split in best_splits(sums, own, [FREE] * len(sums.gradients), Rules(1.0, 0.0)):
        assert split is None or split.left[0]


@pytest.mark.parametrize(
    ("g", "h"),
    [
        ([9, 0, -9, 0], [6, 0, 5, 0]),
        ([9, 0, -9, 0], [5, 0, 5, 0]),  # as much on either side
        ([0, 9, -9, 0], [0, 5, 5, 0]),
        ([0, 9, 0, -9, 4, 0], [0, 4, 0, 4, 9, 0]),
    ],
)
def test_categories_are_split_alike_if_all_gradients_are_of_the_other_sign(g, h):
    """So the bins of a split do not tell its owner which side has the higher labels."""
    one, other = (one_split([sign * each for each in g], h, ordered=[False]) for sign in (1, -1))
    assert one.left.tolist() == other.left.tolist()


def test_missing_values_alone_are_a_side():
    assert one_split([-4, -4, 9], [5, 5, 5]).left.tolist() == [True, True, False]


def test_units_scale_gains():
    sums = Sums(np.array([[[-9, 9, 0]]]), np.array([[[5, 6, 0]]]), 0.5, 0.25)
    found = best_splits(sums, columns([3]), [FREE], Rules(1.0, 0.0))[0]
    assert found.gain == pytest.approx((4.5**2 / 2.25 + 4.5**2 / 2.5) / 2)


def test_features_that_are_not_used_do_not_split():
    assert one_split([-9, 9, 0], [5, 5, 0], used=[False]) is None


def test_a_split_against_its_sign_is_not_made():
    assert one_split([-9, 9, 0], [5, 5, 0], signs=[1]) is None  # values fall from 9/5 to -9/5
    found = one_split([-9, 9, 0], [5, 5, 0], signs=[-1])
    assert found.bounds == ((0.0, np.inf), (-np.inf, 0.0))
    assert one_split([9, -9, 0], [5, 5, 0], signs=[1]).bounds == ((-np.inf, 0.0), (0.0, np.inf))


def test_bounds_are_inherited_and_lower_the_gain():
    free, bounded = (one_split([-9, 9, 0], [5, 5, 0], bounds=bounds) for bounds in (FREE, (-1.0, 1.0)))
    assert bounded.bounds == ((-1.0, 1.0), (-1.0, 1.0))
    assert free.gain == pytest.approx(81 / 5)
    assert bounded.gain == pytest.approx(2 * 9 - 5)  # of -(2·G·w + H·w²)/2 on both sides, with w = ±1


def test_values_of_leaves():
    assert value(-6.0, 2.0, 1.0) == 2.0
    assert value(-6.0, 2.0, 1.0, (-1.0, 1.5)) == 1.5
    assert value(0.0, 0.0, 0.0) == 0.0
