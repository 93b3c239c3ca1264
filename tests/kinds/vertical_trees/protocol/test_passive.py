"""What a passive refuses."""

from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import active, passive
from tacit.kinds.vertical_trees.protocol.features import Chosen
from tacit.kinds.vertical_trees.protocol.messages import (
    Begun,
    Corrections,
    Divide,
    Open,
    Over,
    Prepared,
    Rounds,
    RoundsKept,
    ShareSums,
    pack_nodes,
)
from tacit.kinds.vertical_trees.protocol.passive import Plan
from tacit.wire import encode
from tests.kinds.vertical_trees.protocol.remote import asked, both, cells_of, counter, random_table

ROWS = 40
ALL = np.arange(ROWS)
TABLE = random_table(ROWS, [4])


@cache
def held():
    return cells_of(TABLE)[1]


def begun(tweak=0, used=b"\x01", rows=None):
    return Begun(tweak, bytes(16), used, pack_nodes([ALL], ROWS) if rows is None else rows)


def words(count=ROWS):
    return Corrections(bytes(8 * count))


def split(count=1):
    return Divide(bytes(4 * count), bytes(32 * count), pack_nodes([ALL] * count, ROWS))


def served(*messages, least=1, hidden=False):
    """A passive that these messages are sent to."""

    def first(channel):
        for message in messages:
            channel.send(message)
        channel.recv(Over)

    return both(first, lambda channel: passive.serve(channel, held(), counter(), least, hidden=hidden))


@pytest.mark.parametrize("size", [9, 31])
def test_a_node_that_leaves_too_few_rows_is_not_opened(size):
    with pytest.raises(PeerError, match="this party opens no node below 10"):
        served(begun(), words(), Open(pack_nodes([ALL[:size]], ROWS)), least=10)


def test_a_tree_of_too_few_rows_is_not_begun():
    with pytest.raises(PeerError, match="a tree of 9 rows"):
        served(begun(rows=pack_nodes([ALL[:9]], ROWS)), least=10)


def test_the_active_hears_of_its_mistake():
    def ask(remote):
        remote.start(np.arange(ROWS))
        remote.histograms([ALL])
        remote.histograms([ALL[:5]])

    with pytest.raises(PeerError, match="a node of 5 rows was asked for, which leaves 35"):
        asked(TABLE, ask, least=10)


@pytest.mark.parametrize("tweak", [1, 2**40])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_tweak_that_is_not_due_is_refused(tweak, hidden):
    with pytest.raises(PeerError, match=f"under tweak {tweak}, and 0 is due"):
        served(begun(tweak), hidden=hidden)


def test_a_tweak_is_refused_the_second_time():
    with pytest.raises(PeerError, match="under tweak 0, and 1 is due"):
        served(begun(), words(), begun())


def test_sums_before_a_tree_are_refused():
    with pytest.raises(PeerError, match="before the words of a tree"):
        served(Open(pack_nodes([ALL], ROWS)))


def test_hidden_rows_must_not_be_sent():
    with pytest.raises(PeerError, match="stay hidden from this party"):
        served(begun(), hidden=True)


def test_sums_of_shown_nodes_are_refused_if_nodes_are_hidden():
    with pytest.raises(PeerError, match="although nodes are hidden"):
        served(Open(pack_nodes([ALL], ROWS)), hidden=True)


def test_words_for_too_few_rows_are_refused():
    with pytest.raises(PeerError, match="words of 40 rows has 320 bytes, got 312"):
        served(begun(), words(ROWS - 1))


def test_a_message_for_too_many_rows_is_not_read():
    with pytest.raises(PeerError, match="at most 384 are allowed"):
        served(begun(), words(2 * ROWS))


def test_more_nodes_than_fit_a_tree_are_refused_before_they_are_added_up():
    nodes = [ALL] * 5  # at most four nodes of ten rows are apart
    with pytest.raises(PeerError, match="at most 4 nodes are allowed here"):
        served(begun(), words(), Open(pack_nodes(nodes, ROWS)), least=10)


class Fed:
    """A channel whose messages are given."""

    def __init__(self, messages):
        self._messages = iter(messages)
        self.sent = []

    def send(self, message):
        self.sent.append(message)

    def recv(self, kind, limit=0):
        message = next(self._messages, Over())
        if not isinstance(message, kind):
            raise PeerError("another message was due")
        return message


def some_bytes(*valid):
    return st.sampled_from(valid) | st.binary(max_size=40)


NODES = some_bytes(b"", pack_nodes([ALL], ROWS), pack_nodes([ALL[:20]], ROWS), pack_nodes([], ROWS))
ANY = st.one_of(
    st.builds(Begun, st.integers(0, 3), st.just(bytes(16)), some_bytes(b"\x01", b"\x00"), NODES),
    st.builds(Corrections, some_bytes(bytes(8 * ROWS), bytes(8 * 20), b"")),
    st.builds(Open, NODES),
    st.builds(Divide, some_bytes(bytes(4), b""), some_bytes(bytes(32), b""), NODES),
)


@settings(deadline=None)
@given(st.lists(ANY, max_size=6), st.booleans())
def test_any_messages_are_answered_or_refused_as_the_other_partys_fault(messages, hidden):
    channel = Fed(messages)
    with suppress(PeerError):
        passive.serve(channel, held(), counter(), 10, hidden=hidden)
    assert sum(len(encode(message)) for message in channel.sent) < 1000


def test_least_is_at_least_one_row():
    with pytest.raises(ValueError, match="at least 1 row"):
        passive.serve(None, None, counter(), 0)


def test_flags_of_other_features_are_refused():
    with pytest.raises(PeerError, match="flags of 1 features"):
        served(begun(used=b"\x01\x00"))


