"""The extension: as computed bit by bit, each number used once, what the receiver lacks uniform, lengths checked."""

import copy
import hashlib
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.crypto import ot
from tacit.crypto.fixed_key import permutation
from tacit.crypto.ot import extension
from tacit.errors import PeerError
from tacit.randomness import seeded_rng
from tests.crypto.ot.plain import SESSION, ends, extended, numbers, seeds_of, stream

SEEDS = [(1, 2), (1, 3), (4, 2)]
KNOWN = ["1c7325d75034007c", "e26800e6c3ed9bf4", "c6430281f5eb79c0"]
CHOICES = st.lists(st.integers(0, 1), max_size=150)


@given(CHOICES, st.integers(0, 3))
@settings(max_examples=10)
def test_blocks_and_message_are_those_of_the_paper_bit_by_bit(choices, seed):
    sender, receiver = ends(seed)
    message, chosen = receiver.extend(choices)
    zeros, ones = sender.extend(message, len(choices))
    plain_message, plain_chosen, plain_pairs = extended(seed, choices)
    assert message == plain_message
    assert numbers(chosen) == plain_chosen
    assert list(zip(numbers(zeros), numbers(ones), strict=True)) == plain_pairs


@given(st.lists(CHOICES, min_size=1, max_size=4))
def test_the_receiver_has_the_chosen_block_of_each_pair_over_many_extensions(batches):
    sender, receiver = ends()
    seen: list[int] = []
    for choices in batches:
        message, chosen = receiver.extend(choices)
        zeros, ones = sender.extend(message, len(choices))
        picked = np.where(np.array(choices, dtype=bool).reshape(-1, 1), ones, zeros)
        assert (picked == chosen).all()
        seen += numbers(zeros) + numbers(ones)
    assert len(set(seen)) == len(seen) == 2 * sender.used
    assert sender.used == receiver.used == sum(map(len, batches))


def test_a_session_from_base_transfers_works_on_both_ends():
    invitation = ot.invite(seeded_rng(1))
    reply, sender = ot.join(invitation.message, seeded_rng(2))
    receiver = invitation.receiver(reply)
    assert sender.session == receiver.session
    choices = np.arange(1000) * 7 % 5 % 2
    message, chosen = receiver.extend(choices)
    zeros, ones = sender.extend(message, 1000)
    assert (np.where(choices[:, None] == 1, ones, zeros) == chosen).all()
    digests = [hashlib.sha256(part).hexdigest()[:16] for part in (message, zeros.tobytes(), ones.tobytes())]
    assert digests == KNOWN


def test_two_sessions_have_nothing_in_common():
    sessions = [ot.join(ot.invite(seeded_rng(one)).message, seeded_rng(other))[1].session for one, other in SEEDS]
    assert len(set(sessions)) == len(SEEDS)


def test_no_tweak_is_hashed_twice_in_a_session():
    sender, receiver = ends()
    used = {"sender": [], "receiver": []}

    def watched(name, hashed):
        def hash_and_note(blocks, tweaks):
            used[name].append(tweaks.tolist())
            return hashed(blocks, tweaks)

        return hash_and_note

    sender._hash, receiver._hash = watched("sender", sender._hash), watched("receiver", receiver._hash)
    for count in (3, 0, 64, 100):
        message, _ = receiver.extend([1] * count)
        sender.extend(message, count)
    assert list(itertools.chain(*used["receiver"])) == list(range(167))
    assert used["sender"] == [tweaks for tweaks in used["receiver"] for _ in range(2)]  # for x and for x ⊕ Δ


