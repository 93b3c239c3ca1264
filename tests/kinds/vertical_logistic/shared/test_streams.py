"""Shares of a deal add up to what the dealer made, and no stream is used for two deals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.shared.streams import (
    Layout,
    drawn_values,
    expand,
    missing,
    room,
    stream,
)

SEEDS = tuple(bytes([i]) * 32 for i in range(4))


@given(st.integers(2, 4), st.integers(0, 40), st.integers(0, 40), st.integers(0, 7), st.integers(1, 2**40))
def test_shares_add_up_to_the_values(parties, drawn, made, halves, serial):
    layout = Layout({"a": (drawn,), "b": (2, 3)}, {"c": (made, 2)}, {"d": (halves, 3)})
    seeds = SEEDS[:parties]
    values = drawn_values(layout, seeds, serial)
    buffer, words, tables = room(layout)
    words["c"][...] = np.arange(2 * made, dtype=np.uint64).reshape(made, 2) - np.uint64(5)
    tables["d"][...] = np.arange(3 * halves, dtype=np.uint32).reshape(halves, 3) - np.uint32(5)
    sent = missing(buffer.copy(), layout, seeds[:-1], serial)
    shares = [expand(layout, seed, serial, None) for seed in seeds[:-1]]
    shares.append(expand(layout, seeds[-1], serial, sent))
    for name in ("a", "b"):
        np.testing.assert_array_equal(sum(share.words[name] for share in shares), values[name])
    np.testing.assert_array_equal(sum(share.words["c"] for share in shares), words["c"])
    np.testing.assert_array_equal(sum(share.halves["d"] for share in shares), tables["d"])


def test_other_serials_and_seeds_give_other_words():
    streams = [stream(seed, serial, 100) for seed in SEEDS for serial in range(1, 50)]
    assert len({int(word) for words in streams for word in words}) == 100 * 4 * 49