@pytest.mark.parametrize("rows", [ALL[:1], ALL[5:6], ALL[:39], ALL[:0]], ids=len)
def test_a_side_of_single_rows_is_not_told(rows):
    """An active that follows the protocol up to a split, and then asks for one row of its choice."""
    with pytest.raises(PeerError, match="divides one whole node"):
        served(begun(), words(), Divide(bytes(4), b"\x01" + bytes(31), pack_nodes([rows], ROWS)), least=10)


def test_no_more_splits_are_answered_than_a_tree_has_nodes():
    def ask(remote):
        remote.start(np.arange(ROWS))
        remote.histograms([ALL])
        for _ in range(2):
            remote.divide([Chosen(ALL, 0, np.zeros(4, dtype=bool))])

    with pytest.raises(PeerError, match="divides one whole node whose sums are known, and each of them once"):
        asked(TABLE, ask)


def test_no_split_is_answered_before_a_tree():
    with pytest.raises(PeerError, match="splits were asked for before the words of a tree"):
        served(split())
    with pytest.raises(PeerError, match="1 splits were asked for, and there are at most 0"):
        served(Divide(bytes(4), bytes(32), b""), hidden=True)


@pytest.mark.parametrize("hidden", [False, True])
def test_splits_are_counted_for_each_tree(hidden):
    def ask(remote):
        for _ in range(3):
            remote.start(np.arange(ROWS))
            remote.histograms([ALL])
            remote.divide([Chosen(ALL, 0, np.zeros(4, dtype=bool))])

    _, tally = asked(TABLE, ask, hidden=hidden)
    assert tally.splits == 3


def test_hidden_splits_are_bounded_too():
    def ask(remote):
        remote.start(np.arange(ROWS))
        remote.histograms([ALL])
        remote.divide([Chosen(ALL, 0, np.zeros(4, dtype=bool))] * 3)

    with pytest.raises(PeerError, match="3 splits were asked for, and there are at most 2"):
        asked(TABLE, ask, hidden=True)


def test_trees_that_this_party_does_not_hold_are_not_resumed():
    def first(channel):
        active.described(channel, ROWS)
        channel.send(Prepared(b"x" * 32))

    with pytest.raises(PeerError, match="resumes with trees that this one does not hold"):
        both(first, lambda channel: passive.meet(channel, TABLE, counter()))


def counted(*messages, plan):
    """What a passive with a plan was told, after these messages and their answers."""
    stored = []

    def first(channel):
        for message in messages:
            channel.send(message)
            if isinstance(message, Rounds):
                assert channel.recv(RoundsKept).done == message.done == stored[-1]
        channel.send(Over())

    def second(channel):
        def after(rounds, tally):
            stored.append(rounds.done)

        return passive.serve(channel, held(), counter(), 1, plan=plan, after=after)

    return both(first, second)[1]


def test_a_plan_lets_each_round_have_its_trees():
    tally = counted(
        Rounds(0, 2), begun(0), words(), begun(1), words(), Rounds(1, 2), begun(2), words(), Rounds(2, 2),
        plan=Plan(2, 2),
    )  # fmt: skip
    assert tally.values == 3


@pytest.mark.parametrize(
    "messages",
    [
        [begun(0)],  # before the first round was told
        [Rounds(0, 1), begun(0), words(), begun(1)],  # two trees in a round of one
        [Rounds(1, 1), begun(0), words(), Rounds(2, 1), begun(1)],  # after the last round
        [Rounds(3, 1)],
        [Rounds(-1, 1)],
        [Rounds(0, 2)],
        [Rounds(0, 0)],
        [Rounds(1, 1), Rounds(0, 1)],  # a round is not told again, to have more trees of it
        [Rounds(0, 1), begun(0), words(), Rounds(0, 1)],
    ],
)
def test_a_plan_allows_no_more_than_it_says(messages):
    with pytest.raises(PeerError, match="agreed on"):
        counted(*messages, plan=Plan(2, 1))


@pytest.mark.parametrize("later", [1, 3])
def test_all_rounds_have_as_many_trees_as_the_first(later):
    with pytest.raises(PeerError, match="of as many trees as the first"):
        counted(Rounds(0, 2), Rounds(1, later), plan=Plan(5, 10))


def test_a_plan_counts_the_nodes_of_a_tree_also_those_that_are_asked_for_again():
    whole = Open(pack_nodes([ALL], ROWS))

    def asking(*messages):
        def first(channel):
            channel.send(Rounds(0, 2))
            channel.recv(RoundsKept)
            for message in messages:
                channel.send(message)
                if isinstance(message, Open):
                    channel.recv(ShareSums)
            channel.send(Over())

        return both(first, lambda channel: passive.serve(channel, held(), counter(), 1, plan=Plan(1, 2, 2)))[1]

    assert asking(begun(0), words(), whole, whole, begun(1), words(), whole, whole).nodes == 4
    with pytest.raises(PeerError, match="sums of 3 nodes of a tree were asked for: 2 were agreed on"):
        asking(begun(0), words(), whole, whole, whole)


def test_a_plan_counts_nodes_if_they_are_hidden():
    hidden = [begun(tweak, rows=b"") for tweak in range(3)]

    def first(channel):
        channel.send(Rounds(0, 1))
        channel.recv(RoundsKept)
        for message in hidden:
            channel.send(message)
            channel.send(words())
            channel.recv(ShareSums)

    with pytest.raises(PeerError, match="words of more trees or nodes came than the 2"):
        both(first, lambda channel: passive.serve(channel, held(), counter(), 1, hidden=True, plan=Plan(5, 1, 2)))
