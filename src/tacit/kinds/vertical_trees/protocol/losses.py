"""What labels make of raw scores: the base score, the gradient g and the hessian h of every row.

    squared     a number; the score is the prediction
    poisson     a count; the prediction is exp(score)
    logistic    one of two classes; the probability of class 1 is the sigmoid of the score
    softmax     one of several classes; one score for each

Scores, g and h are [rows, outputs]. Row weights multiply both g and h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

__all__ = ["Logistic", "Loss", "Poisson", "Softmax", "Squared", "class_weights", "loss_named"]

Floats = NDArray[np.float64]

_SMALLEST_HESSIAN = 1e-16  # as XGBoost: a row that is surely right still counts for something
_LARGEST_SCORE = 40.0  # of a count: exp(40) is 2e17


class Loss(Protocol):
    """One objective. `weights` has a number for each row."""

    @property
    def name(self) -> str: ...

    @property
    def outputs(self) -> int:
        """Scores of a row, and trees of a round."""

    def check(self, labels: Floats) -> None:
        """Refuse labels that this loss has no meaning for."""

    def base(self, labels: Floats, weights: Floats) -> Floats:
        """The constant scores that fit best, [outputs]."""

    def gradients(self, labels: Floats, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """g and h of every row and output."""

    def mean(self, labels: Floats, scores: Floats, weights: Floats) -> float:
        """The weighted mean of the loss, for early stopping."""

    def predictions(self, scores: Floats) -> Floats:
        """What scores say in the units of the labels: numbers or probabilities."""


@dataclass(frozen=True, slots=True)
class Squared:
    name: str = "squared"
    outputs: int = 1

    def check(self, labels: Floats) -> None:
        _finite(labels)

    def base(self, labels: Floats, weights: Floats) -> Floats:
        return np.array([np.average(labels, weights=weights)])

    def gradients(self, labels: Floats, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        return (weights * (scores[:, 0] - labels))[:, None], weights[:, None].copy()

    def mean(self, labels: Floats, scores: Floats, weights: Floats) -> float:
        return float(np.average((scores[:, 0] - labels) ** 2, weights=weights))

    def predictions(self, scores: Floats) -> Floats:
        return scores[:, 0]


@dataclass(frozen=True, slots=True)
class Poisson:
    name: str = "poisson"
    outputs: int = 1

    def check(self, labels: Floats) -> None:
        _finite(labels)
        if labels.min() < 0 or labels.max() == 0:
            raise ValueError("a Poisson loss needs labels of 0 or more, not all of them 0")

    def base(self, labels: Floats, weights: Floats) -> Floats:
        return np.array([np.log(np.average(labels, weights=weights))])

    def gradients(self, labels: Floats, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        expected = self.predictions(scores)
        return (weights * (expected - labels))[:, None], (weights * expected)[:, None]

    def mean(self, labels: Floats, scores: Floats, weights: Floats) -> float:
        return float(np.average(self.predictions(scores) - labels * scores[:, 0], weights=weights))

    def predictions(self, scores: Floats) -> Floats:
        return np.exp(np.minimum(scores[:, 0], _LARGEST_SCORE))


@dataclass(frozen=True, slots=True)
class Logistic:
    name: str = "logistic"
    outputs: int = 1

    def check(self, labels: Floats) -> None:
        if set(np.unique(labels).tolist()) != {0.0, 1.0}:
            raise ValueError("a logistic loss needs labels of two classes, 0 and 1, and rows of both")

    def base(self, labels: Floats, weights: Floats) -> Floats:
        share = np.average(labels, weights=weights)
        return np.array([np.log(share / (1 - share))])

    def gradients(self, labels: Floats, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        sure = self.predictions(scores)
        hessian = np.maximum(sure * (1 - sure), _SMALLEST_HESSIAN)
        return (weights * (sure - labels))[:, None], (weights * hessian)[:, None]

    def mean(self, labels: Floats, scores: Floats, weights: Floats) -> float:
        return float(np.average(np.logaddexp(0, scores[:, 0]) - labels * scores[:, 0], weights=weights))

    def predictions(self, scores: Floats) -> Floats:
        found: Floats = expit(scores[:, 0])
        return found


@dataclass(frozen=True, slots=True)
class Softmax:
    """`outputs` classes, labelled 0, 1, 2 and so on. h has the factor 2 that XGBoost gives it: smaller steps."""

    outputs: int
    name: str = "softmax"

    def check(self, labels: Floats) -> None:
        if not np.array_equal(np.unique(labels), np.arange(self.outputs)):
            raise ValueError(f"a softmax loss of {self.outputs} classes needs labels 0 to {self.outputs - 1}, all used")

    def base(self, labels: Floats, weights: Floats) -> Floats:
        shares = np.bincount(labels.astype(np.int64), weights, self.outputs) / weights.sum()
        logs: Floats = np.log(shares) - np.log(shares).mean()
        return logs

    def gradients(self, labels: Floats, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        sure = self.predictions(scores)
        own = np.arange(self.outputs) == labels[:, None]
        hessian = np.maximum(2 * sure * (1 - sure), _SMALLEST_HESSIAN)
        return weights[:, None] * (sure - own), weights[:, None] * hessian

    def mean(self, labels: Floats, scores: Floats, weights: Floats) -> float:
        logs = log_softmax(scores, axis=1)[np.arange(len(labels)), labels.astype(np.int64)]
        return float(np.average(-logs, weights=weights))

    def predictions(self, scores: Floats) -> Floats:
        found: Floats = softmax(scores, axis=1)
        return found


def loss_named(name: str, classes: int = 2) -> Loss:
    """The loss of that name; `classes` counts for softmax only."""
    if name == "softmax":
        if classes < 2:
            raise ValueError(f"a softmax loss needs two or more classes, not {classes}")
        return Softmax(classes)
    losses: Mapping[str, Loss] = {"squared": Squared(), "poisson": Poisson(), "logistic": Logistic()}
    if name not in losses:
        raise ValueError(f"there is no loss {name!r}: choose squared, poisson, logistic or softmax")
    return losses[name]


def class_weights(labels: Floats, weights: Mapping[int, float] | str | None) -> Floats:
    """The weight of each row: 1, that of its class, or with `balanced` rows / (classes · rows of its class)."""
    if weights is None:
        return np.ones(len(labels))
    classes, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if weights == "balanced":
        found: Floats = (len(labels) / (len(classes) * counts))[places]
        return found
    if isinstance(weights, str):
        raise ValueError(f"class weights are `balanced` or a number for each class, not {weights!r}")
    given = {float(name): float(weight) for name, weight in weights.items()}
    if unknown := sorted(set(given) - set(classes.tolist())):
        raise ValueError(f"class weights name the class {unknown[0]:g}, which has no rows")
    if not all(np.isfinite(weight) and weight > 0 for weight in given.values()):
        raise ValueError("class weights are above 0 and finite")
    return np.array([given.get(name, 1.0) for name in classes.tolist()])[places]


def _finite(labels: Floats) -> None:
    if not np.isfinite(labels).all():
        raise ValueError("a label is missing or infinite: leave out its row")
