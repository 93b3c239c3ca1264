"""What labels make of scores is what scikit-learn's losses make of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn._loss.loss import HalfBinomialLoss, HalfSquaredError
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_class_weight

from tacit.kinds.vertical_logistic.protocol.objective import Objective, class_weights
from tests.kinds.vertical_logistic.parties import deal

ROWS = np.arange(50)


@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from([None, "balanced"]))
def test_residues_are_gradients_of_scikit_learns_loss(seed, classes, weight):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(50) % classes)
    settings = deal(train={"class_weight": weight})
    objective = Objective.of(labels, ROWS, settings)
    scores = rng.normal(size=(50, objective.outputs)) * 3
    assert objective.outputs == (1 if classes == 2 else classes)
    given = None
    if weight:
        each = compute_class_weight("balanced", classes=np.arange(classes), y=labels)
        given = (each / each.max())[labels]
    found, losses = objective.residues(scores, ROWS), []
    for output in range(objective.outputs):
        hits = (labels == (output if classes > 2 else 1)).astype(float)
        expected = HalfBinomialLoss().gradient(hits, scores[:, output].copy(), sample_weight=given)
        np.testing.assert_allclose(found[:, output], expected, atol=1e-12)
        losses.append(log_loss(hits, expit(scores[:, output]), labels=[0, 1], sample_weight=given))
    assert objective.loss(scores, ROWS) == pytest.approx(np.mean(losses))
    assert objective.measure(scores, ROWS)["loss"] == pytest.approx(np.mean(losses))
    assert np.abs(found).max() <= 1
    some = ROWS[10:20]
    assert np.array_equal(objective.residues(scores[some], some), found[some])


def test_residues_of_numbers_are_gradients_of_the_squared_error():
    labels = np.random.default_rng(0).normal(size=50) * 1000 + 5
    objective = Objective.of(labels, ROWS[:40], deal(model="linear"))
    scores = np.random.default_rng(1).normal(size=(50, 1)) * 0.1
    scaled = (labels - labels[:40].mean()) / (2 * np.abs(labels[:40] - labels[:40].mean()).max())
    np.testing.assert_allclose(
        objective.residues(scores[:40], ROWS[:40])[:, 0],
        HalfSquaredError().gradient(scaled[:40].copy(), scores[:40, 0].copy()),
        atol=1e-12,
    )
    assert objective.loss(scores, ROWS) == pytest.approx(np.mean((scores[:, 0] - scaled) ** 2) / 2)
    with pytest.raises(ValueError, match=r"the training diverged: lower train\.learning_rate"):
        objective.residues(np.full((40, 1), 1.6), ROWS[:40])
    with pytest.raises(ValueError, match="diverged"):
        objective.residues(np.full((40, 1), np.nan), ROWS[:40])


def test_class_weights_are_those_of_scikit_learn_with_a_largest_of_1():
    counts = np.array([10, 30, 60])
    names = ("a", "b", "c")
    labels = np.repeat(np.arange(3), counts)
    each = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(class_weights("balanced", names, counts), each / each.max())
    np.testing.assert_allclose(class_weights({"a": 4.0, "c": 0.5}, names, counts), [1, 0.25, 0.125])
    assert class_weights(None, names, counts) is None
    with pytest.raises(ValueError, match="'d' is none of the classes a, b, c"):
        class_weights({"d": 1.0}, names, counts)


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (np.zeros(50), (), "1 different values"),
        (np.arange(50), tuple(map(str, range(101))), "101 different values.* set model: linear"),
        (np.arange(50) % 3, ("a", "b"), "codes from 0 to 1"),
        (np.arange(50) % 2 - 1, ("a", "b"), "codes from 0 to 1"),
        (np.arange(50) % 2 + 0.5, ("a", "b"), "codes from 0 to 1"),
        (np.arange(50) % 2, ("a", "b", "never"), "the class 'never' has no row"),
    ],
)
def test_labels_that_make_no_sense_are_refused(labels, classes, words):
    with pytest.raises(ValueError, match=words):
        Objective.of(labels, ROWS, deal(), classes=classes)


def test_classes_have_names():
    assert Objective.of(np.arange(50) % 2, ROWS, deal(), classes=("no", "yes")).classes == ("no", "yes")
    assert Objective.of(np.where(ROWS % 2, "yes", "no"), ROWS, deal()).classes == ("no", "yes")
    named = Objective.of(np.arange(50) % 3, ROWS, deal(train={"class_weight": {"x": 2.0}}), classes=("x", "y", "z"))
    assert named.row_weights is not None
    np.testing.assert_allclose(named.row_weights[:3], [1, 0.5, 0.5])
