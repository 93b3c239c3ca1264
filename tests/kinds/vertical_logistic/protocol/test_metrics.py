"""Figures are those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
    roc_curve,
)

from tacit.kinds.vertical_logistic.protocol import metrics
from tacit.kinds.vertical_logistic.protocol.model import Target


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60))
def test_figures_of_two_classes_are_those_of_scikit_learn(rows):
    scores = np.array([score for score, _ in rows], dtype=float)
    labels = np.array([label for _, label in rows], dtype=int)
    found = metrics.measure(scores[:, None], labels)
    assert found["loss"] == pytest.approx(log_loss(labels, 1 / (1 + np.exp(-scores)), labels=[0, 1]))
    assert found["accuracy"] == np.mean((scores > 0) == labels)
    if 0 < labels.sum() < len(labels):
        false, true, _ = roc_curve(labels, scores)
        assert found["auc"] == pytest.approx(roc_auc_score(labels, scores))
        assert found["ks"] == pytest.approx(np.max(np.abs(true - false)))
    else:
        assert "auc" not in found


@given(st.integers(0, 2**32), st.integers(3, 6), st.booleans())
def test_figures_of_several_classes_are_those_of_scikit_learn(seed, classes, weighted):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(40, classes)) * 3, rng.integers(0, classes, 40)
    weights = rng.random(40) if weighted else None
    found = metrics.measure(scores, labels, weights)
    each = [
        log_loss(labels == k, expit(scores[:, k]), labels=[False, True], sample_weight=weights) for k in range(classes)
    ]
    assert found["loss"] == pytest.approx(np.mean(each))
    assert found["accuracy"] == np.mean(scores.argmax(axis=1) == labels)
    probabilities = expit(scores) / expit(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(metrics.probabilities(scores, "logistic"), probabilities, atol=1e-12)
    if len(np.unique(labels)) == classes:
        assert found["auc"] == pytest.approx(roc_auc_score(labels, probabilities, multi_class="ovr"))
        assert "ks" not in found
    else:
        assert "auc" not in found


@given(st.integers(0, 2**32), st.floats(-1e6, 1e6), st.floats(0.01, 1e6))
def test_figures_of_numbers_are_those_of_scikit_learn(seed, mean, unit):
    rng = np.random.default_rng(seed)
    labels, scores = rng.normal(size=30) * unit + mean, rng.normal(size=(30, 1))
    target = Target(mean, unit)
    found = metrics.measure_numbers(scores, labels, target)
    values = scores[:, 0] * unit + mean
    assert found["rmse"] == pytest.approx(np.sqrt(mean_squared_error(labels, values)))
    assert found["mae"] == pytest.approx(mean_absolute_error(labels, values))
    assert found["r2"] == pytest.approx(r2_score(labels, values))
    assert found["loss"] == pytest.approx(mean_squared_error(labels, values) / unit**2 / 2, rel=1e-6)
    assert "r2" not in metrics.measure_numbers(scores, np.full(30, mean), target)


def test_extreme_scores_have_a_probability():
    assert metrics.sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]
    assert metrics.probabilities(np.full((1, 4), -1e4), "logistic").tolist() == [[0.25] * 4]
    assert metrics.probabilities(np.array([[7.5], [-2.0]]), "linear").tolist() == [7.5, -2.0]


@given(st.integers(0, 2**32), st.sampled_from([1, 3, 10, 100]), st.integers(0, 299))
def test_probabilities_of_a_row_do_not_depend_on_other_rows(seed, outputs, row):
    scores = np.random.default_rng(seed).normal(size=(300, outputs)) * 5
    for laid in (np.ascontiguousarray, np.asfortranarray):
        among = metrics.probabilities(laid(scores), "logistic")[row]
        alone = metrics.probabilities(scores[row : row + 1], "logistic")[0]
        assert np.array_equal(among, alone)
