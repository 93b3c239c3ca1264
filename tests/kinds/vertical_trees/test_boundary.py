"""What the boundary lists is what trainings and predictions send."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tacit.channel import Recorder, run_parties
from tacit.events import Nowhere
from tacit.kinds.vertical_trees import boundary
from tacit.kinds.vertical_trees.party import party, predictor
from tacit.kinds.vertical_trees.protocol.messages import unpack_nodes
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.run import Place
from tests.kinds.vertical_trees.trees_tables import of_tables
from tests.subprocesses import HANGS


def sent_by(settings):
    """The messages of a training and a prediction, each with the roles of its sender and its receiver."""
    logs = []

    def live(me, work, channels):
        own = {other: Recorder(channel) for other, channel in channels.items()}
        logs.extend((me, other, recorder) for other, recorder in own.items())
        return work(own)

    place = Place(None, Nowhere())
    training = {me: partial(live, me, party(settings, me, place)) for me in settings.parties}
    parts = run_parties(training, patience=HANGS)
    using = {}
    for me in settings.parties:
        source = Path(settings.data[me].path)
        using[me] = partial(live, me, predictor(settings, me, parts[me].model, source, place))
    run_parties(using, patience=HANGS)
    role = {name: each.role for name, each in settings.parties.items()}
    return [(message, role[me], role[other]) for me, other, recorder in logs for message in recorder.sent]


@pytest.mark.parametrize("partition", ["shown", "hidden"])
@pytest.mark.parametrize(("passives", "objective", "align"), [(1, "binary", True), (2, "softmax", False)])
def test_messages_of_a_run_are_those_of_the_boundary(tmp_path, passives, objective, align, partition):
    # Alignment draws the order of rows, and with it those held out: among so many trees some splits are the passive's.
    changes = {"privacy": {"partition": partition, "least": 10}, "align": align, "train": {"trees": 6, "depth": 3}}
    settings = of_tables(tmp_path, passives, objective=objective, columns=6, **changes)
    sent = sent_by(settings)
    fields = {(type(m).__name__, name, *roles) for m, *roles in sent for name in m.__struct_fields__}
    listed = {(r.message, r.field, r.sender, r.receiver) for r in boundary.releases(settings)}
    assert fields == listed
    rows = [m.rows for m, *_ in sent if type(m).__name__ == "Begun"]
    nodes = [m.nodes for m, *_ in sent if type(m).__name__ == "Divide"]
    assert rows
    assert nodes
    assert all((partition == "hidden") == (each == b"") for each in [*rows, *nodes])


def test_what_is_listed_as_hidden_depends_on_the_partition(tmp_path):
    shown, hidden = (of_tables(tmp_path, privacy={"partition": each}) for each in ("shown", "hidden"))
    for settings, words in ((shown, "the rows of a tree"), (hidden, "nothing: rows of nodes are hidden")):
        (rows,) = (r for r in boundary.releases(settings) if (r.message, r.field) == ("Begun", "rows"))
        assert rows.what == words
    assert "Open" not in {r.message for r in boundary.releases(hidden)}
    assert any("the rows of each tree, of opened nodes" in text for text in boundary.sentences(shown))
    assert any("not the rows of nodes. Of" in text for text in boundary.sentences(hidden))
    assert any("rank the rows by label" in text for text in boundary.unprotected(shown))
    assert not any("rank the rows by label nearly as well" in text for text in boundary.unprotected(hidden))
    assert all(any("which of its splits won" in t for t in boundary.unprotected(each)) for each in (shown, hidden))
    assert any("cannot check privacy.least" in text for text in boundary.unprotected(hidden))
    assert any("also of rows outside of a node" in text for text in boundary.unprotected(hidden))


def test_which_rows_a_tree_is_grown_from_follows_from_the_seed(tmp_path):
    """A passive computes them, whatever the partition: the page says so."""
    changes = {"train": {"trees": 2, "depth": 2, "rows": 0.5, "test": 0.25}, "seed": 5}
    settings = of_tables(tmp_path, rows=80, privacy={"partition": "shown", "least": 10}, **changes)
    begun = [m for m, *_ in sent_by(settings) if type(m).__name__ == "Begun"]
    training = hold_out(80, 0.25, 5)[0]
    for number, each in enumerate(begun):
        drawn = np.random.default_rng([5, number, 0]).permutation(training)[:30]
        assert unpack_nodes(each.rows, 80, 1)[0].tolist() == sorted(drawn.tolist())
    assert len(begun) == 2
    hidden = settings.model_copy(update={"privacy": settings.privacy.model_copy(update={"partition": "hidden"})})
    assert any("but which rows each tree is grown from" in text for text in boundary.sentences(hidden))


def test_the_number_of_groups_is_that_of_the_bins(tmp_path):
    assert any(
        "one of 8 of its column, or missing" in t for t in boundary.unprotected(of_tables(tmp_path, train={"bins": 9}))
    )


def test_another_training_is_said_to_tell_more(tmp_path):
    assert any("Another training on these rows has other bins" in t for t in boundary.unprotected(of_tables(tmp_path)))


def test_nothing_is_covered_by_an_epsilon(tmp_path):
    assert boundary.of(of_tables(tmp_path)).covered == frozenset()
