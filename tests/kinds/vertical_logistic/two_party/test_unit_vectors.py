"""Histograms of shared places against numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.two_party import unit_vectors
from tacit.kinds.vertical_logistic.two_party.unit_vectors import count_first, count_second
from tacit.oblivious import Hidden
from tests.kinds.vertical_logistic.two_party.sessions import both


def counted(places, values, size, recorders=None):
    return both(
        lambda channel, end: count_first(channel, end, places[0], values, size),
        lambda channel, end: count_second(channel, end, places[1], size, values.dtype),
        recorders,
    )


@settings(max_examples=10)
@given(st.sampled_from([4, 16, 256]), st.sampled_from([np.uint32, np.uint64]), st.integers(1, 60), st.integers(0, 9))
def test_each_row_counts_at_the_sum_of_both_places(size, dtype, rows, seed):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 1 << 16, (2, rows))
    values = rng.integers(0, np.iinfo(dtype).max, rows, dtype=dtype)
    first, second = counted(places, values, size)
    expected = np.zeros(size, dtype=dtype)
    np.add.at(expected, places.sum(axis=0) % size, values)
    np.testing.assert_array_equal(first + second, expected)


def test_rows_in_several_messages_add_up(monkeypatch):
    monkeypatch.setattr(unit_vectors, "_AT_ONCE", 16 * 7)
    places = np.random.default_rng(0).integers(0, 16, (2, 30))
    first, second = counted(places, np.ones(30, dtype=np.uint32), 16)
    assert (first + second).tolist() == np.bincount(places.sum(axis=0) % 16, minlength=16).tolist()


@pytest.mark.parametrize("place", [0, 3])
def test_what_the_second_party_sees_is_uniform(place):
    recorders = {}
    places = np.full((2, 50), place)
    _, second = counted(places, np.ones(50, dtype=np.uint32), 256, recorders)
    sent = b"".join(m.data for m in recorders["second"].seen if isinstance(m, Hidden))
    for data in (sent, second.tobytes()):
        assert chisquare(np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)).pvalue > 1e-6


def test_vectors_of_a_wrong_length_are_refused():
    def first(channel, end):
        count_first(channel, end, np.zeros(3, dtype=int), np.ones(3, dtype=np.uint32), 8)

    with pytest.raises(PeerError, match="3 vectors of 8 words"):
        both(first, lambda channel, end: count_second(channel, end, np.zeros(3, dtype=int), 8, np.uint64))


def test_sizes_are_powers_of_two():
    with pytest.raises(ValueError, match="power of two"):
        both(
            lambda channel, end: count_first(channel, end, np.zeros(1, dtype=int), np.ones(1, dtype=np.uint32), 12),
            lambda channel, end: None,
        )
