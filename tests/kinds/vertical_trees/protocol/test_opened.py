"""The nodes of a tree that a passive knows, and those that it refuses to open."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.opened import KnownNodes, Tally


def rows(*stretch):
    return np.arange(*stretch)


def test_children_of_enough_rows_may_be_opened_and_their_parents_not_any_more():
    known = KnownNodes(rows(100), 100, 20)
    known.open([rows(100)])
    known.open([rows(40)])
    known.open([rows(20), rows(40, 60)])
    assert known.count == 7
    with pytest.raises(PeerError, match="not part of one node"):
        known.open([rows(40)])


def test_a_whole_node_may_be_opened_again():
    known = KnownNodes(rows(100), 100, 20)
    known.open([rows(100), rows(40), rows(40, 100), rows(40)])
    assert known.count == 3


@pytest.mark.parametrize("size", [19, 81])
def test_a_node_is_refused_if_it_or_its_sibling_has_too_few_rows(size):
    known = KnownNodes(rows(100), 100, 20)
    with pytest.raises(PeerError, match=f"a node of {size} rows was asked for, which leaves {100 - size}"):
        known.open([rows(size)])


def test_a_node_across_two_nodes_is_refused():
    known = KnownNodes(rows(100), 100, 20)
    known.open([rows(50)])
    with pytest.raises(PeerError, match="not part of one node"):
        known.open([rows(25, 75)])


def test_rows_outside_the_tree_are_refused():
    with pytest.raises(PeerError, match="not part of one node"):
        KnownNodes(rows(0, 100, 2), 100, 20).open([rows(30)])


def test_an_empty_node_is_refused():
    with pytest.raises(PeerError, match="without rows"):
        KnownNodes(rows(100), 100, 20).open([rows(0)])


def test_a_tree_of_too_few_rows_is_refused():
    with pytest.raises(PeerError, match="a tree of 19 rows: this party opens no node below 20"):
        KnownNodes(rows(19), 100, 20)


@given(st.lists(st.sets(st.integers(0, 29), min_size=1), max_size=8), st.integers(1, 6))
def test_differences_of_opened_nodes_never_have_fewer_than_least_rows(asked, least):
    known, opened = KnownNodes(rows(30), 30, least), [frozenset(range(30))]
    for each in asked:
        try:
            known.open([np.array(sorted(each))])
        except PeerError:
            continue
        opened.append(frozenset(each))
    # All sums that follow from opened ones are sums over unions of the smallest parts.
    parts = {
        frozenset(row for row in range(30) if all((row in node) == (other in node) for node in opened))
        for other in range(30)
    }
    assert all(len(part) >= least for part in parts)


def test_a_tally_counts_answers():
    tally = Tally()
    tally.answered(2, 30)
    tally.answered(1, 5)
    assert (tally.splits, tally.sides) == (3, 35)
