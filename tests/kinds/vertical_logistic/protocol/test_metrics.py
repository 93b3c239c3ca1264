"""Figures are those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score, roc_curve

from tacit.kinds.vertical_logistic.protocol import metrics


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60))
def test_figures_are_those_of_scikit_learn(rows):
    scores = np.array([score for score, _ in rows], dtype=float)
    labels = np.array([label for _, label in rows], dtype=float)
    found = metrics.measure(scores, labels)
    assert found["loss"] == pytest.approx(log_loss(labels, 1 / (1 + np.exp(-scores)), labels=[0, 1]))
    assert found["accuracy"] == np.mean((scores > 0) == labels)
    if 0 < labels.sum() < len(labels):
        false, true, _ = roc_curve(labels, scores)
        assert found["auc"] == pytest.approx(roc_auc_score(labels, scores))
        assert found["ks"] == pytest.approx(np.max(np.abs(true - false)))
    else:
        assert "auc" not in found


def test_extreme_scores_have_a_probability():
    assert metrics.sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]
