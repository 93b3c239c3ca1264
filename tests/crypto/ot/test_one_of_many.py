"""Table lookups: the entry at the index and no other, as computed one block at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.crypto.ot import one_of_many
from tacit.crypto.ot.one_of_many import hide_tables, index_bits, open_entries
from tacit.errors import PeerError
from tests.crypto.ot.plain import SESSION, Pi, ends, numbers


def transfers(indices, bits, seed=0):
    sender, receiver = ends(seed)
    message, chosen = receiver.extend(index_bits(indices, bits))
    zeros, ones = sender.extend(message, len(indices) * bits)
    return tuple(blocks.reshape(-1, bits, 2) for blocks in (zeros, ones, chosen))


@given(st.integers(1, 7), st.integers(1, 8), st.data())
def test_the_receiver_gets_the_entry_at_its_index(bits, width, data):
    indices = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=20))
    entries = np.random.default_rng(1).integers(0, 2**64, (len(indices), 2**bits), dtype=np.uint64)
    zeros, ones, chosen = transfers(indices, bits)
    message = hide_tables(SESSION, zeros, ones, entries, width)
    assert len(message) == len(indices) * 2**bits * width
    found = open_entries(SESSION, indices, chosen, message, width)
    assert found.tolist() == [int(row[index]) % 2 ** (8 * width) for row, index in zip(entries, indices, strict=True)]


def plain_pads(pi, pairs):
    """The pads of one table, by the definition: pairs of keys, lowest bit first."""
    if len(pairs) == 1:
        return list(pairs[0])
    half = len(pairs) // 2
    low, high = plain_pads(pi, pairs[:half]), plain_pads(pi, pairs[half:])
    return [pi.keyed(high[e >> half], e) ^ pi.keyed(low[e % 2**half], e) for e in range(2 ** len(pairs))]


@given(st.integers(1, 5))
@settings(max_examples=5)
def test_pads_are_those_of_the_definition(bits):
    zeros, ones, _ = transfers([0, 1], bits)
    message = hide_tables(SESSION, zeros, ones, np.zeros((2, 2**bits), dtype=np.uint64), 8)
    expected = []
    for table in range(2):
        pairs = list(zip(numbers(zeros[table]), numbers(ones[table]), strict=True))
        expected += [pad % 2**64 for pad in plain_pads(Pi("pads of tables"), pairs)]
    assert np.frombuffer(message, dtype=np.uint64).tolist() == expected


def test_tables_are_hidden_in_parts_without_a_seam(monkeypatch):
    zeros, ones, _ = transfers([0, 1, 2, 3, 4], 3)
    entries = np.arange(40, dtype=np.uint64).reshape(5, 8)
    whole = hide_tables(SESSION, zeros, ones, entries, 8)
    monkeypatch.setattr(one_of_many, "_AT_ONCE", 16)
    assert hide_tables(SESSION, zeros, ones, entries, 8) == whole


def test_all_other_entries_look_uniform_even_if_all_are_equal():
    """χ² over bytes of the entries that the receiver did not choose, also without the pad that it has."""
    indices = np.arange(256) % 16
    zeros, ones, _ = transfers(indices, 4, seed=3)
    message = hide_tables(SESSION, zeros, ones, np.full((256, 16), 7, dtype=np.uint64), 8)
    hidden = np.frombuffer(message, dtype=np.uint64).reshape(256, 16)
    known = np.zeros((256, 16), dtype=bool)
    known[np.arange(256), indices] = True
    pads = hidden[known] ^ np.uint64(7)
    for words in (hidden[~known], (hidden ^ pads[:, None])[~known], (hidden[:, 1:] ^ hidden[:, :-1]).ravel()):
        assert stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-4


def test_a_wrong_index_opens_nothing():
    """The receiver tries its blocks at every other index of the table: no entry comes out right."""
    indices = [5] * 40
    zeros, ones, chosen = transfers(indices, 4, seed=4)
    message = hide_tables(SESSION, zeros, ones, np.full((40, 16), 7, dtype=np.uint64), 8)
    for index in range(16):
        found = open_entries(SESSION, [index] * 40, chosen, message, 8)
        assert (found == 7).tolist() == [index == 5] * 40


@given(st.integers(-20, 20).filter(bool))
def test_a_message_of_a_wrong_length_is_refused(change):
    zeros, ones, chosen = transfers([1, 2], 3)
    message = hide_tables(SESSION, zeros, ones, np.zeros((2, 8), dtype=np.uint64), 5)
    with pytest.raises(PeerError, match="has 80 bytes, got"):
        open_entries(SESSION, [1, 2], chosen, message + bytes(change) if change > 0 else message[:change], 5)


def test_wrong_arguments_are_refused():
    zeros, ones, chosen = transfers([1, 2], 3)
    for width in (0, 9):
        with pytest.raises(ValueError, match=f"1 to 8 bytes, got {width}"):
            hide_tables(SESSION, zeros, ones, np.zeros((2, 8), np.uint64), width)
        with pytest.raises(ValueError, match=f"1 to 8 bytes, got {width}"):
            open_entries(SESSION, [1, 2], chosen, b"", width)
    with pytest.raises(ValueError, match=r"shape \(2, 8\)"):
        hide_tables(SESSION, zeros, ones, np.zeros((2, 4), np.uint64), 8)
    with pytest.raises(ValueError, match="look up in blocks"):
        one_of_many.check_size(2**20, 2**16, 8)
    for indices, bits in (([8], 3), ([-1], 3), ([[1]], 3)):
        with pytest.raises(ValueError, match="numbers below 8"):
            index_bits(indices, bits)
    for bits in (0, 17):
        with pytest.raises(ValueError, match="1 to 16 bits"):
            index_bits([0], bits)
