"""Scores of new rows that are routed among parties against those of tables in one place."""

import numpy as np
import pytest

from tacit.channel import Recorder, run_parties
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import passive, prediction
from tacit.kinds.vertical_trees.protocol.features import PlainFeatures
from tacit.kinds.vertical_trees.protocol.messages import Divide, Open
from tacit.kinds.vertical_trees.protocol.prediction import scores
from tacit.kinds.vertical_trees.protocol.tree import LEAF, Ensemble, Tree
from tests.kinds.vertical_trees.protocol.remote import PATIENCE, both, random_table

BINS = [[5, 9], [4], [32, 3]]
DEPTH = 4


def random_tree(rng, depth=DEPTH):
    """A tree of random splits of random parties; some branches end early."""
    party, feature, left, children, value = [], [], [], [], []

    def add(level):
        number = len(party)
        for each, filled in ((party, LEAF), (feature, 0), (children, (0, 0)), (value, 0.0)):
            each.append(filled)
        left.append(rng.random(32) < 0.5)
        if level and (level == depth or rng.random() < 0.8):
            party[number] = int(rng.integers(len(BINS)))
            feature[number] = int(rng.integers(len(BINS[party[number]])))
            children[number] = (add(level - 1), add(level - 1))
        else:
            value[number] = float(rng.normal())
        return number

    add(depth)
    arrays = [np.array(each) for each in (party, feature, left, children, value, [0.0] * len(party))]
    return Tree(*arrays)


def ensemble(trees=6, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    return Ensemble(rng.normal(size=outputs), tuple(random_tree(rng) for _ in range(trees)))


def predicted(model, tables, *, hidden=False, recorders=None):
    rows = len(tables[0].cells)
    kept = {} if recorders is None else recorders

    def active(channels):
        remote = [prediction.meet(channel, rows, hidden=hidden) for channel in channels.values()]
        found = scores(model, [PlainFeatures(tables[0].cells, tables[0].bins), *remote], rows, hidden=hidden)
        for each in remote:
            each.close()
        return found

    def answering(name, table):
        def party(channels):
            kept[name] = Recorder(channels["active"])
            return passive.answer_splits(kept[name], table, hidden=hidden)

        return party

    parties = {"active": active, "one": answering("one", tables[1]), "two": answering("two", tables[2])}
    return run_parties(parties, patience=PATIENCE)


def tables_of(rows):
    return [random_table(rows, bins, seed) for seed, bins in enumerate(BINS)]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("rows", [1, 200])
def test_scores_are_those_of_tables_in_one_place(hidden, rows):
    model, tables = ensemble(), tables_of(rows)
    found = predicted(model, tables, hidden=hidden)
    expected = model.scores([table.cells for table in tables])
    assert np.allclose(found["active"], expected, rtol=0, atol=1e-12)
    splits = sum(int((tree.party == 1).sum()) for tree in model.trees)
    if hidden:
        assert (found["one"].splits, found["one"].sides) == (splits, splits * rows)
    else:
        assert found["one"].splits <= splits
        assert found["one"].sides < splits * rows
    assert found["one"].nodes == found["one"].sums == 0


@pytest.mark.parametrize("hidden", [False, True])
def test_a_party_is_asked_once_a_level(hidden):
    recorders = {}
    predicted(ensemble(), tables_of(100), hidden=hidden, recorders=recorders)
    for recorder in recorders.values():
        asked = [m for m in recorder.seen if isinstance(m, Divide)]
        assert 1 <= len(asked) <= DEPTH
        assert not hidden or all(m.nodes == b"" for m in asked)


def test_groups_of_trees_give_the_same_scores(monkeypatch):
    model, tables = ensemble(), tables_of(30)
    whole = predicted(model, tables)["active"]
    monkeypatch.setattr(prediction, "_AT_ONCE", 60)  # two trees at once
    assert np.array_equal(predicted(model, tables)["active"], whole)


def test_without_trees_the_scores_are_the_constant():
    model = Ensemble(np.array([1.5, -2.0]))
    assert predicted(model, tables_of(3))["active"].tolist() == [[1.5, -2.0]] * 3


def test_tables_of_other_lengths_are_refused():
    with pytest.raises(PeerError, match="has 5 rows, this one 6"):
        both(
            lambda channel: prediction.meet(channel, 6),
            lambda channel: passive.answer_splits(channel, random_table(5, [4])),
        )


def test_a_party_that_has_fewer_features_than_in_training_is_refused():
    tables = tables_of(10)
    tables[2] = random_table(10, BINS[2][:1])
    with pytest.raises(PeerError, match="trees split by feature 2 of the other party, and it has 1"):
        predicted(ensemble(), tables)


def test_sums_are_not_opened_in_a_prediction():
    def first(channel):
        prediction.meet(channel, 5)
        channel.send(Open(b""))
        channel.recv(Divide)

    with pytest.raises(PeerError, match="is not a message"):
        both(first, lambda channel: passive.answer_splits(channel, random_table(5, [4])))
