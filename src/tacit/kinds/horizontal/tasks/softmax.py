"""Softmax regression in numpy, trained by mini-batch SGD: the model of the built-in tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork

Features = NDArray[np.float32]
Labels = NDArray[np.int64]


class SoftmaxTask:
    """Clients with features and labels; the coordinator has a test set of its own."""

    def __init__(self, parts: Sequence[tuple[Features, Labels]], test: tuple[Features, Labels], classes: int) -> None:
        self._parts = parts
        self._test = test
        self._classes = classes

    def held(self, client: int) -> Features:
        """What a client holds: the audit compares it with what an attacker recovers."""
        return self._parts[client][0]

    def public(self) -> Features:
        """What the coordinator has of its own."""
        return self._test[0]

    def model(self) -> Arrays:
        features = self._test[0].shape[1]
        return {
            "weights": np.zeros((features, self._classes), dtype=np.float32),
            "bias": np.zeros(self._classes, dtype=np.float32),
        }

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        """SGD on the client's samples, with FedProx's pull towards `model` if asked for."""
        x, y = self._parts[client]
        start_weights, start_bias = model["weights"], model["bias"]
        weights, bias = start_weights.copy(), start_bias.copy()
        rate, mu = np.float32(work.train.learning_rate), np.float32(work.train.proximal_mu)
        loss = 0.0
        for _ in range(work.train.epochs):
            losses = []
            order = work.rng.permutation(len(y))
            for start in range(0, len(y), work.train.batch):
                batch = order[start : start + work.train.batch]
                probabilities = softmax(x[batch] @ weights + bias)
                right = probabilities[np.arange(len(batch)), y[batch]]
                losses.append(-np.log(np.maximum(right, 1e-12)).sum())
                probabilities[np.arange(len(batch)), y[batch]] -= 1
                probabilities /= len(batch)
                weights -= rate * (x[batch].T @ probabilities + mu * (weights - start_weights))
                bias -= rate * (probabilities.sum(axis=0) + mu * (bias - start_bias))
            loss = float(np.sum(losses) / len(y))
        return Fitted({"weights": weights, "bias": bias}, len(y), loss)

    def evaluate(self, model: Arrays) -> dict[str, float]:
        x, y = self._test
        probabilities = softmax(x @ model["weights"] + model["bias"])
        right = probabilities[np.arange(len(y)), y]
        accuracy = float((probabilities.argmax(axis=1) == y).mean())
        return {"loss": float(-np.log(np.maximum(right, 1e-12)).mean()), "accuracy": accuracy}


def softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
