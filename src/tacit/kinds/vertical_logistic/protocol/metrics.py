"""How good a model's scores are: at the active, which has the labels.

probabilities(scores, model)        what raw scores say of each row
measure(scores, labels)             figures for classes, given as their codes
measure_numbers(scores, labels, target)     figures for numbers

Scores are (rows, K): see `model`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol.model import Target

Labels = NDArray[Any]  # (rows,): codes of classes from 0, or numbers
_POINTS = 200  # of a curve that is kept


def sigmoid(scores: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -scores))


def probabilities(scores: Floats, model: Literal["logistic", "linear"]) -> Floats:
    """What raw scores say: the probability of the second class (rows,), or of each class (rows, K), where those of one
    against the rest are divided by their sum; scores of a linear model as they are (rows,), on the scale of `Target`.

    Each row's depend on that row alone, to the last bit.
    """
    if model == "linear":
        return scores[:, 0]
    if scores.shape[1] == 1:
        return sigmoid(scores[:, 0])
    logs = -np.logaddexp(0.0, -scores)
    each = np.exp(logs - logs.max(axis=1, keepdims=True))  # the largest is 1: no sum is 0
    total = np.zeros(len(each))
    for column in each.T:  # one after the other: the order of a sum over an axis may depend on the number of rows
        total = total + column
    normalised: Floats = each / total[:, None]
    return normalised


def one_against_rest(codes: Labels, outputs: int) -> Floats:
    """What each output should say, (rows, K): 1 for its class, of the second class where there is one output."""
    wanted = np.arange(outputs) if outputs > 1 else np.array([1])
    hits: Floats = (codes[:, None] == wanted).astype(np.float64)
    return hits


def loss(scores: Floats, targets: Floats, row_weights: Floats | None = None) -> float:
    """Mean cross entropy over rows, by their weights, and outputs."""
    each = np.mean(np.logaddexp(0.0, scores) - targets * scores, axis=1)
    return float(np.average(each, weights=row_weights))


def squared(scores: Floats, targets: Floats) -> float:
    """Half the mean squared error."""
    return float(np.mean((scores - targets) ** 2) / 2)


def measure(scores: Floats, labels: Labels, row_weights: Floats | None = None) -> dict[str, float]:
    """Loss and accuracy; AUC, and KS of two classes, where each class and another occur.

    Of several classes the AUC is the mean over them, each against the rest, by `probabilities`.
    """
    outputs = scores.shape[1]
    targets = one_against_rest(labels, outputs)
    guessed = scores.argmax(axis=1) if outputs > 1 else scores[:, 0] > 0
    found = {"loss": loss(scores, targets, row_weights), "accuracy": float(np.mean(guessed == labels))}
    shares = targets.mean(axis=0)
    if not np.all((shares > 0) & (shares < 1)):
        return found
    ranked = probabilities(scores, "logistic") if outputs > 1 else scores
    curves = [roc(ranked[:, output], targets[:, output]) for output in range(outputs)]
    found["auc"] = float(np.mean([np.trapezoid(true, false) for false, true in curves]))
    if outputs == 1:
        false, true = curves[0]
        found["ks"] = float(np.max(np.abs(true - false)))
    return found


def measure_numbers(scores: Floats, labels: Labels, target: Target) -> dict[str, float]:
    """Loss on the target's scale; root mean squared and mean absolute error in the labels' unit, and R² unless all
    labels are alike."""
    off = target.original(scores[:, 0]) - labels
    found = {
        "loss": squared(scores, target.scaled(labels)[:, None]),
        "rmse": float(np.sqrt(np.mean(off**2))),
        "mae": float(np.mean(np.abs(off))),
    }
    if labels.min() < labels.max():
        found["r2"] = 1 - float(np.mean(off**2) / np.mean((labels - labels.mean()) ** 2))
    return found


def roc(scores: Floats, labels: Labels) -> tuple[Floats, Floats]:
    """False and true positive rates, one point for each distinct score, from (0, 0) to (1, 1)."""
    descending = np.argsort(-scores, kind="stable")
    ordered, hits = scores[descending], labels[descending] > 0.5
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    true, false = np.cumsum(hits)[ends], np.cumsum(~hits)[ends]
    return np.append(0.0, false / max(1, false[-1])), np.append(0.0, true / max(1, true[-1]))


def points(scores: Floats, labels: Labels) -> list[list[float]]:
    """The ROC curve of one output in few points, to draw."""
    false, true = roc(scores, labels)
    kept = np.unique(np.linspace(0, len(false) - 1, min(_POINTS, len(false))).round().astype(int))
    return [[float(false[i]), float(true[i])] for i in kept]
