"""Chosen messages and correlated words: what each end gets, what the receiver lacks, and lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.crypto.ot.transfers import correlate, correlated, hide_pairs, open_chosen
from tacit.errors import PeerError
from tests.crypto.ot.plain import SESSION, Pi, ends, numbers

CHOICES = st.lists(st.integers(0, 1), max_size=70)


def random_transfers(choices, seed=0):
    sender, receiver = ends(seed)
    message, chosen = receiver.extend(choices)
    return *sender.extend(message, len(choices)), chosen


def as_integers(words, bits):
    return words.tolist() if bits == 64 else numbers(words)


@given(CHOICES, st.integers(1, 50), st.integers(0, 2**32))
def test_the_receiver_opens_the_message_of_its_choice(choices, width, seed):
    zeros, ones, chosen = random_transfers(choices)
    first, second = np.random.default_rng(seed).integers(0, 256, (2, len(choices), width), dtype=np.uint8)
    message = hide_pairs(SESSION, zeros, ones, first, second)
    opened = open_chosen(SESSION, choices, chosen, message, width)
    assert (opened == np.where(np.array(choices, dtype=bool).reshape(-1, 1), second, first)).all()


@given(st.integers(1, 40))
@settings(max_examples=8)
def test_pairs_are_hidden_as_one_block_at_a_time(width):
    zeros, ones, _ = random_transfers([0, 1, 1])
    nothing = np.zeros((3, width), dtype=np.uint8)
    pi = Pi("pads of pairs")
    expected = b""
    for pair in zip(numbers(zeros), numbers(ones), strict=True):
        for key in pair:
            blocks = [pi.keyed(key, number).to_bytes(16, "little") for number in range(3)]
            expected += b"".join(blocks)[:width]
    assert hide_pairs(SESSION, zeros, ones, nothing, nothing) == expected


@pytest.mark.parametrize("bits", [64, 128])
@given(choices=CHOICES, seed=st.integers(0, 2**32))
def test_words_differ_by_the_difference_if_it_was_chosen(bits, choices, seed):
    zeros, ones, chosen = random_transfers(choices)
    shape = (len(choices),) if bits == 64 else (len(choices), 2)
    differences = np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)
    kept, message = correlate(zeros, ones, differences, bits)
    got = correlated(choices, chosen, message, bits)
    assert len(message) == len(choices) * bits // 8
    plain = zip(as_integers(kept, bits), choices, as_integers(differences, bits), strict=True)
    assert as_integers(got, bits) == [(x + choice * d) % 2**bits for x, choice, d in plain]


def test_a_correction_is_uniform_for_any_difference():
    """The receiver sees it: for equal differences its bytes pass for uniform, with and without its own blocks (χ²)."""
    for choice in (0, 1):
        zeros, ones, chosen = random_transfers([choice] * 4096, seed=1)
        _, message = correlate(zeros, ones, np.full(4096, 12345, dtype=np.uint64), 64)
        corrections = np.frombuffer(message, dtype=np.uint64)
        for words in (corrections, corrections - chosen[:, 0], corrections + chosen[:, 0]):
            counts = np.bincount(words.view(np.uint8), minlength=256)
            assert stats.chisquare(counts).pvalue > 1e-4


def test_the_message_that_was_not_chosen_stays_uniform():
    zeros, ones, chosen = random_transfers([0] * 4096, seed=2)
    nothing = np.zeros((4096, 16), dtype=np.uint8)
    pairs = np.frombuffer(hide_pairs(SESSION, zeros, ones, nothing, nothing), dtype=np.uint8).reshape(-1, 2, 16)
    for data in (pairs[:, 1], pairs[:, 1] ^ chosen.view(np.uint8), pairs[:, 1] ^ pairs[:, 0]):
        assert stats.chisquare(np.bincount(data.reshape(-1), minlength=256)).pvalue > 1e-4


@given(st.integers(-20, 20).filter(bool))
def test_messages_of_a_wrong_length_are_refused(change):
    zeros, ones, chosen = random_transfers([0, 1, 1])
    texts = np.zeros((3, 16), dtype=np.uint8)
    pairs = hide_pairs(SESSION, zeros, ones, texts, texts)
    _, words = correlate(zeros, ones, np.zeros(3, dtype=np.uint64), 64)
    for message, act in (
        (pairs, lambda data: open_chosen(SESSION, [0, 1, 1], chosen, data, 16)),
        (words, lambda data: correlated([0, 1, 1], chosen, data, 64)),
    ):
        with pytest.raises(PeerError, match=f"has {len(message)} bytes, got"):
            act(message + bytes(change) if change > 0 else message[:change])


def test_arrays_that_do_not_fit_the_transfers_are_refused():
    zeros, ones, _ = random_transfers([0, 1, 1])
    with pytest.raises(ValueError, match="3 transfers"):
        hide_pairs(SESSION, zeros, ones, np.zeros((3, 4), np.uint8), np.zeros((3, 5), np.uint8))
    with pytest.raises(ValueError, match="3 transfers"):
        hide_pairs(SESSION, zeros, ones, np.zeros((2, 4), np.uint8), np.zeros((2, 4), np.uint8))
    with pytest.raises(ValueError, match="3 transfers"):
        correlate(zeros, ones, np.zeros(3, np.uint64), 128)
