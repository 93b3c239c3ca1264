"""Models that have converged are as good as scikit-learn's, on held-out rows of public tables."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from tacit.events import EpochFinished, Kept
from tacit.kinds.vertical_logistic.protocol import batches, metrics
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tests.kinds.vertical_logistic.parties import deal, key, train

CLOSE = 0.005
pytestmark = pytest.mark.slow  # 50 s for all; the same steps are compared one by one beside the protocol


def trained(x, y, settings):
    """Raw scores and labels of the rows held out, the active's model and its last figures."""
    judged, events = [], Kept()
    context = PaillierContext(key=key(), sink=events, judged=lambda *given: judged.append(given))
    models = train(x, y, settings, {"bank": context})
    ((scores, labels, held_out),) = judged
    assert held_out
    figures = [event for event in events.events if isinstance(event, EpochFinished)][-1].local
    return scores, labels, models["bank"], figures


def parted(x, y, settings):
    """Standardised training rows and those held out, with labels."""
    kept, held_out = batches.hold_out(len(x), settings.train.test, settings.seed)
    scaler = StandardScaler().fit(x[kept])
    return scaler.transform(x[kept]), y[kept], scaler.transform(x[held_out]), y[held_out]


def steps(rows, **changes):
    """Full batches, and l2 as LogisticRegression has it with C = 1."""
    return {"epochs": 150, "batch": 1000, "learning_rate": 1.5, "l2": 1 / (0.7 * rows), "test": 0.3, **changes}


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("passives", [1, 3])
def test_several_classes_are_told_apart_as_by_one_against_the_rest(load, passives):
    x, y = load(return_X_y=True)
    settings = deal(passives, train=steps(len(x)), checks={"few_rows": False})
    x_train, y_train, x_test, y_test = parted(x, y, settings)
    peer = OneVsRestClassifier(LogisticRegression()).fit(x_train, y_train)
    scores, labels, _, figures = trained(x, y, settings)
    assert np.array_equal(labels, y_test)
    ours = metrics.probabilities(scores, "logistic")
    theirs = roc_auc_score(y_test, peer.predict_proba(x_test), multi_class="ovr")
    assert roc_auc_score(labels, ours, multi_class="ovr") == pytest.approx(theirs, abs=CLOSE)
    assert figures["auc"] == pytest.approx(theirs, abs=CLOSE)
    np.testing.assert_allclose(ours, peer.predict_proba(x_test), atol=0.05)
    assert np.mean(ours.argmax(axis=1) == peer.predict(x_test)) > 0.97


def test_class_weights_of_several_classes_are_those_of_the_rows():
    """Rare classes, each row with the weight of its class in all outputs."""
    x, y = load_wine(return_X_y=True)
    kept = np.flatnonzero((y != 2) | (np.arange(len(y)) % 4 == 0))
    x, y = x[kept], y[kept]
    changes = {"class_weight": "balanced", "learning_rate": 5.0, "l2": 0.05}
    settings = deal(2, train=steps(len(x), **changes), checks={"few_rows": False})
    x_train, y_train, x_test, _ = parted(x, y, settings)
    counts = np.bincount(y_train)
    weights = (counts.min() / counts)[y_train]
    scores, _, _, _ = trained(x, y, settings)
    for output in range(3):
        strength = 1 / (settings.train.l2 * len(x_train))  # C multiplies the sum over the rows, with these weights
        peer = LogisticRegression(C=strength).fit(x_train, y_train == output, sample_weight=weights)
        np.testing.assert_allclose(scores[:, output], peer.decision_function(x_test), atol=0.01)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"0": 5.0}])
def test_two_classes_with_weights(class_weight):
    x, y = load_breast_cancer(return_X_y=True)
    settings = deal(2, train=steps(len(x), class_weight=class_weight, epochs=100))
    x_train, y_train, x_test, y_test = parted(x, y, settings)
    named = {0: 5.0, 1: 1.0} if isinstance(class_weight, dict) else class_weight
    peer = LogisticRegression(class_weight=named).fit(x_train, y_train)
    scores, labels, _, _ = trained(x, y, settings)
    theirs = roc_auc_score(y_test, peer.decision_function(x_test))
    assert roc_auc_score(labels, scores[:, 0]) == pytest.approx(theirs, abs=CLOSE)
    assert np.mean((scores[:, 0] > 0) == peer.predict(x_test)) > 0.97


@pytest.mark.parametrize("passives", [1, 2])
def test_numbers_are_learned_as_by_least_squares(passives):
    x, y = load_diabetes(return_X_y=True)
    settings = deal(passives, model="linear", train=steps(len(x), learning_rate=0.45, l2=0.0, epochs=300))
    x_train, y_train, x_test, y_test = parted(x, y, settings)
    theirs = r2_score(y_test, LinearRegression().fit(x_train, y_train).predict(x_test))
    scores, labels, model, figures = trained(x, y, settings)
    assert model.target is not None
    assert r2_score(labels, model.target.original(scores[:, 0])) == pytest.approx(theirs, abs=CLOSE)
    assert figures["r2"] == pytest.approx(theirs, abs=CLOSE)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((model.target.original(scores[:, 0]) - y_test) ** 2)))
    assert figures.keys() == {"loss", "rmse", "mae", "r2", "training loss"}


def test_l2_of_numbers_is_that_of_ridge():
    x, y = load_diabetes(return_X_y=True)
    settings = deal(2, model="linear", train=steps(len(x), learning_rate=0.3, l2=0.2))
    x_train, y_train, x_test, _ = parted(x, y, settings)
    peer = Ridge(alpha=0.2 * len(x_train)).fit(x_train, y_train)
    scores, _, model, _ = trained(x, y, settings)
    np.testing.assert_allclose(model.target.original(scores[:, 0]), peer.predict(x_test), atol=0.5)