def test_equal_choices_do_not_show_in_the_message():
    """The sender sees words that pass for uniform, for all zeros and for all ones alike (χ² over bytes)."""
    for bit in (0, 1):
        _, receiver = ends(5)
        message, _ = receiver.extend([bit] * 4096)
        counts = np.bincount(np.frombuffer(message, dtype=np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4


def test_the_block_that_the_receiver_lacks_is_uniform_given_the_one_it_has():
    sender, receiver = ends(6)
    choices = np.arange(4096) % 2
    message, chosen = receiver.extend(choices)
    zeros, ones = sender.extend(message, 4096)
    lacked = np.where(choices[:, None] == 1, zeros, ones)
    for blocks in (lacked, lacked ^ chosen, lacked[1:] ^ lacked[:-1]):
        counts = np.bincount(np.ascontiguousarray(blocks).view(np.uint8).reshape(-1), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4
        ones_in_each_place = np.unpackbits(np.ascontiguousarray(blocks).view(np.uint8), axis=1).sum(axis=0)
        assert np.abs(ones_in_each_place - len(blocks) / 2).max() < 5.5 * np.sqrt(len(blocks)) / 2


def test_a_receiver_finds_the_other_block_with_the_secret_bits_only():
    """It knows t and the tweak, so it can try any Δ: here all with at most two bits, and what the sender has."""
    sender, receiver = ends(7)
    message, _ = receiver.extend([0] * 64)
    _, ones = sender.extend(message, 64)
    pairs = seeds_of(7)[1]
    t = sum(stream(zero, 0, 1)[0] << place for place, (zero, _) in enumerate(pairs))
    places = [0, *(1 << place for place in range(128))]
    pi = permutation(SESSION, "oblivious transfer")

    def blocks_for(deltas):
        inputs = np.array([[(t ^ delta) % 2**64, (t ^ delta) >> 64] for delta in deltas], dtype=np.uint64)
        return numbers(pi.hash(inputs, np.zeros(len(inputs), dtype=np.uint64)))

    wanted = numbers(ones)[0]
    assert wanted not in blocks_for([one ^ other for one in places for other in places])
    assert blocks_for([seeds_of(7)[0]]) == [wanted]


@given(st.integers(0, 200), st.integers(-8, 8).filter(bool))
def test_a_message_of_a_wrong_length_is_refused_and_nothing_is_used_up(count, change):
    sender, receiver = ends()
    message, chosen = receiver.extend([1] * count)
    wrong = message + bytes(change) if change > 0 else message[:change]
    if len(wrong) != len(message):
        with pytest.raises(PeerError, match=f"got {len(wrong)}"):
            sender.extend(wrong, count)
    _, ones = sender.extend(message, count)  # the streams are where they were
    assert (ones == chosen).all()


@given(st.integers(0, 127), st.integers(0, 63))
def test_a_changed_bit_of_the_message_changes_at_most_that_transfer(row, column):
    sender, receiver = ends(8)
    message, chosen = receiver.extend([0] * 64)
    data = np.frombuffer(message, dtype=np.uint8).copy()
    data[row * 8 + column // 8] ^= 1 << column % 8
    zeros, _ = sender.extend(data.tobytes(), 64)
    changed = (zeros != chosen).any(axis=1)
    delta = int.from_bytes(sender._delta.tobytes(), "little")
    assert changed.tolist() == [place == column and delta >> row & 1 == 1 for place in range(64)]


@pytest.mark.parametrize("choices", [[2], [-1], [0.0, 1.0], [[0, 1]], ["0"]])
def test_choices_that_are_no_bits_are_refused(choices):
    with pytest.raises(ValueError, match="choices are"):
        ends()[1].extend(choices)


def test_sizes_are_bounded_before_anything_is_allocated():
    sender, receiver = ends()
    with pytest.raises(ValueError, match="make them in blocks"):
        receiver.extend(np.broadcast_to(np.uint8(1), extension.MOST + 1))
    for count in (-1, extension.MOST + 1, 2**60):
        with pytest.raises(ValueError, match="make them in blocks"):
            sender.extend(b"", count)


@pytest.mark.parametrize("act", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_end_is_not_copied(act):
    for end in ends():
        with pytest.raises(TypeError, match="used twice"):
            act(end)
        assert "secret" in repr(end)
