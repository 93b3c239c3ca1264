from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, roc_auc_score

from tacit.config.source import ConfigError
from tacit.events import Curve, Nowhere, Tabled
from tacit.kinds.vertical_trees import judged
from tacit.kinds.vertical_trees.party import LOCKSTEP, binned_tables, tables_here
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, State
from tacit.kinds.vertical_trees.protocol.losses import loss_named
from tacit.kinds.vertical_trees.protocol.tree import Ensemble
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.run import Place
from tests.kinds.vertical_trees.trees_tables import of_tables, people

RNG = np.random.default_rng(4)


def case(name, classes=2, held_out=30):
    rows, outputs = 100, classes if name == "softmax" else 1
    if name in ("squared", "poisson"):
        labels = RNG.poisson(3.0, rows).astype(float)
    else:
        labels = RNG.integers(0, classes, rows).astype(float)
    loss = loss_named(name, classes)
    known = Labelled(loss, labels, np.ones(rows), np.arange(held_out, rows), np.arange(held_out))
    scores = RNG.normal(size=(rows, outputs))
    judged_rows = known.held_out if held_out else known.rows
    mean = known.mean(scores, judged_rows)
    state = State(Ensemble(np.zeros(outputs)), scores, (mean,), (mean,) if held_out else ())
    return known, state, labels[judged_rows], scores[judged_rows]


@pytest.mark.parametrize("held_out", [30, 0])
def test_figures_of_two_classes_are_those_of_scikit_learn(held_out):
    known, state, labels, scores = case("logistic", held_out=held_out)
    found = judged.figures(known, state)
    chance = 1 / (1 + np.exp(-scores[:, 0]))
    assert found["loss"] == pytest.approx(log_loss(labels, chance))
    assert found["auc"] == pytest.approx(roc_auc_score(labels, scores[:, 0]))
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, chance > 0.5))


def test_figures_of_several_classes_are_those_of_scikit_learn():
    known, state, labels, scores = case("softmax", 3)
    found, chance = judged.figures(known, state), softmax(scores, axis=1)
    assert found["loss"] == pytest.approx(log_loss(labels, chance))
    assert found["auc"] == pytest.approx(roc_auc_score(labels, chance, multi_class="ovr"))
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, chance.argmax(axis=1)))


@pytest.mark.parametrize("name", ["squared", "poisson"])
def test_figures_of_numbers_are_in_the_labels_unit(name):
    known, state, labels, scores = case(name)
    predicted = scores[:, 0] if name == "squared" else np.exp(scores[:, 0])
    assert judged.figures(known, state)["rmse"] ** 2 == pytest.approx(mean_squared_error(labels, predicted))


@pytest.mark.parametrize("name", ["logistic", "softmax", "squared", "poisson"])
def test_curves_and_tables_are_told_at_the_end(name):
    known, _, _, scores = case(name, 3 if name == "softmax" else 2)
    classes = {"logistic": ("a", "b"), "softmax": ("a", "b", "c")}.get(name, ())
    events = judged.told(known, scores, classes)
    assert events
    assert all(isinstance(event, Curve | Tabled) and event.section == "On held-out rows" for event in events)


def test_rows_of_rare_classes_weigh_more_by_the_training_rows_alone(here):
    settings = of_tables(here, train={"class_weight": "balanced"})
    known = binned_tables(settings)[1]
    _, y = people(150, 6, "binary")
    training, _ = hold_out(150, 0.2, 0)
    for code in (0, 1):
        expected = len(training) / (2 * np.sum(y[training] == code))
        np.testing.assert_allclose(known.weights[y == code], expected)


def test_classes_are_weighed_by_their_names(here):
    known = binned_tables(of_tables(here, train={"class_weight": {"1": 4.0}}))[1]
    np.testing.assert_array_equal(known.weights, np.where(known.labels == 1, 4.0, 1.0))
    settings = of_tables(here, train={"class_weight": {"yes": 4.0}})
    with pytest.raises(ConfigError, match=r"train\.class_weight names yes, and the classes are 0, 1"):
        judged.check_labels(settings, tables_here(settings)["bank"])


def test_three_classes_need_softmax(here):
    settings = of_tables(here, objective="softmax")
    binary = settings.model_copy(update={"train": settings.train.model_copy(update={"objective": "binary"})})
    table = tables_here(binary)["bank"]
    with pytest.raises(ConfigError, match=r"the label has 3 classes, and train\.objective is binary: take softmax"):
        judged.check_labels(binary, table)


def test_a_label_below_zero_is_no_count_on_whatever_side_of_the_division_it_falls(here):
    settings = of_tables(here, objective="poisson")
    held_out = int(hold_out(150, settings.train.test, settings.seed)[1][0])
    path = Path(settings.data["bank"].path)
    head, *lines = path.read_text().splitlines()
    identity, _, *values = lines[held_out].split(",")
    lines[held_out] = ",".join([identity, "-2", *values])
    path.write_text("\n".join([head, *lines]))
    with pytest.raises(ConfigError, match=r"bank\.csv: 1 of 150 labels are below 0, the least -2"):
        LOCKSTEP.party(settings, "bank", Place(None, Nowhere()))


@pytest.mark.parametrize("objective", ["softmax", "binary"])
def test_a_class_without_rows_to_train_on_is_named(here, objective):
    settings = of_tables(here, objective=objective)
    held_out = int(hold_out(150, settings.train.test, settings.seed)[1][0])
    path = Path(settings.data["bank"].path)
    head, *lines = path.read_text().splitlines()
    for place, line in enumerate(lines):
        identity, label, *values = line.split(",")
        usual = "common" if objective == "binary" else f"c{label}"
        lines[place] = ",".join([identity, "rare" if place == held_out else usual, *values])
    path.write_text("\n".join([head, *lines]))
    with pytest.raises(ConfigError, match="no row of the class rare is among the 120 that are trained on"):
        binned_tables(settings)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": {"least": 121}}, r"grown from 120 of 120 training rows, and privacy\.least"),
        ({"train": {"rows": 0.05}}, "grown from 6 of 120 training rows"),
    ],
)
def test_too_few_rows_for_any_split_are_refused_before_anything_is_sent(here, changes, words):
    with pytest.raises(ConfigError, match=words):
        binned_tables(of_tables(here, **changes))


def test_rows_whose_sums_may_overflow_are_refused():
    class Many:
        train, privacy = type("T", (), {"rows": 1.0}), type("P", (), {"least": 64, "bits": 16})

    with pytest.raises(ConfigError, match=r"40000 rows of a tree at privacy\.bits 16 .* at most 32768"):
        judged._check_rows(Many, 40_000)
