"""Two parties over a channel: transfers, lookups and trees in blocks; the tweaks that both keep; refused messages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import oblivious
from tacit.channel import Recorder, pair, run_parties
from tacit.crypto import punctured
from tacit.crypto.counter import Counter
from tacit.errors import PeerError
from tacit.oblivious import Answer, Columns, Hidden, Offer, Sums, Tweak
from tacit.randomness import seeded_rng
from tests.crypto.ot.plain import SESSION, ends


def together(maker, holder):
    """Run both parties, each a function of its channel; what each returned, and what each sent."""
    recorders = {}

    def party(name, other, act):
        def run(channels):
            recorders[name] = Recorder(channels[other])
            return act(recorders[name])

        return run

    results = run_parties(
        {"maker": party("maker", "holder", maker), "holder": party("holder", "maker", holder)}, patience=60
    )
    return results["maker"], results["holder"], {name: recorder.sent for name, recorder in recorders.items()}


def test_a_session_over_a_channel_serves_all_kinds_of_transfers():
    draw = np.random.default_rng(0)
    choices, indices, holes = draw.integers(0, 2, 30), draw.integers(0, 8, 20), draw.integers(0, 8, 11)
    first, second = draw.integers(0, 256, (2, 30, 5), dtype=np.uint8)
    differences = draw.integers(0, 2**64, 30, dtype=np.uint64)
    tables = draw.integers(0, 2**64, (20, 8), dtype=np.uint64)

    def maker(channel):
        end = oblivious.sender(channel, seeded_rng(1))
        oblivious.send_pairs(channel, end, first, second)
        kept = oblivious.send_correlated(channel, end, differences)
        oblivious.send_tables(channel, end, tables, 7)
        return kept, oblivious.make_trees(channel, end, 11, 3), end

    def holder(channel):
        end = oblivious.receiver(channel, seeded_rng(2))
        opened = oblivious.receive_chosen(channel, end, choices, 5)
        words = oblivious.receive_correlated(channel, end, choices)
        entries = oblivious.receive_entries(channel, end, indices, 3, 7)
        return opened, words, entries, oblivious.hold_trees(channel, end, holes, 3), end

    (kept, trees, sender), (opened, words, entries, held, receiver), sent = together(maker, holder)
    assert (opened == np.where(choices[:, None] == 1, second, first)).all()
    assert (words == kept + differences * choices.astype(np.uint64)).all()
    assert (entries == tables[np.arange(20), indices] % 2**56).all()
    missing = (trees.leaves() != held.leaves()).any(axis=2)
    assert (missing.sum(axis=0) == 1).all()
    assert (missing.argmax(axis=0) == holes).all()
    assert sender.session == receiver.session == trees.session == held.session
    assert sender.used == receiver.used == 30 + 30 + 20 * 3 + 11 * 3
    assert [type(message) for message in sent["maker"]] == [Answer, Hidden, Hidden, Hidden, Sums]
    assert [type(message) for message in sent["holder"]] == [Offer, Columns, Columns, Columns, Columns]


@given(st.integers(0, 40), st.integers(1, 4), st.integers(1, 12))
@settings(max_examples=15)
def test_trees_are_made_in_blocks_of_any_size(count, depth, size):
    holes = np.arange(count) * 7 % 2**depth
    sender, receiver = ends(1)
    leaves = {"maker": {}, "holder": {}}

    def keep(name):
        return lambda part, found: leaves[name].update({(part.start, part.stop): found})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(punctured, "block", lambda _: size)
        trees, held, sent = together(
            lambda channel: oblivious.make_trees(channel, sender, count, depth, keep("maker")),
            lambda channel: oblivious.hold_trees(channel, receiver, holes, depth, keep("holder")),
        )
    whole, punctured_whole = trees.leaves(), held.leaves()
    missing = np.zeros(whole.shape[:2], dtype=bool)
    missing[holes, np.arange(count)] = True
    assert ((whole != punctured_whole).any(axis=2) == missing).all()
    parts = [(start, min(start + size, count)) for start in range(0, count, size)]
    for name, expected in (("maker", whole), ("holder", punctured_whole)):
        assert list(leaves[name]) == parts
        for start, stop in parts:
            assert (leaves[name][start, stop] == expected[:, start:stop]).all()
        assert len(sent[name]) == len(parts)


@given(st.integers(0, 100), st.integers(0, 100))
def test_both_parties_advance_to_the_larger_tweak_and_keep_it(one, other):
    kept = {"maker": [one], "holder": [other]}
    counters = {name: Counter(numbers[0], numbers.append) for name, numbers in kept.items()}
    both = [lambda channel, name=name: oblivious.agree(channel, counters[name]) for name in kept]
    first, second, _ = together(*both)
    assert first == second == max(one, other)
    assert all(numbers[-1] == max(one, other) for numbers in kept.values())
    assert counters["maker"].take(3) == counters["holder"].take(3)


def test_a_party_restored_from_an_older_copy_uses_no_tweak_again():
    used = []
    stored = {"maker": [0], "holder": [0]}
    for life in range(3):
        counters = {name: Counter(numbers[-1], numbers.append) for name, numbers in stored.items()}
        both = [
            lambda channel, name=name, counters=counters: oblivious.agree(channel, counters[name]) for name in stored
        ]
        together(*both)
        taken = [counter.take(5) for counter in counters.values()]
        assert taken[0] == taken[1]
        used += taken[0]
        if life == 0:
            del stored["holder"][1:]  # back to its beginning
    assert len(set(used)) == len(used) == 15


@pytest.mark.parametrize("number", [-1, 2**63 + 1, 2**50])
def test_a_tweak_that_no_party_can_have_is_refused(number):
    here, there = pair()
    there.send(Tweak(number))
    counter = Counter(5, print)
    with pytest.raises(PeerError, match="make new trees"):
        oblivious.agree(here, counter)
    assert counter.next == 5


CASES = {
    "offer": (lambda channel: oblivious.sender(channel), Offer, 64),
    "answer": (lambda channel: oblivious.receiver(channel), Answer, 4096),
    "pairs": (lambda channel: oblivious.receive_chosen(channel, ends()[1], [0, 1], 5), Hidden, 20),
    "words": (lambda channel: oblivious.receive_correlated(channel, ends()[1], [0, 1], 128), Hidden, 32),
    "entries": (lambda channel: oblivious.receive_entries(channel, ends()[1], [0, 1], 3, 7), Hidden, 112),
    "sums": (lambda channel: oblivious.hold_trees(channel, ends()[1], np.array([0, 1]), 3), Sums, 128),
    "columns of trees": (lambda channel: oblivious.make_trees(channel, ends()[0], 2, 3), Columns, 1024),
    "columns of tables": (
        lambda channel: oblivious.send_tables(channel, ends()[0], np.zeros((2, 8), np.uint64)),
        Columns,
        1024,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("change", [-1, 1, 10_000, None])
def test_a_message_of_a_wrong_length_or_kind_is_refused(case, change):
    act, kind, size = CASES[case]
    here, there = pair(patience=5)
    there.send(Tweak(0) if change is None else kind(bytes(size + change)))
    with pytest.raises(PeerError, match=r"bytes|sent no"):
        act(here)


def test_tables_of_another_size_than_a_power_of_two_are_refused():
    for size in (1, 3, 2**17):
        with pytest.raises(ValueError, match="power of two"):
            oblivious.send_tables(pair()[0], ends()[0], np.zeros((1, size), np.uint64))


def test_the_words_of_two_lives_of_a_pair_differ():
    """Trees outlive a meeting, their session and the counter are stored: no word comes again."""
    _, receiver = ends(2)
    sender, _ = ends(2)
    asked, chosen = punctured.request(receiver, [1, 2], 2)
    trees, _, reply = punctured.answer(sender, asked, 2, 2)
    held, _ = punctured.finish(SESSION, [1, 2], 2, chosen, reply)
    stored, seen = [0], set()
    for _ in range(3):
        counter = Counter(stored[-1], stored.append, reserve=4)
        for tweak in counter.take(3):
            made = punctured.words(trees.session, trees.leaves(), tweak)
            assert not seen & set(made.ravel().tolist())
            seen |= set(made.ravel().tolist())
            found = punctured.punctured_words(held.session, held.leaves(), held.holes, tweak)
            assert (made != found).sum() == 2
