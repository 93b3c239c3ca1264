"""Truncated shares: plain integers are the oracle, and the failures are exactly those that the theorem counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.two_party.truncation import failure, truncated

RING = 2**128


def array(value):
    return np.array([value % 2**64, value % RING >> 64], dtype=np.uint64)


def integer(word):
    return int(word[0]) | int(word[1]) << 64


def quotient(value, first, places):
    """The signed quotient that the two shares give, and the low word of it."""
    shares = truncated(array(first), places), truncated(array(value - first), places, second=True)
    both = sum(map(integer, shares)) % RING
    low = (int(shares[0][0]) + int(shares[1][0])) % 2**64
    assert low == both % 2**64
    return both - RING if both >= RING // 2 else both


@given(st.integers(-(2**100), 2**100), st.integers(2**100, RING - 2**100 - 1), st.integers(1, 63))
def test_the_quotient_is_right_or_one_off_away_from_the_edges(value, first, places):
    assert abs(quotient(value, first, places) - (value >> places)) <= 1


@given(st.integers(1, 2**100), st.integers(1, 63), st.data())
def test_it_fails_if_the_first_share_is_less_than_the_value_from_the_edge(value, places, data):
    """These are `value` of 2^128 first shares, on one side for each sign: the bound of the theorem has room for two."""
    first = data.draw(st.integers(0, value - 1))
    for signed, edge in ((value, first), (-value, RING - 1 - first)):
        assert abs(quotient(signed, edge, places) - (signed >> places)) > 1
    assert value / RING <= failure(value.bit_length())


def test_the_probability_of_a_failure_is_added_up():
    assert failure(46) < 2**-80
    assert failure(46, 2**10) == 2**-71
    assert failure(200) == 1


def test_wrong_arguments_are_refused():
    for places in (0, 64):
        with pytest.raises(ValueError, match="divided by"):
            truncated(array(1), places)
    with pytest.raises(ValueError, match="last axis of 2"):
        truncated(np.zeros(3, dtype=np.uint64), 5)
