"""What a party keeps: its own weights and scaler, and how far a training has come. Nobody holds the whole model.

A model has K outputs: one for two classes or for a number, and one for each class where there are three or more.
Weights are (columns, K), the intercept (K,), scores (rows, K), for K = 1 too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from tacit.errors import PeerError
from tacit.fixedpoint import Floats, as_finite


@dataclass(frozen=True, slots=True, eq=False)
class Scaler:
    """Standardises columns as scikit-learn's `scale`: less the mean, over the deviation; constant ones become 0.

    It is fitted on training rows and kept, so that new rows are scaled as the model's were.
    """

    mean: Floats
    factor: Floats

    @classmethod
    def fit(cls, features: Floats) -> Scaler:
        mean, largest = features.mean(axis=0), np.abs(features).max(axis=0, initial=0.0)
        with np.errstate(over="ignore"):
            deviation = features.std(axis=0)
        far = ~np.isfinite(deviation)  # squares of such numbers are beyond floats
        deviation[far] = (features[:, far] / largest[far]).std(axis=0) * largest[far]
        varies = deviation > 1e-12 * largest  # what is left of a constant column is rounding
        factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
        return cls(mean, factor)

    @classmethod
    def identity(cls, columns: int) -> Scaler:
        return cls(np.zeros(columns), np.ones(columns))

    def apply(self, features: Floats) -> Floats:
        return (features - self.mean) * self.factor


@dataclass(frozen=True, slots=True)
class Target:
    """The scale on which a number is learned, fitted on training rows: there it lies in [-1/2, 1/2] around its mean."""

    mean: float
    unit: float

    @classmethod
    def fit(cls, labels: Floats) -> Target:
        if labels.min() == labels.max():
            return cls(float(labels[0]), 1.0)  # what is left of their deviations would be rounding
        mean = float(labels.mean())
        unit = 2 * float(np.abs(labels - mean).max())
        if not np.isfinite(unit):
            raise ValueError("labels reach beyond what can be added up: give them in another unit")
        return cls(mean, unit)

    def scaled(self, labels: Floats) -> Floats:
        return (labels - self.mean) / self.unit

    def original(self, scores: Floats) -> Floats:
        """Scores in the unit of the labels."""
        return self.mean + self.unit * scores


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """One party's part of a trained model.

    Args:
        weights: (columns, K).
        session: which training it comes from; parts of different trainings do not fit together.
        intercept: (K,) at the active; zeros at a passive.
        classes: their names at the active, in the order of their codes; none at a passive or of a linear model.
        target: at the active, of a linear model.
    """

    weights: Floats
    scaler: Scaler
    session: bytes
    intercept: Floats
    classes: tuple[str, ...] = ()
    target: Target | None = None

    @property
    def outputs(self) -> int:
        return int(self.weights.shape[1])

    def score(self, features: Floats) -> Floats:
        """This party's part of each row's scores, (rows, K).

        Guarantee: those of a row are the same to the last bit, whichever rows are scored with it. A product of matrices
            is not: how it adds up depends on their sizes. Sums along a contiguous last axis are, row by row.
        """
        scaled = self.scaler.apply(features)
        parts = [np.add.reduce(np.multiply(scaled, column, order="C"), axis=1) for column in self.weights.T]
        return np.stack(parts, axis=1) + self.intercept

    def state(self) -> dict[str, Any]:
        """All of it as arrays, for a file; `classes` as JSON in bytes."""
        found = {
            "weights": self.weights,
            "intercept": self.intercept,
            "mean": self.scaler.mean,
            "factor": self.scaler.factor,
            "session": np.frombuffer(self.session, dtype=np.uint8).copy(),
        }
        if self.classes:
            found["classes"] = np.frombuffer(json.dumps(self.classes).encode(), dtype=np.uint8).copy()
        if self.target is not None:
            found["target"] = np.array([self.target.mean, self.target.unit])
        return found

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Model:
        """What `state` gave; ValueError for anything else."""
        if absent := [name for name in ("weights", "intercept", "mean", "factor", "session") if name not in state]:
            raise ValueError(f"the stored model has no {', '.join(absent)}: the file is damaged, or of another release")
        weights, intercept, mean, factor = (
            np.asarray(state[name], dtype=np.float64) for name in ("weights", "intercept", "mean", "factor")
        )
        columns, outputs = weights.shape if weights.ndim == 2 else (0, 0)
        if outputs < 1 or not mean.shape == factor.shape == (columns,) or intercept.shape != (outputs,):
            raise ValueError(
                f"a model with weights of {weights.shape}, an intercept of {intercept.shape} and a scaler of "
                f"{mean.shape}: the file is damaged, or of another release"
            )
        if not all(np.isfinite(each).all() for each in (weights, intercept, mean, factor)):
            raise ValueError(
                "the stored model has numbers that are not finite: the training diverged, or it is damaged"
            )
        session = np.asarray(state["session"], dtype=np.uint8).tobytes()
        classes = _classes(state["classes"], outputs) if "classes" in state else ()
        target = _target(state["target"]) if "target" in state else None
        return cls(weights, Scaler(mean, factor), session, intercept, classes, target)


def _classes(stored: Any, outputs: int) -> tuple[str, ...]:
    try:
        found = msgspec.json.decode(np.asarray(stored, dtype=np.uint8).tobytes(), type=list[str])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError("the classes of the stored model are damaged: take it from a copy") from error
    if len(found) != (outputs if outputs > 1 else 2):
        raise ValueError(f"a model of {outputs} outputs with {len(found)} classes: the file is damaged")
    return tuple(found)


def _target(stored: Any) -> Target:
    numbers = np.asarray(stored, dtype=np.float64)
    if numbers.shape != (2,) or not np.isfinite(numbers).all():
        raise ValueError("the mean and unit of the label in the stored model are damaged: take it from a copy")
    return Target(*map(float, numbers))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """A training after some epochs, at one party."""

    epoch: int  # finished
    weights: Floats  # (columns, K)
    intercept: Floats  # (K,)
    best_weights: Floats
    best_intercept: Floats
    best_loss: float = np.inf  # only the active knows it
    best_scores: Floats = field(default_factory=lambda: np.empty((0, 1)))  # at the active: of the rows it is judged on
    waited: int = 0  # epochs since then
    stopped: bool = False  # early

    @classmethod
    def start(cls, columns: int, outputs: int = 1) -> TrainingState:
        weights, intercept = np.zeros((columns, outputs)), np.zeros(outputs)
        return cls(0, weights, intercept, weights, intercept, best_scores=np.empty((0, outputs)))

    def next(
        self,
        weights: Floats,
        intercept: Floats,
        *,
        best: bool,
        last: bool,
        loss: float | None = None,
        scores: Floats | None = None,
    ) -> TrainingState:
        """One epoch later. `loss` and `scores`: of the rows that the active judges by."""
        moved = replace(self, epoch=self.epoch + 1, weights=weights.copy(), intercept=intercept.copy(), stopped=last)
        if not best:
            return replace(moved, waited=self.waited + 1)
        return replace(
            moved,
            best_weights=moved.weights,
            best_intercept=moved.intercept,
            best_loss=np.inf if loss is None else loss,
            best_scores=self.best_scores if scores is None else scores.copy(),
            waited=0,
        )

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> TrainingState:
        names = ("weights", "intercept", "best_weights", "best_intercept", "best_scores")
        if missing := [name for name in names if np.ndim(state.get(name, 0.0)) != (1 if "intercept" in name else 2)]:
            raise ValueError(
                f"the stored training has no {missing[0]} of this release: it was stopped by another one, or its file "
                "is damaged: start all parties anew"
            )
        return cls(
            epoch=int(state["epoch"]),
            **{name: np.asarray(state[name], dtype=np.float64) for name in names},
            best_loss=float(state["best_loss"]),
            waited=int(state["waited"]),
            stopped=bool(state["stopped"]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """The last two epochs of a training: the steps in a party's journal belong to one of them."""

    session: bytes
    scaler: Scaler
    now: TrainingState
    before: TrainingState
    begun: int = 0  # steps that each row was part of, those that were repeated with other content included
    classes: tuple[str, ...] = ()  # at the active
    target: Target | None = None  # at the active
    offsets: Floats = field(default_factory=lambda: np.empty((0, 1)))  # at the active: secret, (rows, K), for good

    @classmethod
    def start(
        cls,
        session: bytes,
        scaler: Scaler,
        outputs: int = 1,
        classes: tuple[str, ...] = (),
        target: Target | None = None,
        offsets: Floats | None = None,
    ) -> Saved:
        progress = TrainingState.start(len(scaler.mean), outputs)
        secret = np.empty((0, outputs)) if offsets is None else offsets
        return cls(session, scaler, progress, progress, classes=classes, target=target, offsets=secret)

    @property
    def outputs(self) -> int:
        return int(self.now.weights.shape[1])

    @property
    def best(self) -> Model:
        """This party's part with the weights that are kept so far."""
        now = self.now
        return Model(now.best_weights, self.scaler, self.session, now.best_intercept, self.classes, self.target)

    def at(self, epoch: int) -> Saved:
        """The training after so many epochs; PeerError if that is not known any more."""
        for progress in (self.now, self.before):
            if progress.epoch == epoch:
                return replace(self, now=progress, before=progress)
        raise PeerError(
            f"the other parties resume after epoch {epoch}, and this party has stored only epochs {self.before.epoch} "
            f"and {self.now.epoch}: start a new run at every party"
        )

    def then(self, progress: TrainingState, uses: int) -> Saved:
        """One epoch later, in which each row was part of so many steps in all."""
        return replace(self, now=progress, before=self.now, begun=uses)

    def state(self) -> dict[str, Any]:
        return {
            "session": self.session.hex(),
            "mean": self.scaler.mean,
            "factor": self.scaler.factor,
            "now": self.now.state(),
            "before": self.before.state(),
            "begun": self.begun,
            "classes": list(self.classes),
            "target": None if self.target is None else [self.target.mean, self.target.unit],
            "offsets": self.offsets,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Saved:
        return cls(
            session=bytes.fromhex(state["session"]),
            scaler=Scaler(np.asarray(state["mean"], dtype=np.float64), np.asarray(state["factor"], dtype=np.float64)),
            now=TrainingState.restore(state["now"]),
            before=TrainingState.restore(state["before"]),
            begun=int(state["begun"]),
            classes=tuple(state["classes"]),
            target=None if state["target"] is None else Target(*state["target"]),
            offsets=np.asarray(state.get("offsets", np.empty((0, 1))), dtype=np.float64),
        )


def as_features(values: Any, name: str = "features") -> Floats:
    """A table of finite numbers, rows first; it may have no columns."""
    array = np.asarray(values, dtype=np.float64) if np.size(values) == 0 else as_finite(values, name)
    if array.ndim != 2 or len(array) == 0:
        raise ValueError(f"{name} must be a table of rows and columns with at least one row, got shape {array.shape}")
    return array
