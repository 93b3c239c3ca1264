"""A tree is checked node by node by slow loops over rows in plain Python."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.protocol.features import PlainFeatures
from tacit.kinds.vertical_trees.protocol.growth import Options, grow
from tacit.kinds.vertical_trees.protocol.splits import Rules
from tacit.kinds.vertical_trees.protocol.tree import LEAF

# g up to ±127 and h up to 255 are their own roundings at 8 bits, so that the oracle meets the same numbers.


def table(seed, rows, bins=6, features=4):
    rng = np.random.default_rng(seed)
    binned = rng.integers(0, bins, (rows, features)).astype(np.uint8)
    g = rng.integers(-60, 61, rows) + 20 * (binned[:, 0] > 2) - 20 * (binned[:, 2] == 1)
    g[0], h = 127, rng.integers(1, 256, rows)
    h[0] = 255
    return binned, np.clip(g, -127, 127).astype(float), h.astype(float)


def parted(binned, cut, bins=6, ordered=None, signs=None):
    count = binned.shape[1]
    ordered = np.ones(count, dtype=bool) if ordered is None else ordered
    signs = np.zeros(count, dtype=np.int64) if signs is None else signs
    parts = [slice(0, cut), slice(cut, None)]
    return [PlainFeatures(binned[:, p], np.full(count, bins)[p], ordered[p], signs[p]) for p in parts]


class Recorded(PlainFeatures):
    """Remembers which rows it was asked for."""

    def __init__(self, *table):
        super().__init__(*table)
        self.opened, self.used = [], []

    def start(self, words, used=None):
        super().start(words, used)
        self.used.append(used)

    def histograms(self, nodes):
        self.opened += [rows.tolist() for rows in nodes]
        return super().histograms(nodes)


def best_gain(rows, binned, g, h, rules, bins):
    """The largest gain of any cut of any feature, with missing values (the last bin) on either side."""
    best = None
    for feature in range(binned.shape[1]):
        for last in range(bins - 1):
            for missing in (set(), {bins - 1}):
                left_bins = {*range(last + 1), *missing}
                left = [row for row in rows if int(binned[row, feature]) in left_bins]
                right = [row for row in rows if int(binned[row, feature]) not in left_bins]
                found = gain(left, right, g, h, rules)
                if found is not None and (best is None or found > best):
                    best = found
    return best


def gain(left, right, g, h, rules):
    if not left or not right:
        return None
    scores = []
    for rows in (left, right, left + right):
        total_g, total_h = sum(float(g[row]) for row in rows), sum(float(h[row]) for row in rows)
        if total_h < rules.min_child_weight:
            return None
        scores.append(total_g**2 / (total_h + rules.l2))
    return (scores[0] + scores[1] - scores[2]) / 2


def check(tree, node, rows, depth, binned, g, h, options, bins=6, may_open=True):
    """The node is the one that slow loops choose, and so are all below it. Returns the leaf of each row."""
    best = best_gain(rows, binned, g, h, options.rules, bins) if may_open and depth < options.depth else None
    if tree.party[node] == LEAF:
        assert best is None or best <= options.rules.min_gain + 1e-9
        weight = sum(float(h[row]) for row in rows) + options.rules.l2
        assert tree.value[node] == pytest.approx(-sum(float(g[row]) for row in rows) / weight)
        return dict.fromkeys(rows, node)
    column = [0, 2][tree.party[node]] + tree.feature[node]  # the features were parted in the middle
    left = [row for row in rows if tree.left[node][binned[row, column]]]
    right = [row for row in rows if not tree.left[node][binned[row, column]]]
    assert gain(left, right, g, h, options.rules) == pytest.approx(best) == pytest.approx(tree.gain[node])
    open_both = min(len(left), len(right)) >= options.least
    shared = (depth + 1, binned, g, h, options, bins, open_both)
    first, second = tree.children[node]
    return check(tree, first, left, *shared) | check(tree, second, right, *shared)


@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 3), st.sampled_from([1, 5]), st.sampled_from([0, 900]))
def test_every_split_is_the_best_and_every_value_is_right(seed, rows, depth, least, min_child_weight):
    binned, g, h = table(seed, rows)
    options = Options(depth, Rules(1.0, min_child_weight), 8, least)
    grown = grow(parted(binned, 2), g, h, np.arange(rows), options, np.random.default_rng(0))
    leaves = check(grown.tree, 0, list(range(rows)), 0, binned, g, h, options, may_open=rows >= least)
    assert grown.leaf.tolist() == [leaves[row] for row in range(rows)]
    assert np.array_equal(grown.leaf, grown.tree.leaves([binned[:, :2], binned[:, 2:]]))


@given(st.integers(0, 2**32), st.integers(0, 4))
def test_features_parted_among_parties_give_the_same_tree(seed, cut):
    binned, g, h = table(seed, 80)
    ordered = np.array([True, False, True, False])
    options = Options(4, least=2, rows=0.8, features=0.7)

    def grown(at):
        sources = parted(binned, at, ordered=ordered)
        return grow(sources, g / 3, h / 7, np.arange(0, 80, 2), options, np.random.default_rng(seed))

    whole, found = grown(4), grown(cut)
    assert np.array_equal(whole.leaf, found.leaf)
    assert np.array_equal(whole.tree.value, found.tree.value)
    assert np.array_equal(whole.tree.gain, found.tree.gain)


@given(st.integers(0, 2**32), st.integers(2, 30), st.sampled_from([0.4, 1.0]))
def test_no_sums_of_fewer_rows_than_the_least_follow_from_those_opened(seed, least, share):
    binned, g, h = table(seed, 150)
    source = Recorded(binned, np.full(4, 6))
    grow([source], g, h, np.arange(150), Options(5, Rules(1.0, 0.0), 8, least, share), np.random.default_rng(seed))
    for one in source.opened:
        assert len(one) >= least
        for other in source.opened:
            apart = set(one) - set(other)
            if set(other) < set(one):
                assert len(apart) >= least  # one minus the other are sums of the rows apart
            else:
                assert set(one) <= set(other) or not set(one) & set(other)


def test_only_the_smaller_child_is_asked_for():
    binned, g, h = table(3, 400)
    source = Recorded(binned, np.full(4, 6))
    tree = grow([source], g, h, np.arange(400), Options(4, Rules(1.0, 4000.0), 8, 20), np.random.default_rng(0)).tree
    leaves = tree.leaves([binned])
    expected = [list(range(400))]
    for node in inner(tree):
        sides = [[row for row in range(400) if leaves[row] in below(tree, child)] for child in tree.children[node]]
        if min(map(len, sides)) >= 20 and len(above(tree, node)) < 3:
            expected.append(min(sides, key=len))
    assert sorted(source.opened) == sorted(expected)
    assert len(expected) > 4


def inner(tree):
    return np.flatnonzero(tree.party != LEAF).tolist()


def below(tree, node):
    if tree.party[node] == LEAF:
        return {node}
    return {leaf for child in tree.children[node] for leaf in below(tree, child)}


def above(tree, node):
    parents = [parent for parent in inner(tree) if node in tree.children[parent]]
    return parents + [other for parent in parents for other in above(tree, parent)]


def test_rows_that_are_not_trained_on_are_routed_and_change_nothing():
    binned, g, h = table(4, 100)
    rows = np.arange(0, 100, 2)
    options = Options(3, least=5)
    some = grow(parted(binned, 2), g, h, rows, options, np.random.default_rng(0))
    others = np.setdiff1d(np.arange(100), rows)
    g[others], h[others] = 1e9, 1e9
    changed = grow(parted(binned, 2), g, h, rows, options, np.random.default_rng(0))
    assert np.array_equal(some.tree.value, changed.tree.value)
    assert np.array_equal(some.leaf, changed.tree.leaves([binned[:, :2], binned[:, 2:]]))


def test_a_tree_uses_its_share_of_rows_and_features():
    binned, g, h = table(5, 100, features=10)
    source = Recorded(binned, np.full(10, 6))
    options = Options(4, Rules(), 8, 2, rows=0.3, features=0.2)
    grown = grow([source], g, h, np.arange(100), options, np.random.default_rng(0))
    assert len(source.opened[0]) == 30
    assert source.used[0].sum() == 2
    assert set(grown.tree.feature[inner(grown.tree)]) <= set(np.flatnonzero(source.used[0]))
    again = replace(options, features=1.0)
    grow([source], g, h, np.arange(100), again, np.random.default_rng(0))
    assert source.used[1] is None


@pytest.mark.parametrize("sign", [-1, 1])
@given(seed=st.integers(0, 2**32))
def test_scores_follow_the_sign_of_a_monotone_feature(sign, seed):
    binned, g, h = table(seed, 120)
    signs = np.array([sign, 0, 0, -sign])
    options = Options(5, Rules(0.0, 0.0), 8, 2)
    grown = grow(parted(binned, 4, signs=signs), g, h, np.arange(120), options, np.random.default_rng(0))
    for feature in (0, 3):
        values = []
        for place in range(5):  # without the bin of missing values, which has no place in the order
            moved = binned.copy()
            moved[:, feature] = place
            values.append(grown.tree.value[grown.tree.leaves([moved, moved[:, :0]])])
        assert (np.diff(values, axis=0) * signs[feature] >= -1e-12).all()


def test_too_few_rows_give_one_leaf():
    binned, g, h = table(6, 10)
    source = Recorded(binned, np.full(4, 6))
    grown = grow([source], g, h, np.arange(10), Options(3, least=11), np.random.default_rng(0))
    assert len(grown.tree.party) == 1
    assert not source.opened
    assert grown.tree.value[0] == pytest.approx(-g.sum() / (h.sum() + 1))


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"least": 0}, {"rows": 0.0}, {"features": 1.5}])
def test_options_without_a_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match="above 0"):
        Options(**wrong)
