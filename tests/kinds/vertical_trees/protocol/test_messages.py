"""Rows of nodes as bytes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.messages import (
    array_of,
    node_bytes,
    pack_flags,
    pack_nodes,
    unpack_flags,
    unpack_nodes,
)


def sizes_of(*sizes):
    return np.array([len(sizes), *sizes], dtype="<u4").tobytes()


@st.composite
def nodes(draw):
    total = draw(st.integers(1, 200))
    rows = st.sets(st.integers(0, total - 1)).map(lambda found: np.array(sorted(found), dtype=np.int64))
    return total, draw(st.lists(rows, max_size=5))


@given(nodes())
def test_nodes_come_back_and_cross_in_the_shorter_form(found):
    total, given_nodes = found
    data = pack_nodes(given_nodes, total)
    back = unpack_nodes(data, total, len(given_nodes))
    assert [rows.tolist() for rows in back] == [rows.tolist() for rows in given_nodes]
    shorter = [min(4 * len(rows), (total + 7) // 8) for rows in given_nodes]
    assert len(data) == 4 + sum(4 + each for each in shorter)
    assert [node_bytes(len(rows), total) for rows in given_nodes] == shorter


@given(st.binary(max_size=60), st.integers(1, 100), st.integers(0, 5))
def test_any_bytes_are_nodes_or_refused(data, total, most):
    try:
        found = unpack_nodes(data, total, most)
    except PeerError:
        return
    assert len(found) <= most
    for rows in found:
        assert sorted(set(rows.tolist())) == rows.tolist()
        assert all(0 <= row < total for row in rows)


def test_a_node_beyond_the_table_is_refused_before_its_rows_are_read():
    with pytest.raises(PeerError, match="a node with 101 rows of a table with 100"):
        unpack_nodes(sizes_of(101), 100, 1)


def test_many_nodes_of_many_rows_are_refused_before_they_are_read(monkeypatch):
    """A bit of a message becomes a row number of 64."""
    monkeypatch.setattr("tacit.kinds.vertical_trees.protocol.messages.MOST_TOGETHER", 250)
    assert len(unpack_nodes(pack_nodes([np.arange(100)] * 2, 100), 100, 5)) == 2
    with pytest.raises(PeerError, match="3 nodes with 300 rows at once: at most 250"):
        unpack_nodes(pack_nodes([np.arange(100)] * 3, 100), 100, 5)


def test_more_nodes_than_allowed_are_refused():
    with pytest.raises(PeerError, match="at most 1 nodes"):
        unpack_nodes(pack_nodes([np.arange(1), np.arange(2)], 100), 100, 1)


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [1, 100]])
def test_rows_that_do_not_ascend_or_are_too_large_are_refused(rows):
    with pytest.raises(PeerError, match="below 100 in ascending order"):
        unpack_nodes(sizes_of(2) + np.array(rows, dtype="<u4").tobytes(), 100, 1)


def test_a_node_whose_bits_are_not_as_many_as_its_size_is_refused():
    with pytest.raises(PeerError, match="a node of 50 rows holds 1"):
        unpack_nodes(sizes_of(50) + b"\x01" + bytes(12), 100, 1)


@given(st.lists(st.booleans(), max_size=40))
def test_flags_come_back(flags):
    data = pack_flags(np.array(flags, dtype=bool))
    assert unpack_flags(data, len(flags), "flags").tolist() == flags
    with pytest.raises(PeerError, match="flags"):
        unpack_flags(data + b"\x00", len(flags), "flags")


def test_numbers_of_another_count_are_refused():
    assert array_of(bytes(16), "<u8", 2, "words").tolist() == [0, 0]
    with pytest.raises(PeerError, match="words has 16 bytes, got 15"):
        array_of(bytes(15), "<u8", 2, "words")
