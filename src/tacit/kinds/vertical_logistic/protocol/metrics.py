"""How good a model's scores are: at the active, which has the labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.fixedpoint import Floats

Labels = NDArray[np.float64]
_POINTS = 200  # of a curve that is kept


def sigmoid(scores: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -scores))


def loss(scores: Floats, labels: Labels) -> float:
    """Mean cross entropy."""
    return float(np.mean(np.logaddexp(0.0, scores) - labels * scores))


def measure(scores: Floats, labels: Labels) -> dict[str, float]:
    """Loss and accuracy; AUC and KS where both labels occur."""
    found = {"loss": loss(scores, labels), "accuracy": float(np.mean((scores > 0) == (labels > 0.5)))}
    if 0 < labels.sum() < len(labels):
        false, true = roc(scores, labels)
        found["auc"] = float(np.trapezoid(true, false))
        found["ks"] = float(np.max(np.abs(true - false)))
    return found


def roc(scores: Floats, labels: Labels) -> tuple[Floats, Floats]:
    """False and true positive rates, one point for each distinct score, from (0, 0) to (1, 1)."""
    descending = np.argsort(-scores, kind="stable")
    ordered, hits = scores[descending], labels[descending] > 0.5
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    true, false = np.cumsum(hits)[ends], np.cumsum(~hits)[ends]
    return np.append(0.0, false / max(1, false[-1])), np.append(0.0, true / max(1, true[-1]))


def points(scores: Floats, labels: Labels) -> list[list[float]]:
    """The ROC curve in few points, to draw."""
    false, true = roc(scores, labels)
    kept = np.unique(np.linspace(0, len(false) - 1, min(_POINTS, len(false))).round().astype(int))
    return [[float(false[i]), float(true[i])] for i in kept]
