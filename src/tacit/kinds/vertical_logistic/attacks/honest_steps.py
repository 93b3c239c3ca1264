"""What a passive sees of honest training, and what it sends, to the last digit of the protocol, without encryption.

    Tables(own, active, labels, passives)           what all parties have
    views(own, others, labels, training, start)     one View a step
    secret_weights(others, spread, rng)             a mitigation on the active's own columns: random weights to start
    secret_offsets(others, spread, rng)             the one that needs no columns: a random number for each row

Residues and columns are integers as under encryption, so that an attack on what is here is one on the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.protocol import encoding, metrics
from tacit.kinds.vertical_logistic.protocol.encoding import Columns
from tacit.kinds.vertical_logistic.protocol.model import Scaler


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The features of one passive, the active and all other passives, on the same rows, before they are scaled."""

    own: Floats
    active: Floats
    labels: Ints
    passives: Floats | None = None
    scale: bool = True

    def scaled(self, features: Floats) -> Floats:
        """As the protocol trains on them."""
        return Scaler.fit(features).apply(features) if self.scale and features.shape[1] else features

    @property
    def columns(self) -> Columns:
        return Columns.encode(self.scaled(self.own))

    @property
    def others(self) -> Floats:
        """The columns of all but the passive."""
        return self.scaled(np.hstack([self.active, *([] if self.passives is None else [self.passives])]))


@dataclass(frozen=True, slots=True)
class Training:
    """How long and in which steps. Batches are drawn anew in each epoch, in an order that all parties know."""

    batch: int
    epochs: int = 1
    rate: float = 0.5
    l2: float = 0.0
    seed: int = 0

    def batches(self, rows: int) -> list[Ints]:
        """The rows of each step."""
        rng = np.random.default_rng([self.seed, 53])
        count = -(-rows // self.batch)
        return [np.sort(part) for _ in range(self.epochs) for part in np.array_split(rng.permutation(rows), count)]


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where all other parties' columns and the intercept begin, and what the active adds to each row's score for good.
    The attacked protocol: at zero, and nothing."""

    weights: Floats
    intercept: float = 0.0
    offsets: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One step, as the passive sees it. Its own scores are also what it sends to the active."""

    rows: Ints
    gradient: Ints  # Xᵀr in units of 2^-24 and of each column's grid
    own_scores: Floats


def views(own: Columns, others: Floats, labels: Ints, training: Training, start: Start | None = None) -> list[View]:
    """Every step of an honest training in which one passive has `own`, already scaled, as are `others`."""
    own_weights, values = np.zeros(own.integers.shape[1]), own.values
    weights = np.zeros(others.shape[1]) if start is None else start.weights.copy()
    intercept = 0.0 if start is None else start.intercept
    offsets = np.zeros(len(labels)) if start is None or start.offsets is None else start.offsets
    seen = []
    for rows in training.batches(len(labels)):
        own_scores = values[rows] @ own_weights
        residues = metrics.sigmoid(own_scores + others[rows] @ weights + intercept + offsets[rows]) - labels[rows]
        integers = encoding.encode_residues(residues)
        gradient = own.integers[rows].T @ integers
        seen.append(View(rows, gradient, own_scores))
        steps = own.gradient(gradient.tolist()) / len(rows), others[rows].T @ residues / len(rows)
        own_weights = own_weights - training.rate * (steps[0] + training.l2 * own_weights)
        weights = weights - training.rate * (steps[1] + training.l2 * weights)
        intercept -= training.rate * float(residues.mean())
    return seen


def secret_weights(others: Floats, spread: float, rng: np.random.Generator) -> Start:
    """Normal weights under which the scores of these rows have the standard deviation `spread`, and an intercept.

    A simulation: a party would draw them from a CSPRNG.
    """
    weights = rng.normal(size=others.shape[1])
    deviation = float((others @ weights).std()) if others.shape[1] else 0.0
    scaled = weights * (spread / deviation if deviation > 0 else 0.0)
    return Start(np.asarray(scaled), float(spread * rng.normal()))


def secret_offsets(others: Floats, spread: float, rng: np.random.Generator) -> Start:
    """A normal number for each row, of standard deviation `spread`, that the active adds to its score in every step.

    They are not trained and not drawn anew: weights that are trained return towards 0, and with them residues to two
    values; numbers that change average out. No two rows share theirs, whatever the active's columns are. The model is
    scored without them. A simulation: a party would use a CSPRNG.
    """
    return Start(np.zeros(others.shape[1]), offsets=spread * rng.normal(size=len(others)))
