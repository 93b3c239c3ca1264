"""Histograms and trees over a channel against plain tables, and tweaks that are never used twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto.counter import Counter
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import active, passive
from tacit.kinds.vertical_trees.protocol.features import Chosen, PlainFeatures
from tacit.kinds.vertical_trees.protocol.messages import (
    FRAME,
    Begun,
    Corrections,
    Described,
    Open,
    Prepared,
    ShareSums,
    Sides,
)
from tacit.oblivious import Sums
from tacit.store.counter_file import new_counter, open_counter
from tacit.store.files import copy_of
from tests.kinds.vertical_trees.protocol.remote import asked, both, cells_of, counter, random_table, table_of

HIDDEN = pytest.mark.parametrize("hidden", [False, True])


def plain_sums(table, words, rows, used):
    """Sums by bin as plain integers, [features][most bins]."""
    found = [[0] * int(table.bins.max()) for _ in table.bins]
    for row in rows:
        for feature in np.flatnonzero(used):
            found[feature][table.cells[row, feature]] += int(words[row])
    return [[(each + 2**63) % 2**64 - 2**63 for each in line] for line in found]


@st.composite
def trees(draw):
    """A table, words, used features, and the nodes of a tree: all its rows, then parts of them, also empty ones."""
    bins = draw(st.lists(st.integers(2, 9) | st.just(33), min_size=1, max_size=4))
    count = draw(st.integers(1, 40))
    rows = draw(st.sets(st.integers(0, count - 1), min_size=1))
    side = {row: draw(st.integers(0, 2)) for row in sorted(rows)}
    nodes = [np.array([row for row in side if side[row] == k], dtype=np.int64) for k in (0, 1)]
    used = np.array(draw(st.lists(st.booleans(), min_size=len(bins), max_size=len(bins))))
    words = np.array(draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=count, max_size=count)), dtype=np.int64)
    return random_table(count, bins, count), words, used, np.array(sorted(rows)), nodes


@settings(deadline=None, max_examples=40)
@given(trees(), st.booleans())
def test_histograms_are_those_of_plain_integers(tree, hidden):
    table, words, used, root, nodes = tree

    def ask(remote):
        remote.start(words, used)
        return [*remote.histograms([root]), *remote.histograms(nodes)]

    found, _ = asked(table, ask, hidden=hidden)
    expected = [plain_sums(table, words, rows, used) for rows in (root, *nodes)]
    assert [each.tolist() for each in found] == expected


@HIDDEN
def test_several_trees_each_have_their_own_words(hidden):
    table = random_table(30, [5, 16])
    every, part = np.arange(30), np.arange(4, 20)

    def ask(remote):
        found = []
        for seed in range(3):
            words = np.random.default_rng(seed).integers(-(2**40), 2**40, 30)
            remote.start(words)
            found.append((words, [*remote.histograms([every]), *remote.histograms([part])]))
        return found

    found, tally = asked(table, ask, hidden=hidden)
    for words, sums in found:
        expected = [plain_sums(table, words, rows, np.ones(2, dtype=bool)) for rows in (every, part)]
        assert [each.tolist() for each in sums] == expected
    assert (tally.values, tally.nodes, tally.sums) == (6 if hidden else 3, 6, 6 * 21)


@HIDDEN
def test_sides_are_those_of_the_plain_table(hidden):
    table = random_table(50, [5, 200])
    plain = PlainFeatures(table.cells, table.bins)
    rng = np.random.default_rng(0)
    splits = [
        Chosen(rows, feature, rng.random(int(table.bins[feature])) < 0.5)
        for feature, rows in [(0, np.arange(20)), (1, np.arange(20, 50))]
    ]

    def ask(remote):
        remote.start(np.ones(50, dtype=np.int64))
        remote.histograms([np.arange(50)])
        remote.histograms([np.arange(20)])
        return remote.divide(splits)

    found, tally = asked(table, ask, hidden=hidden)
    for one, other in zip(found, plain.divide(splits), strict=True):
        assert one.tolist() == other.tolist()
    assert (tally.splits, tally.sides) == (2, 100 if hidden else sum(len(split.node) for split in splits))


def test_a_passive_sees_no_rows_of_hidden_nodes_and_messages_of_the_same_sizes_for_all():
    table, recorders = random_table(40, [4, 4]), {}

    def ask(remote):
        remote.start(np.arange(40))
        remote.histograms([np.arange(40)])
        remote.histograms([np.arange(3), np.empty(0, dtype=np.int64)])
        remote.divide([Chosen(np.arange(5), 1, np.array([True, False, True, False]))])

    asked(table, ask, hidden=True, recorders=recorders)
    seen = recorders["passive"].seen
    assert [m.rows for m in seen if isinstance(m, Begun)] == [b""] * 3
    assert {len(m.words) for m in seen if isinstance(m, Corrections)} == {8 * 40}
    assert not [m for m in seen if isinstance(m, Open)]
    assert [m.nodes for m in seen if hasattr(m, "left")] == [b""]


def test_words_of_rows_outside_the_tree_and_of_unused_features_are_not_sent():
    table, recorders = random_table(40, [4, 4, 4]), {}

    def ask(remote):
        remote.start(np.arange(40), np.array([True, False, True]))
        remote.histograms([np.arange(0, 40, 4)])

    asked(table, ask, recorders=recorders)
    assert [len(m.words) for m in recorders["passive"].seen if isinstance(m, Corrections)] == [80, 80]


def test_the_same_values_cross_as_other_words_each_time():
    table, recorders = random_table(40, [4]), {}

    def ask(remote):
        for _ in range(2):
            remote.start(np.arange(40))
            remote.histograms([np.arange(40)])

    asked(table, ask, recorders=recorders)
    one, other = (np.frombuffer(m.words, dtype="<u8") for m in recorders["passive"].seen if isinstance(m, Corrections))
    assert not set(one.tolist()) & set(other.tolist())


def test_nodes_are_cut_into_several_messages(monkeypatch):
    monkeypatch.setattr("tacit.kinds.vertical_trees.protocol.sides._BATCH", 200)
    table, recorders = random_table(60, [4, 6]), {}
    nodes = [np.arange(start, start + 10) for start in range(0, 60, 10)]
    words = np.arange(60) - 30
    splits = [Chosen(rows, 0, np.array([True, False, False, True])) for rows in nodes]

    def ask(remote):
        remote.start(words)
        remote.histograms([np.arange(60)])
        return remote.histograms(nodes), remote.divide(splits)

    (sums, sides), _ = asked(table, ask, recorders=recorders)
    expected = [plain_sums(table, words, rows, np.ones(2, dtype=bool)) for rows in nodes]
    assert [each.tolist() for each in sums] == expected
    plain = PlainFeatures(table.cells, table.bins).divide(splits)
    assert [each.tolist() for each in sides] == [each.tolist() for each in plain]
    assert len([m for m in recorders["active"].seen if isinstance(m, ShareSums)]) > 2
    assert len([m for m in recorders["active"].seen if isinstance(m, Sides)]) > 1


def test_a_tweak_is_stored_before_anything_is_sent_under_it():
    made, _ = cells_of(random_table(10, [4]))
    table = random_table(10, [4])
    sent = []

    class Silent:
        def send(self, message):
            sent.append(message)

    def full(_):
        raise OSError(28, "no space left")

    columns = active.Description(table.bins, table.ordered, table.signs)
    remote = active.RemoteFeatures(Silent(), active.Met(columns, made, False), Counter(0, full))
    remote.start(np.arange(10))
    with pytest.raises(OSError, match="no space"):
        remote.histograms([np.arange(10)])
    assert not sent


def test_a_node_outside_its_tree_is_the_callers_mistake():
    def ask(remote):
        remote.start(np.arange(10))
        remote.histograms([np.arange(5)])
        remote.histograms([np.arange(4, 6)])

    with pytest.raises(ValueError, match="some that are not in its tree"):
        asked(random_table(10, [4]), ask)


def test_a_tree_begins_with_one_node():
    def ask(remote):
        remote.start(np.arange(10))
        remote.histograms([np.arange(5), np.arange(5, 10)])

    with pytest.raises(ValueError, match="the first node of a tree is that of all its rows"):
        asked(random_table(10, [4]), ask)


# Meetings


def meeting(table, folder, *, resume=False, saved=(None, None), recorders=None, rows=None):
    """One meeting and one tree, with counters in files; what both parties would keep, and the sums."""
    opened = open_counter if resume else new_counter
    counters = [opened(folder / f"{name}.counter", reserve=1) for name in ("active", "passive")]
    count = len(table.cells) if rows is None else rows

    def first(channel):
        met = active.meet(channel, count, counters[0], saved[0])
        remote = active.RemoteFeatures(channel, met, counters[0])
        remote.start(np.arange(count))
        found = remote.histograms([np.arange(count)])[0]
        remote.close()
        return met, found

    def second(channel):
        held = passive.meet(channel, table, counters[1], saved[1])
        passive.serve(channel, held, counters[1], 1)
        return held

    (met, found), held = both(first, second, recorders)
    assert found.tolist() == plain_sums(table, np.arange(count), range(count), np.ones(len(table.bins), dtype=bool))
    return met, held


def test_trees_of_cells_are_used_again_after_a_restart_and_tweaks_are_not(tmp_path):
    table, used = random_table(20, [4, 7]), []
    saved = (None, None)
    for number in range(3):
        recorders = {}
        met, held = meeting(table, tmp_path, resume=number > 0, saved=saved, recorders=recorders)
        assert met.fresh == (number == 0)
        assert (held is saved[1]) == (number > 0)
        assert any(isinstance(m, Sums) for m in recorders["passive"].seen) == (number == 0)
        used += [(met.made.session, m.tweak) for m in recorders["passive"].seen if isinstance(m, Begun)]
        saved = met.made, held
    assert len(set(used)) == 3
    assert len({session for session, _ in used}) == 1


def test_a_counter_that_was_restored_from_an_older_copy_is_put_right_by_the_other(tmp_path):
    table = random_table(20, [4])
    met, held = meeting(table, tmp_path)
    for name in (tmp_path / "active.counter", copy_of(tmp_path / "active.counter")):
        name.unlink()
    new_counter(tmp_path / "active.counter", reserve=1)  # as before the first tree
    recorders = {}
    meeting(table, tmp_path, resume=True, saved=(met.made, held), recorders=recorders)
    (begun,) = (m for m in recorders["passive"].seen if isinstance(m, Begun))
    assert begun.tweak == 1


@pytest.mark.parametrize("lost", ["active", "passive", "table", "bins"])
def test_cells_are_made_anew_if_one_party_lacks_them_or_the_table_changed(tmp_path, lost):
    table = random_table(20, [4, 7])
    met, held = meeting(table, tmp_path)
    kept = {"active": (None, held), "passive": (met.made, None)}.get(lost, (met.made, held))
    if lost == "table":
        table = random_table(20, [4, 7], seed=1)
    if lost == "bins":
        table = random_table(20, [4, 8])
    again, other = meeting(table, tmp_path, resume=True, saved=kept)
    assert again.fresh
    assert again.made.session == other.session != met.made.session


def test_an_interrupted_set_up_is_done_anew(tmp_path):
    table, counters = random_table(200, [4, 40]), (counter(), counter())

    def interrupted(channel):
        active.described(channel, 200)
        channel.send(Prepared(b""))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        both(interrupted, lambda channel: passive.meet(channel, table, counters[1]))
    met, held = meeting(table, tmp_path)
    assert met.fresh
    assert met.made.session == held.session


def test_tables_of_other_lengths_do_not_meet(tmp_path):
    with pytest.raises(PeerError, match="has 20 rows, this one 21: align"):
        meeting(random_table(20, [4]), tmp_path, rows=21)


@pytest.mark.parametrize(
    ("bins", "ordered", "signs"),
    [([1], b"\x01", b"\x00"), ([257], b"\x01", b"\x00"), ([4], b"\x02", b"\x00"), ([4], b"\x01", b"\x02")],
)
def test_a_description_out_of_bounds_is_refused(bins, ordered, signs):
    message = Described(10, np.array(bins, dtype="<u2").tobytes(), ordered, signs, b"")
    with pytest.raises(PeerError, match="features have 2 to 256 bins"):
        both(lambda channel: active.meet(channel, 10, counter()), lambda channel: channel.send(message))


def test_a_description_of_several_lengths_is_refused():
    message = Described(10, bytes(2), b"\x01", b"\x00\x00", b"")
    with pytest.raises(PeerError, match="signs of 1 features"):
        both(lambda channel: active.meet(channel, 10, counter()), lambda channel: channel.send(message))


def test_orders_and_signs_arrive():
    table = table_of([[0, 1]] * 5, [3, 4], np.array([True, False]), np.array([-1, 0]))
    met, _ = both(
        lambda channel: active.meet(channel, 5, counter()), lambda channel: passive.meet(channel, table, counter())
    )
    remote = active.RemoteFeatures(None, met, counter())
    assert (remote.bins.tolist(), remote.ordered.tolist(), remote.signs.tolist()) == ([3, 4], [True, False], [-1, 0])


def answering(*answers):
    """A passive's answers that are not the protocol's, to what an active asks of one node of ten rows."""
    table = random_table(10, [4, 3])
    made, _ = cells_of(table)
    columns = active.Description(table.bins, table.ordered, table.signs)

    def first(channel):
        remote = active.RemoteFeatures(channel, active.Met(columns, made, False), counter())
        remote.start(np.arange(10))
        remote.histograms([np.arange(10)])

    def second(channel):
        for kind in (Begun, Corrections, Corrections, Open):
            channel.recv(kind)
        for each in answers:
            channel.send(each)

    both(first, second)


@pytest.mark.parametrize("words", [bytes(56), b"\xff" * 56, bytes(55) + b"\x01"])
def test_sums_that_are_not_those_of_the_nodes_rows_are_refused(words):
    with pytest.raises(PeerError, match="do not add up to the gradients of its rows"):
        answering(ShareSums(words))


@HIDDEN
def test_parties_that_were_both_restored_from_older_copies_use_no_word_twice(hidden):
    """They take the same tweaks again: the words of what the active drew for the meeting differ, so all do."""
    table, seen = random_table(40, [4]), []
    pair = cells_of(table)
    columns = active.Description(table.bins, table.ordered, table.signs)
    for values in (np.arange(40), np.arange(40)[::-1].copy()):
        recorders = {}

        def first(channel, values=values):
            met = active.Met(columns, pair[0], False)
            remote = active.RemoteFeatures(channel, met, counter(7), hidden=hidden)
            remote.start(values)
            found = remote.histograms([np.arange(40)])[0]
            remote.close()
            return found

        found, _ = both(first, lambda channel: passive.serve(channel, pair[1], counter(7), 1, hidden=hidden), recorders)
        assert found.tolist() == plain_sums(table, values, range(40), [True])
        seen.append(recorders["passive"].seen)
    assert [m.tweak for each in seen for m in each if isinstance(m, Begun)] == [7, 7]
    words = [np.frombuffer(m.words, dtype="<u8") for each in seen for m in each if isinstance(m, Corrections)]
    difference = words[0] - words[1]
    assert len(np.intersect1d(difference, (np.arange(40) - np.arange(40)[::-1]).astype(np.uint64))) == 0
    assert len(np.unique(np.concatenate(words))) == 80


def test_share_sums_of_a_wrong_length_are_refused():
    with pytest.raises(PeerError, match="sums of 1 nodes has 56 bytes, got 24"):
        answering(ShareSums(bytes(24)))


def test_longer_share_sums_are_not_read():
    with pytest.raises(PeerError, match="at most 120 are allowed"):
        answering(ShareSums(bytes(57 + FRAME)))
