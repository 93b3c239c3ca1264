"""`SklearnTask`: a linear model of scikit-learn that learns by `partial_fit`, as a task of a federation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.tasks.client_data import data_of

_TRAVEL = ("coef_", "intercept_")


class SklearnTask:
    """A federation of linear models: SGDClassifier, SGDRegressor, Perceptron and others with `partial_fit`.

        task = tacit.SklearnTask(SGDClassifier, data, features=64, classes=range(10), evaluate=judge)

    `coef_` and `intercept_` travel, as float64. A client makes `train.epochs` passes over its records in each round.
    The learning rate is the estimator's own; a schedule of it counts the records of earlier rounds. `train.batch` and
    `train.learning_rate` have no effect.

    Args:
        model: returns an estimator that is not fitted yet.
        data: `data(client)`, or `data(client, clients)` to deal records out, returns features and targets.
        features: the number of columns.
        classes: all labels of a classifier, also those that a client does not have; None for a regressor.
        evaluate: `evaluate(estimator)` returns a dict of numbers, on the coordinator's own data.
        clients: the number of clients; the file's if the task is named by the file.
    """

    evaluate: Callable[[Arrays], dict[str, float]]  # only if an `evaluate` was given

    def __init__(
        self,
        model: Callable[[], Any],
        data: Callable[..., Any],
        *,
        features: int,
        classes: Sequence[Any] | None = None,
        evaluate: Callable[[Any], Mapping[str, Any]] | None = None,
        clients: int | None = None,
    ) -> None:
        self._given: dict[str, Any] = {"features": features, "classes": classes, "evaluate": evaluate}
        self._make = model
        self._data = data
        self._features = features
        self._classes = None if classes is None else np.asarray(list(classes))
        self._judge = evaluate
        self._clients = clients
        self._fresh: Any = None
        if evaluate is not None:
            self.evaluate = self._evaluate

    def __call__(self, clients: int, seed: int) -> SklearnTask:
        """The same task for a file: its number of clients."""
        return SklearnTask(self._make, self._data, clients=clients, **self._given)

    def model(self) -> Arrays:
        """Coefficients and intercepts of zero."""
        return {name: np.zeros_like(getattr(self._template(), name)) for name in _TRAVEL}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        """Passes over the client's records by `partial_fit`."""
        if work.train.proximal_mu:
            raise ValueError("train.proximal_mu is set, and partial_fit of scikit-learn has no such pull: leave it out")
        x, y = data_of(self._data, client, self._clients)
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y)
        if len(y) == 0:
            return Fitted({name: np.array(array) for name, array in model.items()}, 0)
        estimator = self.estimator(model)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=int(work.rng.integers(2**31)))
        if hasattr(estimator, "t_"):  # by which SGD lowers its learning rate
            estimator.t_ = 1.0 + float(work.round * work.train.epochs * len(y))
        for _ in range(work.train.epochs):
            order = work.rng.permutation(len(y)) if estimator.get_params().get("shuffle", True) else slice(None)
            estimator.partial_fit(x[order], y[order])
        return Fitted({name: np.array(getattr(estimator, name), dtype=np.float64) for name in _TRAVEL}, len(y))

    def estimator(self, model: Arrays) -> Any:
        """A new estimator with a model: `predict` and `score` work."""
        made = copy.deepcopy(self._template())
        for name in _TRAVEL:
            setattr(made, name, np.array(model[name], dtype=np.float64))
        return made

    def _evaluate(self, model: Arrays) -> dict[str, float]:
        found = self._judge(self.estimator(model)) if self._judge is not None else {}
        if not isinstance(found, Mapping):
            raise TypeError(f"evaluate(estimator) must return a dict of numbers, got {type(found).__name__}")
        return {name: float(value) for name, value in found.items()}

    def _template(self) -> Any:
        """An estimator that saw each class once, at zero, so that it has its shapes and its classes."""
        if self._fresh is None:
            from sklearn.base import is_classifier

            made = self._make()
            if not hasattr(made, "partial_fit"):
                raise ValueError(f"{type(made).__name__} has no partial_fit: take one such as SGDClassifier")
            if made.get_params().get("average", False):
                raise ValueError("average is set: a federation averages the models itself, leave it out")
            if self._classes is None:
                if is_classifier(made):
                    raise ValueError(f"{type(made).__name__} is a classifier: give all its classes, as in range(10)")
                made.partial_fit(np.zeros((1, self._features)), np.zeros(1))
            else:
                first = np.zeros((len(self._classes), self._features))
                made.partial_fit(first, self._classes, classes=self._classes)
            if not all(isinstance(getattr(made, name, None), np.ndarray) for name in _TRAVEL):
                raise ValueError(
                    f"{type(made).__name__} has no coef_ and intercept_ arrays: only linear models can travel"
                )
            self._fresh = made
        return self._fresh
