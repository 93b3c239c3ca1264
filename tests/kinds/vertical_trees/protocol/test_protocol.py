"""Whole trainings over channels: the trees are those of the same algorithm with all tables in one place."""

import numpy as np
import pytest

from tacit.channel import Recorder, run_parties
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import active, passive
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, Terms, begin, boost
from tacit.kinds.vertical_trees.protocol.features import PlainFeatures
from tacit.kinds.vertical_trees.protocol.growth import Options
from tacit.kinds.vertical_trees.protocol.losses import loss_named
from tacit.kinds.vertical_trees.protocol.messages import Begun, Open
from tests.kinds.vertical_trees.protocol.remote import PATIENCE, counter, table_of

ROWS, LEAST = 300, 20
NAMES = ("one", "two")


def tables_of(parties):
    """Tables of which each party's first feature says something about the labels; one feature is of categories."""
    rng = np.random.default_rng(7)
    tables = []
    for place in range(parties):
        bins = [8, 5, 17] if place % 2 else [16, 3]
        binned = np.stack([rng.integers(0, each, ROWS) for each in bins], axis=1)
        ordered = np.arange(len(bins)) != 1
        tables.append(table_of(binned, bins, ordered, np.array([1] + [0] * (len(bins) - 1))))
    return tables


def labelled(tables, loss):
    rng = np.random.default_rng(8)
    raw = sum(table.cells[:, 0] / table.bins[0] for table in tables) + rng.normal(0, 0.3, ROWS)
    cuts = np.quantile(raw, [0.5] if loss.outputs == 1 else [0.3, 0.6])
    rows = np.arange(ROWS)
    return Labelled(loss, np.searchsorted(cuts, raw).astype(float), np.ones(ROWS), rows[rows % 5 > 0], rows[::5])


def plain(table):
    return PlainFeatures(table.cells, table.bins, table.ordered, table.signs)


def trained(tables, known, terms, *, hidden=False, recorders=None, least=LEAST):
    """The state after a training over channels, and what each passive told."""
    kept = {} if recorders is None else recorders

    def first(channels):
        sources = [plain(tables[0])]
        for name in channels:
            own = counter()
            met = active.meet(channels[name], ROWS, own)
            sources.append(active.RemoteFeatures(channels[name], met, own, hidden=hidden))
        state = boost(sources, known, terms)
        for source in sources[1:]:
            source.close()
        return state

    def answering(name, table):
        def party(channels):
            kept[name] = channel = Recorder(channels["active"])
            own = counter()
            held = passive.meet(channel, table, own)
            return passive.serve(channel, held, own, least, hidden=hidden)

        return party

    others = {name: answering(name, table) for name, table in zip(NAMES, tables[1:], strict=False)}
    return run_parties({"active": first, **others}, patience=PATIENCE)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("parties", "loss"), [(2, "logistic"), (3, "logistic"), (2, "softmax")])
def test_trees_are_those_of_tables_in_one_place(parties, loss, hidden):
    tables = tables_of(parties)
    known = labelled(tables, loss_named(loss, 3))
    terms = Terms(rounds=3, growth=Options(depth=4, least=LEAST, rows=0.8, features=0.7))
    found = trained(tables, known, terms, hidden=hidden)
    expected = boost([plain(table) for table in tables], known, terms)
    arrays = found["active"].ensemble.arrays()
    for name, each in expected.ensemble.arrays().items():
        assert np.array_equal(arrays[name], each), name
    assert np.array_equal(found["active"].scores, expected.scores)
    used = {party for tree in expected.ensemble.trees for party in tree.party.tolist()}
    assert used >= set(range(parties))  # each party wins somewhere, or this says little
    told = found["one"]
    assert told.splits == sum(int((tree.party == 1).sum()) for tree in expected.ensemble.trees)


def test_a_passive_that_asks_for_more_rows_than_the_active_ends_the_training():
    tables = tables_of(2)
    known = labelled(tables, loss_named("logistic", 2))
    with pytest.raises(PeerError, match="this party opens no node below 100"):
        trained(tables, known, Terms(rounds=1, growth=Options(depth=4, least=LEAST)), least=100)


def test_a_resumed_training_has_the_same_trees():
    tables = tables_of(2)
    known = labelled(tables, loss_named("logistic", 2))
    terms = Terms(rounds=4, growth=Options(depth=3, least=LEAST))
    whole = trained(tables, known, terms)["active"]
    states = [begin(known)]
    boost([plain(table) for table in tables], known, terms, after=states.append)
    resumed = run_parties(
        {
            "active": lambda channels: _resume(channels["one"], tables[0], known, terms, states[2]),
            "one": lambda channels: _serve(channels["active"], tables[1]),
        },
        patience=PATIENCE,
    )["active"]
    for name, each in whole.ensemble.arrays().items():
        assert np.array_equal(resumed.ensemble.arrays()[name], each), name


def _resume(channel, table, known, terms, state):
    own = counter(50)
    source = active.RemoteFeatures(channel, active.meet(channel, ROWS, own), own)
    found = boost([plain(table), source], known, terms, state)
    source.close()
    return found


def _serve(channel, table):
    own = counter(40)
    return passive.serve(channel, passive.meet(channel, table, own), own, LEAST)


@pytest.mark.parametrize("hidden", [False, True])
def test_every_tree_class_and_hidden_node_has_a_tweak_of_its_own(hidden):
    tables, recorders = tables_of(2), {}
    known = labelled(tables, loss_named("softmax", 3))
    terms = Terms(rounds=2, growth=Options(depth=3, least=LEAST))
    tally = trained(tables, known, terms, hidden=hidden, recorders=recorders)["one"]
    tweaks = [m.tweak for m in recorders["one"].seen if isinstance(m, Begun)]
    assert tweaks == sorted(set(tweaks))
    assert len(tweaks) == tally.values == (tally.nodes if hidden else 2 * 3)
    assert any(isinstance(m, Open) for m in recorders["one"].seen) != hidden
