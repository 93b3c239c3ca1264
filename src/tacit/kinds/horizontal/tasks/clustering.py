"""Deep clustering in numpy: a network that sorts samples into classes which nobody named.

    hidden        = relu(x W1 + b1)
    probabilities = softmax(hidden W2 + b2)          the inference vector
    rebuilt       = probabilities C + mean           the sample, told by its class alone

The loss has three parts, none below 0: the squared distance from a sample to the rebuilt one, `doubt` times the entropy
of a sample's probabilities, and `balance` times the divergence of the classes' shares from equal ones. At equal weights
the last two are the mutual information of sample and class, but for its sign and a constant; a heavier `balance` keeps
classes from dying out while nobody is sure yet.
Source of these two: Krause, Perona, Gomes 2010, "Discriminative clustering by regularized information maximization".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.tasks.softmax import Features, Labels, softmax

INITIAL = 17  # what a seed is for: see `tacit.kinds.horizontal.sampling.SAMPLING`
_TINY = 1e-12  # below every probability that matters; keeps the logarithm finite


@dataclass(frozen=True, slots=True)
class Clustering:
    """The network's size, and what its loss weighs."""

    classes: int = 10
    hidden: int = 32
    doubt: float = 1.0
    balance: float = 4.0

    def __post_init__(self) -> None:
        if self.classes < 2 or self.hidden < 1:
            raise ValueError(f"classes must be 2 or more and hidden 1 or more, got {self.classes} and {self.hidden}")
        if not (0 <= self.doubt < np.inf and 0 <= self.balance < np.inf):
            raise ValueError(f"doubt and balance must be finite and not below 0, got {self.doubt} and {self.balance}")


class ClusteringTask:
    """Clients with samples and no labels. The coordinator has a test set of its own, with labels to compare with."""

    def __init__(
        self, parts: Sequence[Features], test: tuple[Features, Labels], seed: int, options: Clustering
    ) -> None:
        self.classes = options.classes
        self._parts = parts
        self._test = test
        self._seed = seed
        self._options = options

    def held(self, client: int) -> Features:
        """What a client holds: the audit compares it with what an attacker recovers."""
        return self._parts[client]

    def public(self) -> Features:
        """What the coordinator has of its own."""
        return self._test[0]

    def model(self) -> Arrays:
        """At first no class is favoured: the scores of the coordinator's own samples have mean 0."""
        features, hidden, classes = self._test[0].shape[1], self._options.hidden, self.classes
        rng = np.random.default_rng([self._seed, INITIAL])
        # Twice the usual width in the second layer: where all probabilities are alike, a breath changes the largest.
        first, second = np.sqrt(2 / features), 2 * np.sqrt(1 / hidden)
        model = {
            "weights1": (first * rng.standard_normal((features, hidden))).astype(np.float32),
            "bias1": np.zeros(hidden, dtype=np.float32),
            "weights2": (second * rng.standard_normal((hidden, classes))).astype(np.float32),
            "bias2": np.zeros(classes, dtype=np.float32),
            "centres": np.zeros((classes, features), dtype=np.float32),
            "mean": np.zeros(features, dtype=np.float32),
        }
        model["bias2"] -= (_hidden(model, self._test[0]) @ model["weights2"]).mean(axis=0)
        return model

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        """SGD on the client's samples, with FedProx's pull towards `model` if asked for."""
        x = self._parts[client]
        trained = {name: array.copy() for name, array in model.items()}
        rate, mu = work.train.learning_rate, work.train.proximal_mu
        loss = 0.0
        for _ in range(work.train.epochs):
            total = 0.0
            order = work.rng.permutation(len(x))
            for start in range(0, len(x), work.train.batch):
                batch = x[order[start : start + work.train.batch]]
                cost, slopes = gradient(trained, batch, self._options)
                total += cost * len(batch)
                for name, slope in slopes.items():
                    pull = mu * (trained[name] - model[name]) if mu else 0
                    trained[name] -= rate * (slope + pull)
            loss = total / len(x)
        return Fitted(trained, len(x), loss)

    def evaluate(self, model: Arrays) -> dict[str, float]:
        """The loss, and the purity: which part of the samples has the most frequent label of its class."""
        x, y = self._test
        loss, _ = gradient(model, x, self._options)
        together = np.zeros((self.classes, int(y.max()) + 1), dtype=np.int64)
        np.add.at(together, (probabilities(model, x).argmax(axis=1), y), 1)
        return {"loss": loss, "purity": float(together.max(axis=1).sum() / len(y))}

    def infer(self, client: int, model: Arrays, count: int) -> NDArray[Any]:
        """With which probability each of the client's first `count` samples is in which class."""
        return probabilities(model, self._parts[client][:count])


def probabilities(model: Arrays, x: NDArray[Any]) -> NDArray[Any]:
    """A row for each sample."""
    return softmax(_hidden(model, x) @ model["weights2"] + model["bias2"])


def gradient(model: Arrays, x: NDArray[Any], options: Clustering) -> tuple[float, Arrays]:
    """The loss on the samples `x`, and its slope for each array of the model."""
    count = len(x)
    hidden = _hidden(model, x)
    p = softmax(hidden @ model["weights2"] + model["bias2"])
    share = p.mean(axis=0)  # of each class
    log_p, log_share = np.log(np.maximum(p, _TINY)), np.log(np.maximum(share, _TINY))
    error = p @ model["centres"] + model["mean"] - x
    doubt = -(p * log_p).sum() / count
    imbalance = np.log(options.classes) + share @ log_share
    loss = np.square(error).sum() / count + options.doubt * doubt + options.balance * imbalance

    # Slopes of the entropies leave out a constant for each row: softmax takes no notice of it.
    to_rebuilt = error * (2 / count)
    to_p = to_rebuilt @ model["centres"].T + (options.balance * log_share - options.doubt * log_p) / count
    to_scores = p * (to_p - (p * to_p).sum(axis=1, keepdims=True))
    to_hidden = (to_scores @ model["weights2"].T) * (hidden > 0)
    return float(loss), {
        "weights1": x.T @ to_hidden,
        "bias1": to_hidden.sum(axis=0),
        "weights2": hidden.T @ to_scores,
        "bias2": to_scores.sum(axis=0),
        "centres": p.T @ to_rebuilt,
        "mean": to_rebuilt.sum(axis=0),
    }


def _hidden(model: Arrays, x: NDArray[Any]) -> NDArray[Any]:
    hidden: NDArray[Any] = np.maximum(x @ model["weights1"] + model["bias1"], 0)
    return hidden
