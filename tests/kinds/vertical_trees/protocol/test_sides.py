"""Requests for sides of rows that are refused, and how they are cut."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import prediction, sides
from tacit.kinds.vertical_trees.protocol.features import Chosen, PlainFeatures
from tacit.kinds.vertical_trees.protocol.growth import Options, grow
from tacit.kinds.vertical_trees.protocol.messages import MOST_REQUEST, Begun, Corrections, Divide, Sides, pack_nodes
from tacit.kinds.vertical_trees.protocol.passive import answer_splits
from tacit.kinds.vertical_trees.protocol.sides import RemoteSides, answer, batches, read, told
from tacit.kinds.vertical_trees.protocol.tree import Ensemble
from tests.kinds.vertical_trees.protocol.remote import asked, both, table_of

TABLE = np.zeros((20, 3), dtype=np.uint8)
NODE = pack_nodes([np.arange(20)], 20)


@pytest.mark.parametrize(
    ("asked", "hidden", "message"),
    [
        (Divide(b"\x03\0\0\0", bytes(32), NODE), False, "a split of feature 3 was asked for, and this party has 3"),
        (Divide(bytes(4), bytes(31), NODE), False, "bins of 1 splits has 32 bytes, got 31"),
        (Divide(bytes(5), bytes(32), NODE), False, "1 splits has 4 bytes, got 5"),
        (Divide(bytes(8), bytes(64), NODE), False, "2 splits of 1 nodes"),
        (Divide(bytes(4), bytes(32), b""), False, "a message with 0 nodes and 0 bytes"),
        (Divide(bytes(4), bytes(32), NODE), True, "stay hidden"),
    ],
)
def test_requests_that_do_not_fit_are_refused(asked, hidden, message):
    with pytest.raises(PeerError, match=message):
        read(asked, TABLE, hidden=hidden)


def test_too_many_hidden_splits_at_once_are_refused():
    table = np.zeros((MOST_REQUEST, 1), dtype=np.uint8)
    with pytest.raises(PeerError, match="too many splits"):
        read(Divide(bytes(4 * 9), bytes(32 * 9), b""), table, hidden=True)


def test_an_answer_of_a_wrong_length_is_refused():
    remote = [Chosen(np.arange(20), 0, np.array([True, False]))]

    def second(channel):
        channel.recv(Divide)
        channel.send(Sides(bytes(2)))

    with pytest.raises(PeerError, match="sides of 20 rows has 3 bytes, got 2"):
        both(lambda channel: RemoteSides(channel, 20, np.array([2])).divide(remote), second)


@given(st.lists(st.integers(0, 50), max_size=30))
def test_batches_hold_everything_in_order_and_are_as_long_as_they_may(lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sides, "_BATCH", 40)
        parts = [lengths[part] for part in batches(lengths)]
    assert [each for part in parts for each in part] == lengths
    assert all(len(part) == 1 or sum(part) <= 40 for part in parts)
    assert all(sum(part) + following[0] > 40 for part, following in pairwise(parts))


@given(st.lists(st.booleans(), min_size=2, max_size=20))
def test_a_split_and_the_one_with_its_sides_exchanged_are_told_alike(left):
    one, other = told(np.array(left)), told(~np.array(left))
    assert one[0].tolist() == other[0].tolist()
    assert one[0][0]
    assert one[1] != other[1]


@pytest.mark.parametrize("hidden", [False, True])
def test_the_owner_of_a_split_does_not_learn_which_side_is_left(hidden):
    """It sees the same request, and the active gets opposite answers."""
    table = np.arange(20, dtype=np.uint8)[:, None] % 4
    left = np.array([False, True, True, False])
    seen, found = [], []
    for chosen in (left, ~left):
        recorders = {}
        splits = [Chosen(np.arange(3, 17), 0, chosen)]

        def second(channel):
            answer(channel, table, read(channel.recv(Divide), table, hidden=hidden))

        def first(channel, splits=splits):
            return RemoteSides(channel, 20, np.array([4]), hidden=hidden).divide(splits)

        found.append(both(first, second, recorders)[0][0])
        seen.append(recorders["passive"].seen)
    assert seen[0] == seen[1]
    assert found[0].tolist() == (~found[1]).tolist() == left[table[3:17, 0]].tolist()


def labelled_categories(rows=800):
    """A table of categories and numbers, and exact gradients that depend on both."""
    rng = np.random.default_rng(5)
    cells = np.stack([rng.integers(0, 7, rows), rng.integers(0, 9, rows), rng.integers(0, 5, rows)], axis=1)
    effects = rng.integers(-60, 61, 7)[cells[:, 0]] + rng.integers(-30, 31, 5)[cells[:, 2]] + 5 * (cells[:, 1] - 4)
    gradients = np.clip(effects + rng.integers(-20, 21, rows), -127, 127).astype(float)
    gradients[0] = 127
    return table_of(cells, [7, 9, 5], np.array([False, True, False])), gradients


@pytest.mark.parametrize("hidden", [False, True])
def test_what_an_owner_sees_of_a_tree_is_the_same_if_all_gradients_are_of_the_other_sign(hidden):
    """So neither a request nor the order of nodes tells which side of a split has the higher labels."""
    table, gradients = labelled_categories()
    views, trees = [], []
    for sign in (1, -1):
        recorders = {}

        def ask(remote, sign=sign):
            every = np.arange(len(gradients))
            options = Options(4, least=20)
            return grow([remote], sign * gradients, np.ones(len(every)), every, options, np.random.default_rng(0)).tree

        trees.append(asked(table, ask, least=20, hidden=hidden, recorders=recorders)[0])
        seen = recorders["passive"].seen
        views.append([each for each in seen if not isinstance(each, (Begun, Corrections))])  # random or uniform
    assert trees[0].depth == trees[1].depth == 4
    np.testing.assert_allclose(trees[0].value, -trees[1].value)
    assert trees[0].left[trees[0].party >= 0, 0].all()
    assert views[0] == views[1]


@pytest.mark.parametrize("hidden", [False, True])
def test_trees_of_release_0_2_0_are_predicted_with_as_if_their_first_bins_were_left(hidden):
    table, gradients = labelled_categories()
    every = np.arange(len(gradients))
    own = PlainFeatures(table.cells, table.bins, table.ordered)
    tree = grow([own], gradients, np.ones(len(every)), every, Options(4, least=20), np.random.default_rng(0)).tree
    turned = replace(tree, left=~tree.left, children=tree.children[:, ::-1].copy())
    views, scores = [], []
    for each in (tree, turned):
        recorders = {}

        def first(channel, each=each):
            remote = prediction.meet(channel, len(every), hidden=hidden)
            found = prediction.scores(Ensemble(np.zeros(1), (each,)), [remote], len(every), hidden=hidden)
            remote.close()
            return found

        scores.append(both(first, lambda channel: answer_splits(channel, table, hidden=hidden), recorders)[0])
        views.append(recorders["passive"].seen)
    np.testing.assert_array_equal(*scores)
    assert views[0] == views[1]
