"""Parties with tables, from a file to a model and predictions: equal to the same algorithm in one place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, softmax

from tacit.channel import run_parties
from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.events import Kept, Noted, Nowhere, TrainingStarted
from tacit.kinds.vertical_trees import training
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.party import LOCKSTEP, binned_tables, complete, free, over, tables_here
from tacit.kinds.vertical_trees.protocol import passive
from tacit.kinds.vertical_trees.protocol.boosting import boost
from tacit.kinds.vertical_trees.protocol.features import PlainFeatures
from tacit.kinds.vertical_trees.protocol.passive import Plan
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.run import Place
from tacit.tables.labels import MOST_CLASSES
from tests.kinds.vertical_trees.trees_tables import of_tables


def trained(settings, sinks=None):
    sinks = sinks or {}
    made = {name: LOCKSTEP.party(settings, name, Place(None, sinks.get(name, Nowhere()))) for name in settings.parties}
    return {name: part.model for name, part in run_parties(made).items()}


def in_one_place(settings):
    """Trees of the same rows and bins without any other party."""
    tables, known = binned_tables(settings)
    sources = [
        PlainFeatures(binned, columns.bins.bins, columns.bins.ordered, columns.signs)
        for columns, binned in (tables[name] for name in settings.order)
    ]
    return boost(sources, known, settings.terms).ensemble


def check_same(settings):
    models = trained(settings)
    found, expected = Part.of(models[settings.active]).ensemble, in_one_place(settings)
    assert len(found.trees) == len(expected.trees) > 0
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array, err_msg=name)
    assert (found.arrays()["party"] > 0).any()  # passives split too
    return models


@pytest.mark.parametrize("objective", ["binary", "softmax", "squared", "poisson"])
@pytest.mark.parametrize("partition", ["shown", "hidden"])
def test_trees_are_those_of_one_place(here, objective, partition):
    check_same(of_tables(here, objective=objective, privacy={"partition": partition}))


@pytest.mark.parametrize(
    "changes",
    [
        {"train": {"rows": 0.6, "features": 0.5, "trees": 8}},
        {"train": {"trees": 40, "patience": 2, "learning_rate": 1.0}},
        {"train": {"class_weight": "balanced", "l2": 0.0, "min_child_weight": 5.0, "trees": 12}},
        {"train": {"test": 0.0, "depth": 1, "trees": 25}},
        {"privacy": {"bits": 3, "least": 40}},
        {"align": True},
    ],
    ids=str,
)
def test_options_and_three_parties_grow_the_same_trees_too(here, changes):
    settings = of_tables(here, 2, **changes)
    if settings.align:  # the order of the rows is drawn: the trees of other held-out rows are others
        models = trained(settings)
        assert len(Part.of(models["bank"]).ensemble.trees) == 3
    else:
        check_same(settings)


def test_missing_values_categories_and_signs_travel_with_their_owner(here):
    settings = of_tables(here, rows=300)
    path = Path(settings.data["shop0"].path)
    head, *lines = path.read_text().splitlines()
    cells = [line.split(",") for line in lines]
    for row, line in enumerate(cells):
        line[1] = "" if row % 7 == 0 else line[1]
        line[2] = "" if row % 11 == 0 else ["Rome", "Oslo", "Bonn"][int(abs(float(line[2])) * 1.5) % 3]
    path.write_text("\n".join([head, *(",".join(line) for line in cells)]))
    columns = {"shop0_0": {"monotone": "rising"}, "shop0_1": {}, "shop0_2": {"monotone": "falling"}}
    section = type(settings.data["shop0"]).model_validate({"path": str(path), "columns": columns})
    settings = settings.model_copy(update={"data": {**settings.data, "shop0": section}})
    part = Part.of(check_same(settings)["shop0"])
    assert part.columns.signs.tolist() == [1, 0, -1]
    assert part.columns.bins.ordered.tolist() == [True, False, True]
    assert sum(part.won.values()) > 0


def test_bins_are_those_of_the_training_rows_alone(here):
    settings = of_tables(here)
    before = {name: columns for name, (columns, _) in binned_tables(settings)[0].items()}
    _, held_out = hold_out(150, settings.train.test, settings.seed)
    path = Path(settings.data["shop0"].path)
    head, *lines = path.read_text().splitlines()
    for row in held_out:
        lines[row] = ",".join([f"p{row}", "100", "200", "300"])
    path.write_text("\n".join([head, *lines]))
    after = {name: columns for name, (columns, _) in binned_tables(settings)[0].items()}
    assert after == before


# --- predictions


def predicted(settings, models, inputs=None):
    inputs = inputs or {name: Path(settings.data[name].path) for name in settings.parties}
    place = Place(None, Nowhere())
    made = {name: LOCKSTEP.predictor(settings, name, models[name], inputs[name], place) for name in settings.parties}
    return run_parties(made)[settings.active]


@pytest.mark.parametrize("partition", ["shown", "hidden"])
@pytest.mark.parametrize("objective", ["binary", "softmax", "squared"])
def test_predictions_are_the_scores_of_one_place(here, partition, objective):
    settings = of_tables(here, 2, objective=objective, privacy={"partition": partition})
    models = trained(settings)
    tables, _ = binned_tables(settings)
    raw = Part.of(models["bank"]).ensemble.scores([tables[name][1] for name in settings.order])
    found = predicted(settings, models)
    assert [row[0] for row in found.rows] == [f"p{row}" for row in range(150)]
    if objective == "softmax":
        np.testing.assert_allclose([row[3:] for row in found.rows], softmax(raw, axis=1))
    else:
        told = expit(raw[:, 0]) if objective == "binary" else raw[:, 0]
        np.testing.assert_allclose([row[1] for row in found.rows], told)


def test_parts_of_different_trainings_do_not_predict(here):
    settings = of_tables(here)
    first, second = trained(settings), trained(settings)
    with pytest.raises(PeerError, match="parts of the model are of different trainings"):
        predicted(settings, {"bank": first["bank"], "shop0": second["shop0"]})


def test_the_part_of_another_party_is_refused(here):
    settings = of_tables(here)
    models = trained(settings)
    with pytest.raises(ConfigError, match="not that of bank"):
        predicted(settings, {"bank": models["shop0"], "shop0": models["shop0"]})


def test_a_passive_answers_only_splits_of_the_training(here):
    """An active that asks for another split of a new row learns nothing."""
    settings = of_tables(here)
    models = trained(settings)
    part = Part.of(models["bank"])
    bent = []
    for tree in part.ensemble.trees:
        left = tree.left.copy()
        left[tree.party == 1, -1] ^= True
        bent.append(replace(tree, left=left))
    models["bank"] = replace(part, ensemble=replace(part.ensemble, trees=tuple(bent))).file()
    with pytest.raises(PeerError, match="a split was asked for that is not in the trees of the training"):
        predicted(settings, models)


# --- what a passive refuses, and what is told


@pytest.mark.parametrize(
    ("larger", "words"),
    [
        ({"trees": 4}, "words of more trees or nodes came than the 12 that were agreed on"),
        ({"depth": 4}, "words of more trees or nodes came than the 4 that were agreed on"),
        ({"objective": "softmax"}, "0 rounds of 3 trees are done, and at most 3 of 1 were agreed on"),
    ],
)
def test_a_passive_refuses_more_trees_and_hidden_nodes_than_its_file_has(here, larger, words):
    own = of_tables(here, objective="softmax")  # three classes
    settings = own.model_copy(update={"train": own.train.model_copy(update={"objective": "squared"})})
    others = settings.model_copy(update={"train": settings.train.model_copy(update=larger)})
    made = {
        "bank": LOCKSTEP.party(others, "bank", Place(None, Nowhere())),
        "shop0": LOCKSTEP.party(settings, "shop0", Place(None, Nowhere())),
    }
    with pytest.raises(PeerError, match=words):
        run_parties(made)


@pytest.mark.parametrize(
    ("objective", "partition", "plan"),
    [
        ("binary", "hidden", Plan(3, 1, 4)),
        ("binary", "shown", Plan(3, 1, 4)),
        ("softmax", "shown", Plan(3, MOST_CLASSES, 4)),
    ],
)
def test_a_passive_answers_what_its_file_says_and_no_more(here, monkeypatch, objective, partition, plan):
    served = []
    real = passive.serve
    monkeypatch.setattr(passive, "serve", lambda *a, plan, **more: served.append(plan) or real(*a, plan=plan, **more))
    trained(of_tables(here, objective=objective, privacy={"partition": partition}))
    assert served == [plan]


def run_with_files_that_differ(**files):
    """Each party by a file of its own, past the handshake that would compare them."""
    return run_parties({name: LOCKSTEP.party(own, name, Place(None, Nowhere())) for name, own in files.items()})


def test_a_passive_refuses_deeper_trees_than_its_file_has_if_it_sees_nodes(here):
    own = of_tables(here, privacy={"partition": "shown", "least": 2})
    deeper = own.model_copy(update={"train": own.train.model_copy(update={"depth": 4})})
    with pytest.raises(PeerError, match="nodes of a tree were asked for: 4 were agreed on"):
        run_with_files_that_differ(bank=deeper, shop0=own)


def test_a_passive_refuses_smaller_nodes_than_its_file_allows(here):
    settings = of_tables(here, train={"trees": 10}, privacy={"partition": "shown"})
    larger = settings.model_copy(update={"privacy": settings.privacy.model_copy(update={"least": 30})})
    with pytest.raises(PeerError, match="opens no node below 30"):
        run_with_files_that_differ(bank=settings, shop0=larger)


def test_every_party_tells_of_each_round(here):
    settings = of_tables(here)
    sinks = {name: Kept() for name in settings.parties}
    trained(settings, sinks)
    for name, features in (("bank", 6), ("shop0", 3)):
        (begun,) = (event for event in sinks[name].events if isinstance(event, TrainingStarted))
        assert (begun.epochs, begun.parameters) == (3, features)
        rounds = [event for event in sinks[name].events if type(event).__name__ == "EpochFinished"]
        assert [event.epoch for event in rounds] == [0, 1, 2]
        assert all(event.bytes_sent and event.bytes_received for event in rounds)
        assert all(bool(event.local) == (name == "bank") for event in rounds)
    assert "sums of 10 rows or more at 8 bits" in training.protection(settings)


def test_a_passive_alone_is_told_of_its_smallest_bin(here):
    settings = of_tables(here)
    sinks = {name: Kept() for name in settings.parties}
    trained(settings, sinks)
    binned = binned_tables(settings)[0]["shop0"][1]
    fewest = min(np.bincount(column)[np.bincount(column) > 0].min() for column in binned.T)
    said = {
        name: [str(event.text) for event in sink.events if isinstance(event, Noted)] for name, sink in sinks.items()
    }
    assert any(
        text.startswith(f"shop0: the smallest bin of a column has {fewest} of 150 rows: bank may learn which")
        for text in said["shop0"]
    )
    assert not any("smallest bin" in text for text in said["bank"])


def test_the_length_of_a_run_may_change_unless_trees_were_left_out(here):
    settings = of_tables(here)
    patient = of_tables(here, train={"patience": 2})
    assert free(settings) == {"train.trees"}
    assert free(patient) == frozenset()
    assert complete(settings, {"round": 3, "ended": False})
    assert not complete(settings, {"round": 2, "ended": True})
    assert complete(patient, {"round": 2, "ended": True})
    assert "give more (--set train.trees=6)" in over(settings, {"round": 3})
    assert "start a new run" in over(patient, {"round": 2})


def test_tables_that_are_elsewhere_are_left_out_of_a_plan(here):
    settings = of_tables(here)
    Path(settings.data["shop0"].path).unlink()
    assert list(tables_here(settings)) == ["bank"]
