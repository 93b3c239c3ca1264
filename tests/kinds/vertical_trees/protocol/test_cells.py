"""Leaves of cells against those of `tacit.crypto.punctured`, and what a set-up sends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto.punctured import PuncturedTrees, Trees
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import cells
from tacit.oblivious import Columns, Sums
from tacit.store.files import read_arrays, write_arrays
from tests.kinds.vertical_trees.protocol.remote import both, cells_of, ends, random_table, table_of

BINS = st.lists(st.integers(2, 40) | st.just(256), min_size=1, max_size=4)
ALL = slice(None)


@settings(deadline=None, max_examples=25)
@given(BINS, st.integers(1, 12), st.integers(0, 99))
def test_leaves_are_the_first_ones_of_the_punctured_trees(bins, rows, seed):
    table = random_table(rows, bins, seed)
    made, held = cells_of(table)
    for feature, count in enumerate(bins):
        depth = max(1, (count - 1).bit_length())
        whole = Trees(made.session, depth, made.seeds[feature]).leaves()[:count].swapaxes(0, 1)
        assert np.array_equal(made.leaves(feature, ALL), whole)
        holes = table.cells[:, feature].astype(np.int64)
        punctured = PuncturedTrees(held.session, holes, held.siblings[feature]).leaves()[:count].swapaxes(0, 1)
        present = np.arange(count) != holes[:, None]
        assert np.array_equal(held.leaves(feature, ALL)[present], punctured[present])
        assert np.array_equal(whole[present], punctured[present])


def test_the_leaf_of_the_own_bin_is_not_held():
    table = random_table(50, [2, 5, 32])
    made, held = cells_of(table)
    for feature in range(3):
        at = np.arange(50), table.cells[:, feature]
        missing = made.leaves(feature, ALL)[at]
        for seen in (held.leaves(feature, ALL), *held.siblings[feature]):
            known = {block.tobytes() for block in seen.reshape(-1, 2)}
            assert not known & {block.tobytes() for block in missing}


def test_leaves_of_some_rows_are_those_rows_of_all_leaves():
    rows = np.array([0, 3, 4, 17])
    for each in cells_of(random_table(20, [7, 16])):
        for part in (rows, slice(5, 9)):
            for feature in range(2):
                assert np.array_equal(each.leaves(feature, ALL)[part], each.leaves(feature, part))


def test_the_bytes_of_a_set_up_are_those_that_cross():
    table, recorders = random_table(5000, [3, 32, 20]), {}
    cells_of(table, recorders)
    requests = [len(m.rows) for m in recorders["passive"].sent if isinstance(m, Columns)]
    answers = [len(m.blocks) for m in recorders["active"].sent if isinstance(m, Sums)]
    assert cells.setup_bytes(5000, table.bins) == sum(requests) + sum(answers)


def test_a_cell_beyond_its_bins_is_refused():
    with pytest.raises(ValueError, match="cells beyond"):
        cells.hold(None, None, np.array([[3]], dtype=np.uint8), np.array([3]))


@pytest.mark.parametrize("bins", [1, 257])
def test_numbers_of_bins_are_bounded(bins):
    with pytest.raises(ValueError, match="2 to 256 bins"):
        cells.make(None, None, 1, np.array([bins]))


def test_a_number_of_features_that_no_memory_holds_is_the_peers_fault():
    """A party that makes up its number of features: 2^24 rows of them would take 563 TB."""
    bins = np.full(1 << 20, 256)
    with pytest.raises(PeerError, match=r"the other party has 1048576 features: .* take 562,950\.0 GB"):
        both(lambda channel: cells.make(channel, ends()[0], 1 << 24, bins), lambda channel: None)


def test_a_table_needs_as_many_signs_as_features():
    with pytest.raises(ValueError, match="2 features need as many"):
        table_of([[0, 1]], [2, 2], signs=np.zeros(1))


def test_cells_are_the_same_after_they_were_stored(tmp_path):
    for each in cells_of(random_table(20, [3, 32, 20])):
        write_arrays(tmp_path / "cells", each.arrays(), {})
        back = type(each).of_arrays(read_arrays(tmp_path / "cells")[0])
        assert back.session == each.session
        assert back.rows == each.rows
        assert back.bins.tolist() == each.bins.tolist()
        for feature in range(3):
            assert np.array_equal(back.leaves(feature, ALL), each.leaves(feature, ALL))


def test_arrays_of_another_table_are_refused():
    made, held = cells_of(random_table(20, [3, 32]))
    for each, name in ((made, "seeds-1"), (held, "siblings-1")):
        with pytest.raises(ValueError, match="not those of the cells of 2 features"):
            type(each).of_arrays({**each.arrays(), name: each.arrays()[name][:, :-1]})
