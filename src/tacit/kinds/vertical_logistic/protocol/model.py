"""What a party keeps: its own weights and scaler, and how far a training has come. Nobody holds the whole model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

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
        mean = features.mean(axis=0)
        deviation = features.std(axis=0)
        varies = deviation > 1e-12 * np.maximum(1.0, np.abs(mean))  # what is left of a constant column is rounding
        factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
        return cls(mean, factor)

    @classmethod
    def identity(cls, columns: int) -> Scaler:
        return cls(np.zeros(columns), np.ones(columns))

    def apply(self, features: Floats) -> Floats:
        return (features - self.mean) * self.factor


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """One party's part of a trained model.

    Args:
        intercept: at the active; 0 at a passive.
        session: which training it comes from; parts of different trainings do not fit together.
    """

    weights: Floats
    scaler: Scaler
    session: bytes
    intercept: float = 0.0

    def score(self, features: Floats) -> Floats:
        """This party's part of each row's score."""
        return self.scaler.apply(features) @ self.weights + self.intercept

    def state(self) -> dict[str, Any]:
        """All of it as arrays, for a file."""
        return {
            "weights": self.weights,
            "intercept": np.array([self.intercept]),
            "mean": self.scaler.mean,
            "factor": self.scaler.factor,
            "session": np.frombuffer(self.session, dtype=np.uint8).copy(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Model:
        weights, mean, factor = (np.asarray(state[name], dtype=np.float64) for name in ("weights", "mean", "factor"))
        if not weights.shape == mean.shape == factor.shape or weights.ndim != 1:
            raise ValueError(f"a model with {weights.shape} weights and a scaler of {mean.shape}: the file is damaged")
        session = np.asarray(state["session"], dtype=np.uint8).tobytes()
        return cls(weights, Scaler(mean, factor), session, float(np.asarray(state["intercept"])[0]))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """A training after some epochs, at one party."""

    epoch: int  # finished
    weights: Floats
    intercept: float
    best_weights: Floats
    best_intercept: float
    best_loss: float = np.inf  # only the active knows it
    waited: int = 0  # epochs since then
    stopped: bool = False  # early

    @classmethod
    def start(cls, columns: int) -> TrainingState:
        return cls(0, np.zeros(columns), 0.0, np.zeros(columns), 0.0)

    def next(
        self, weights: Floats, intercept: float, *, best: bool, last: bool, loss: float | None = None
    ) -> TrainingState:
        """One epoch later."""
        moved = replace(self, epoch=self.epoch + 1, weights=weights.copy(), intercept=intercept, stopped=last)
        if not best:
            return replace(moved, waited=self.waited + 1)
        kept = np.inf if loss is None else loss
        return replace(moved, best_weights=weights.copy(), best_intercept=intercept, best_loss=kept, waited=0)

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> TrainingState:
        return cls(
            epoch=int(state["epoch"]),
            weights=np.asarray(state["weights"], dtype=np.float64),
            intercept=float(state["intercept"]),
            best_weights=np.asarray(state["best_weights"], dtype=np.float64),
            best_intercept=float(state["best_intercept"]),
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

    @classmethod
    def start(cls, session: bytes, scaler: Scaler) -> Saved:
        progress = TrainingState.start(len(scaler.mean))
        return cls(session, scaler, progress, progress)

    def at(self, epoch: int) -> Saved:
        """The training after so many epochs; PeerError if that is not known any more."""
        for progress in (self.now, self.before):
            if progress.epoch == epoch:
                return replace(self, now=progress, before=progress)
        raise PeerError(
            f"the others go on after epoch {epoch}, and this party keeps only what it had after {self.before.epoch} "
            f"and {self.now.epoch}: start all of them anew"
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
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Saved:
        return cls(
            session=bytes.fromhex(state["session"]),
            scaler=Scaler(np.asarray(state["mean"], dtype=np.float64), np.asarray(state["factor"], dtype=np.float64)),
            now=TrainingState.restore(state["now"]),
            before=TrainingState.restore(state["before"]),
            begun=int(state["begun"]),
        )


def as_features(values: Any, name: str = "features") -> Floats:
    """A table of finite numbers, rows first; it may have no columns."""
    array = np.asarray(values, dtype=np.float64) if np.size(values) == 0 else as_finite(values, name)
    if array.ndim != 2 or len(array) == 0:
        raise ValueError(f"{name} must be a table of rows and columns with at least one row, got shape {array.shape}")
    return array


def as_labels(values: Any, rows: int) -> Floats:
    """Labels of two values as 0.0 and 1.0; the larger value is 1."""
    given = np.asarray(values)
    if given.shape != (rows,):
        raise ValueError(f"labels have the shape {given.shape}, and there are {rows} rows: give one for each")
    found = np.unique(given)
    if len(found) != 2:
        raise ValueError(f"labels have {len(found)} different values, logistic regression needs exactly 2")
    return np.where(given == found[1], 1.0, 0.0)
