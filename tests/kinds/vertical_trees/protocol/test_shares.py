"""Sums of shares against plain integers, and words that are uniform to the passive."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacit.kinds.vertical_trees.protocol import shares
from tacit.kinds.vertical_trees.protocol.shares import TreeShares, Value, Words, added, taken
from tests.kinds.vertical_trees.protocol.remote import cells_of, new_ends, random_table, table_of

MANY = 1 << 20
VALUE = Value(2, bytes(16), 0, None)


def joined(parts, rows, bins):
    found = np.zeros((rows, bins), dtype=np.uint64)
    for part, own in parts:
        found[part] = own
    return found


def in_parts(array):
    return iter([(slice(0, 5), array[:5]), (slice(5, None), array[5:])])


def shared(pair, tweak, feature, rows, values, keep=MANY, meeting=bytes(16)):
    """Both parties' shares of values, and the corrections that cross."""
    made, held = pair
    count, bins = len(values), int(made.bins[feature])
    corrections = np.empty(count, dtype=np.uint64)
    value = Value(tweak, meeting, feature, rows)
    active = joined(shares.given(Words(made, keep), value, values, corrections), count, bins)
    passive = joined(taken(Words(held, keep), value, held.table, corrections), count, bins)
    return active, passive, corrections


def uniform_words(count, seed):
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 40) | st.just(256), st.integers(1, 30), st.integers(0, 2**62), st.data())
def test_shares_differ_by_the_value_at_the_own_bin_and_nowhere_else(bins, rows, tweak, data):
    table = random_table(rows, [bins])
    chosen = data.draw(st.none() | st.sets(st.integers(0, rows - 1)).map(lambda s: np.array(sorted(s), dtype=np.int64)))
    count = rows if chosen is None else len(chosen)
    values = uniform_words(count, rows)
    active, passive, _ = shared(cells_of(table), tweak, 0, chosen, values, data.draw(st.sampled_from([0, MANY])))
    cells = table.cells[:, 0] if chosen is None else table.cells[chosen, 0]
    for row in range(count):
        for k in range(bins):
            difference = (int(passive[row, k]) - int(active[row, k])) % 2**64
            assert difference == (int(values[row]) if k == cells[row] else 0)


def test_the_passive_cannot_tell_the_words_from_uniform_ones():
    # It takes the words of all leaves that it holds off each correction. All values are zero, and all cells alike.
    rows = 20_000
    table = table_of(np.full((rows, 1), 5), [8])
    pair = cells_of(table, pair=new_ends(5))  # the same blocks in each run of this test
    _, passive, first = shared(pair, 3, 0, None, np.zeros(rows, dtype=np.uint64))
    _, other, second = shared(pair, 4, 0, None, np.zeros(rows, dtype=np.uint64))
    left, again = passive[:, 5].copy(), other[:, 5].copy()
    for words in (first, left, second, again, left - again, left ^ again):
        for place in range(8):
            counts = np.bincount(words.view(np.uint8).reshape(rows, 8)[:, place], minlength=256)
            assert chisquare(counts).pvalue > 1e-4
    assert len(np.unique(np.concatenate([left, again]))) == 2 * rows


def test_words_of_other_features_rows_tweaks_and_meetings_are_other_words():
    pair = cells_of(random_table(30, [4, 4]))
    values = uniform_words(30, 0)
    found = [
        shared(pair, tweak, feature, None, values, meeting=meeting)[2]
        for tweak in (0, 1)
        for feature in (0, 1)
        for meeting in (bytes(16), bytes(15) + b"1")
    ]
    assert len(np.unique(np.concatenate(found))) == 8 * 30


def test_leaves_that_are_kept_and_those_that_are_grown_again_give_the_same_words(monkeypatch):
    monkeypatch.setattr(shares, "_LEAVES_AT_ONCE", 64)  # several parts
    pair = cells_of(random_table(50, [5, 9]))
    for rows in (None, np.array([1, 7, 8, 30, 49])):
        values = uniform_words(50 if rows is None else 5, 1)
        for one, other in zip(*(shared(pair, 9, 1, rows, values, keep) for keep in (0, MANY)), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize(("keep", "made_again"), [(0, [0, 1]), (40 * 3, [1]), (MANY, [])])
def test_sums_over_nodes_are_those_of_plain_integers(monkeypatch, keep, made_again):
    monkeypatch.setattr(shares, "_ROWS_AT_ONCE", 7)
    bins, again = np.array([3, 8]), []
    tree = TreeShares(lambda j: again.append(j) or in_parts(arrays[j]), keep)
    for seed in range(2):  # the second tree takes the memory of the first
        arrays = [uniform_words(40 * each, seed + each).reshape(40, each) for each in bins]
        tree.begin(40)
        for feature in range(2):
            tree.add(feature, bins[feature], in_parts(arrays[feature]))
        nodes = [np.arange(40), np.arange(3, 25), np.empty(0, dtype=np.int64), np.array([39])]
        expected = [
            [sum(int(each[row, k]) for row in rows) % 2**64 for each in arrays for k in range(each.shape[1])]
            for rows in nodes
        ]
        assert tree.sums(nodes, bins).tolist() == expected
        assert again == made_again
        again.clear()


def test_trees_of_fewer_rows_and_features_do_not_see_the_one_before():
    arrays = [uniform_words(40 * 4, seed).reshape(40, 4) for seed in range(3)]
    tree = TreeShares(lambda j: in_parts(arrays[j]))
    for rows, features in [(40, (0, 1, 2)), (40, (2,)), (10, (1, 0)), (40, (1,))]:
        tree.begin(rows)
        for feature in features:
            tree.add(feature, 4, in_parts(arrays[feature][:rows]))
        expected = np.concatenate([arrays[feature][:rows].sum(axis=0, dtype=np.uint64) for feature in features])
        assert tree.sums([np.arange(rows)], np.full(3, 4)).tolist() == [expected.tolist()]


def test_parts_add_up(monkeypatch):
    monkeypatch.setattr(shares, "_LEAVES_AT_ONCE", 40)
    made, _ = cells_of(random_table(33, [4]))
    words = Words(made, MANY)
    whole = joined(words.parts(VALUE), 33, 4)
    assert np.array_equal(added(words.parts(VALUE), 4), whole.sum(axis=0, dtype=np.uint64))


@pytest.mark.parametrize("tweak", [-1, 2**63])
def test_a_tweak_that_no_counter_gives_is_refused(tweak):
    made, _ = cells_of(random_table(3, [2]))
    with pytest.raises(ValueError, match="a tweak is a number"):
        next(Words(made).parts(replace(VALUE, tweak=tweak)))
