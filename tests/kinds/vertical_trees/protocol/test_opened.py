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
    with pytest.raises(PeerError, match="not part of one node"):
        known.open([rows(40)])


def test_a_whole_node_may_be_opened_again():
    known = KnownNodes(rows(100), 100, 20)
    known.open([rows(100), rows(40), rows(40, 100), rows(40)])
    known.divide([rows(40), rows(40, 100)])


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


def test_a_split_divides_a_whole_node_once_and_its_parts_after_they_are_opened():
    known = KnownNodes(rows(100), 120, 20)
    known.divide([rows(110)])  # with ten rows that are in no sum
    known.open([rows(40)])
    known.divide([np.r_[0:40, 100:105], np.r_[40:100, 105:110]])
    known.open([rows(20)])
    known.divide([np.r_[0:20, 100:103], np.r_[20:40, 103:105]])


@pytest.mark.parametrize(
    "asked",
    [
        rows(1),  # a part of a node that was not opened, as a single row
        rows(0),
        rows(39),
        rows(100),  # all of them, of which a part was opened
        rows(30, 60),
        rows(100, 105),  # rows in no sum alone
        np.r_[0:40, 40:41],
    ],
    ids=len,
)
def test_a_split_of_anything_else_is_refused(asked):
    known = KnownNodes(rows(100), 110, 20)
    known.open([rows(40)])
    with pytest.raises(PeerError, match="divides one whole node"):
        known.divide([asked])


def test_a_node_is_not_divided_twice():
    known = KnownNodes(rows(100), 100, 20)
    known.divide([rows(100)])
    with pytest.raises(PeerError, match="each of them once"):
        known.divide([rows(100)])


@pytest.mark.parametrize("first", [0, 1])
def test_rows_in_no_sum_move_down_only(first):
    known = KnownNodes(rows(100), 110, 20)
    known.divide([rows(105)])
    known.open([rows(40)])
    parts = [np.r_[0:40, 100:103], np.r_[40:100, 100:103]]
    known.divide([parts[first]])
    with pytest.raises(PeerError, match="some are in another node already"):
        known.divide([parts[1 - first]])


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
