"""What the outputs of a model are to come to, row by row, and how far off its scores are: at the active alone.

    logistic    K = 1 for two classes, K = C for more, each class against the rest; r = c·(σ(score) − y)
    linear      K = 1; r = score − t, with t the label on the scale of `Target`

c is the weight of the row's class, at most 1. The gradient of a batch is divided by its rows, not by their weights:
class weights lower the learning rate by the mean of c. Residues lie in [-1, 1], which a passive checks by
`gradient_bound`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tacit.errors import Diverged
from tacit.fixedpoint import Floats, as_finite
from tacit.kinds.vertical_logistic.protocol import metrics
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.metrics import Labels
from tacit.kinds.vertical_logistic.protocol.model import Target
from tacit.kinds.vertical_logistic.settings import Settings

MOST_CLASSES = 100
_ROUNDING = 1e-9  # by which a residue of a label at the end of its range may exceed what it should be


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """Labels, and what they make of scores. Rows are numbers of all rows, those held out included."""

    labels: Labels  # (n,)
    targets: Floats  # (n, K)
    row_weights: Floats | None  # (n,), where the file weighs classes
    classes: tuple[str, ...]  # none for numbers
    target: Target | None  # for numbers

    @classmethod
    def of(
        cls,
        labels: Any,
        training: Rows,
        settings: Settings,
        *,
        classes: tuple[str, ...] = (),
        target: Target | None = None,
    ) -> Objective:
        """Of labels as the active has them: codes of `classes` from 0, any values where there are no names, or numbers.

        Class weights and the target's scale come from the training rows, the latter unless it is given.
        """
        given = np.asarray(labels)
        if settings.model == "linear":
            numbers = as_finite(given, "labels")
            scale = target or Target.fit(numbers[training])
            return cls(numbers, scale.scaled(numbers)[:, None], None, (), scale)
        codes, names = _coded(given, classes)
        counts = np.bincount(codes[training], minlength=len(names))
        if not counts.all():
            raise ValueError(
                f"the class {names[int(np.argmin(counts))]!r} has no row among those that are trained on: leave it "
                "out, or lower train.test"
            )
        weights = class_weights(settings.train.class_weight, names, counts)
        targets = metrics.one_against_rest(codes, len(names) if len(names) > 2 else 1)
        return cls(codes, targets, None if weights is None else weights[codes], names, None)

    @property
    def outputs(self) -> int:
        return int(self.targets.shape[1])

    def residues(self, scores: Floats, rows: Rows) -> Floats:
        """(len(rows), K), each in [-1, 1]; Diverged where a linear model has left that."""
        targets = self.targets[rows]
        if self.target is not None:
            found = scores - targets
            if not np.all(np.abs(found) <= 1 + _ROUNDING):
                raise Diverged(
                    f"a residue of {np.abs(found).max():.3g} times the range of the labels: the training diverged: "
                    "lower train.learning_rate"
                )
            return np.clip(found, -1.0, 1.0)
        found = metrics.sigmoid(scores) - targets
        return found if self.row_weights is None else found * self.row_weights[rows, None]

    def loss(self, scores: Floats, rows: Rows) -> float:
        """What the training makes small, but for l2."""
        if self.target is not None:
            return metrics.squared(scores, self.targets[rows])
        return metrics.loss(scores, self.targets[rows], self._weights(rows))

    def measure(self, scores: Floats, rows: Rows) -> dict[str, float]:
        """All figures of scores of these rows, the loss by class weights."""
        if self.target is not None:
            return metrics.measure_numbers(scores, self.labels[rows], self.target)
        return metrics.measure(scores, self.labels[rows], self._weights(rows))

    def _weights(self, rows: Rows) -> Floats | None:
        return None if self.row_weights is None else self.row_weights[rows]


def class_weights(
    given: Literal["balanced"] | Mapping[str, float] | None, classes: tuple[str, ...], counts: Rows
) -> Floats | None:
    """The weight of each class, the largest 1; None where the file gives none.

    balanced: in proportion to n / (C·n_k), with n_k training rows of class k. By name: classes that are not named have
    the weight 1 before the largest is made 1.
    """
    if given is None:
        return None
    if isinstance(given, str):
        weights = counts.sum() / (len(classes) * counts.astype(np.float64))
    else:
        if unknown := [name for name in given if name not in classes]:
            raise ValueError(
                f"train.class_weight: {', '.join(map(repr, unknown))} is none of the classes {', '.join(classes)}"
            )
        weights = np.array([given.get(name, 1.0) for name in classes])
    relative: Floats = weights / weights.max()
    return relative


def _coded(given: Labels, classes: tuple[str, ...]) -> tuple[Labels, tuple[str, ...]]:
    """(codes, names of the classes)."""
    if classes:
        if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= len(classes):
            raise ValueError(f"labels must be codes from 0 to {len(classes) - 1} of the {len(classes)} classes")
        codes, names = given.astype(np.int64), classes
    else:
        values, codes = np.unique(given, return_inverse=True)
        names = tuple(str(value) for value in values.tolist())
    if not 2 <= len(names) <= MOST_CLASSES:
        raise ValueError(
            f"labels have {len(names)} different values, a logistic regression needs 2 to {MOST_CLASSES} classes"
            + ("; are they numbers? then set model: linear" if len(names) > MOST_CLASSES else "")
        )
    return codes, names


def check_labels(labels: Any, rows: int) -> None:
    """One label for each row, or ValueError."""
    if np.shape(labels) != (rows,):
        raise ValueError(f"labels have the shape {np.shape(labels)}, and there are {rows} rows: give one for each")
