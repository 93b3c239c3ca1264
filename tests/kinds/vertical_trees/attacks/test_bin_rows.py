"""Rows of a bin from the sums of one node."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.attacks.bin_rows import audit_bins, determined_share, name_bins, small_columns, subsets
from tacit.kinds.vertical_trees.protocol.rounding import pack, unpack


def weights(rows, bits, seed):
    """g and h of rows whose probabilities are spread, rounded as in training."""
    rng = np.random.default_rng([seed, rows, bits])
    p = rng.beta(1.5, 4, rows)
    return unpack(pack(p - (rng.random(rows) < p), p * (1 - p), bits, rng).words)


@given(
    st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 9)), min_size=2, max_size=9),
    st.integers(0, 2**9 - 1),
    st.sampled_from([None, 1, 2]),
)
def test_the_sets_are_all_that_have_the_sums(pairs, chosen, largest):
    g, h = (np.array(part, dtype=np.int64) for part in zip(*pairs, strict=True))
    inside = [row for row in range(len(g)) if chosen >> row & 1]
    sums = int(g[inside].sum()), int(h[inside].sum())
    middle, most = len(g) // 2, len(g) if largest is None else largest
    every = chain.from_iterable(combinations(range(len(g)), size) for size in range(len(g) + 1))
    wanted = {
        each
        for each in every
        if (sum(int(g[row]) for row in each), sum(int(h[row]) for row in each)) == sums
        and sum(row < middle for row in each) <= most
        and sum(row >= middle for row in each) <= most
    }
    found = subsets(g, h, sums, largest)
    assert {tuple(np.flatnonzero(each).tolist()) for each in found} == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize(("bits", "fewest", "most"), [(16, 20, 20), (8, 5, 15), (4, 0, 1)])
def test_rows_of_a_quarter_of_twenty_rows_follow_at_16_bits_and_not_at_4(bits, fewest, most):
    unique = 0
    for trial in range(20):
        g, h = weights(20, bits, trial)
        inside = np.random.default_rng(trial).random(20) < 0.25
        unique += len(subsets(g, h, (int(g[inside].sum()), int(h[inside].sum())))) == 1
    assert fewest <= unique <= most


def test_sixty_four_rows_do_not_hide_bins_of_two_rows():
    g, h = weights(64, 8, 0)
    column = np.random.default_rng(0).permutation(64) % 32
    sums = tuple(np.bincount(column, part, 32).astype(np.int64) for part in (g, h))
    named = name_bins(g, h, sums, np.full(32, 1 / 32), 2)
    assert np.mean(named == column) > 0.6
    eight = column % 8  # eight rows in a bin
    sums = tuple(np.bincount(eight, part, 8).astype(np.int64) for part in (g, h))
    assert np.mean(name_bins(g, h, sums, np.full(8, 1 / 8), 3) == eight) < 0.35


def test_a_lattice_finds_columns_from_fewer_equations_than_unknown_rows():
    rng = np.random.default_rng(1)
    equations = np.array([part for tree in range(4) for part in weights(40, 8, tree)])
    column = rng.integers(0, 8, 40)
    for bin_ in range(8):
        found = small_columns(equations, equations[:, column == bin_].sum(axis=1), 1 / 8)
        assert found is not None
        assert np.array_equal(found, column == bin_)


def test_a_lattice_says_nothing_if_no_rows_fit():
    equations = np.array([part for tree in range(4) for part in weights(30, 8, tree)]) * 2
    assert small_columns(equations, np.full(8, 3), 1 / 8) is None


def test_too_many_rows_for_all_sets_are_refused():
    g, h = weights(60, 8, 0)
    with pytest.raises(ValueError, match="40 rows"):
        subsets(g, h, (0, 0))


def test_the_finding_has_both_precisions():
    columns = np.random.default_rng(0).integers(0, 4, (20, 2)).astype(np.uint8)
    found = audit_bins(weights(20, 16, 0), weights(20, 4, 0), columns, "bits: 4")
    assert found.off.value == 1
    assert found.off.informative
    assert found.on.value < 0.5
    g, h = weights(20, 16, 0)
    assert determined_share(g, h, columns) == found.off
