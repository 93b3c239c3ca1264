"""Dropped bits and lifted shares against plain integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacit.crypto.ot.words import Words
from tacit.kinds.vertical_logistic.two_party.lift import dropped, lift_first, lift_second
from tacit.oblivious import Hidden
from tests.kinds.vertical_logistic.two_party.sessions import both

WORD = st.integers(0, 2**64 - 1)


def words(values) -> Words:
    return np.array([int(value) % 2**64 for value in values], dtype=np.uint64)


@given(WORD, st.integers(-(2**61), 2**61), st.integers(8, 64), st.data())
def test_the_quotient_is_off_by_less_than_one_unit(mask, value, bits, data):
    value %= 2**bits
    places = data.draw(st.integers(0, bits - 1))
    first = dropped(words([mask]), bits, places, second=False)
    second = dropped(words([value - mask]), bits, places, second=True)
    found = int(first[0] + second[0]) % 2 ** (bits - places)
    assert (found * 2**places - value) % 2**bits in range(-(2**places) + 1, 2**places) or (
        value - found * 2**places
    ) % 2**bits < 2**places


@settings(max_examples=10)
@given(st.integers(4, 64), st.data())
def test_lifted_shares_add_up_to_the_value_for_every_mask(bits, data):
    bound = 2 ** (bits - 2) - 1
    values = [*data.draw(st.lists(st.integers(-bound, bound), min_size=1, max_size=30)), bound, -bound, 0, -1]
    masks = data.draw(st.lists(WORD, min_size=len(values), max_size=len(values)))
    shares = words(masks), words(value - mask for value, mask in zip(values, masks, strict=True))
    low = [share & np.uint64(2**bits - 1) for share in shares]
    first, second = both(
        lambda channel, end: lift_first(channel, end, low[0], bits),
        lambda channel, end: lift_second(channel, end, low[1], bits),
    )
    assert (first + second).view(np.int64).tolist() == values


def test_a_value_beyond_the_bound_is_not_lifted_right():
    """So the bound is needed: a quarter of the ring, and not the half."""
    share = words([2**11])
    first, second = both(
        lambda channel, end: lift_first(channel, end, share * np.uint64(0), 12),
        lambda channel, end: lift_second(channel, end, share, 12),
    )
    assert int((first + second).view(np.int64)[0]) != 2**11


def test_what_the_second_party_learns_is_uniform():
    recorders, rng = {}, np.random.default_rng(0)
    shares = rng.integers(0, 2**20, (2, 20_000), dtype=np.uint64)
    _, second = both(
        lambda channel, end: lift_first(channel, end, shares[0], 20),
        lambda channel, end: lift_second(channel, end, shares[1], 20),
        recorders,
    )
    sent = b"".join(m.data for m in recorders["second"].seen if isinstance(m, Hidden))
    for data in (sent, (shares[1] - second).tobytes()):
        assert chisquare(np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)).pvalue > 1e-6


def test_more_bits_than_there_are_cannot_be_dropped():
    with pytest.raises(ValueError, match="bits are dropped"):
        dropped(words([1]), 8, 8, second=False)
