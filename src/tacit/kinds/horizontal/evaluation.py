"""Judging a model without labels by the clusters of what clients infer.

A client infers on the model that it received, before it trains. Its vectors of probabilities travel with its update, as
they are or with noise (see `protections`). Once those of `cluster_client_num` clients arrived, the coordinator labels
each vector by its largest entry and scores the clusters.

    on_simplex                      at the client
    Clusters.add, Clusters.score    at the coordinator
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PeerError
from tacit.fixedpoint import Floats
from tacit.kinds.horizontal.settings import Settings, Unsupervised

_SCORING = 14  # what a seed is for: see `sampling.SAMPLING`
_NEAR = 1e-3  # how far from 1 a sum of probabilities in the clear may be


def on_simplex(rows: Any, count: int, classes: int) -> Floats | None:
    """Exactly `count` rows of probabilities, the first ones again where there are fewer; None where that is impossible.

    The number is fixed so that it tells nothing about how much a client has.
    """
    try:
        array = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if array.ndim != 2 or array.shape[1] != classes or len(array) == 0 or not np.isfinite(array).all():
        return None
    array = np.maximum(np.resize(array[:count], (count, classes)), 0.0)
    with np.errstate(over="ignore"):
        totals = array.sum(axis=1, keepdims=True)
    if not (totals > 0).all() or not np.isfinite(totals).all():
        return None
    return np.asarray(array / totals)


@dataclass(frozen=True, slots=True)
class Score:
    """How well the vectors fall into clusters, or why that cannot be said."""

    value: float | None
    reason: str = ""
    clients: int = 0
    vectors: int = 0
    clusters: int = 0


class Clusters:
    """The inference vectors of one round."""

    def __init__(self, settings: Settings, classes: int) -> None:
        if settings.unsupervised is None:
            raise ValueError("nothing is evaluated: unsupervised is not set")
        self._unsupervised: Unsupervised = settings.unsupervised
        self._classes = classes
        self._seed = settings.seed
        self._largest = settings.vectors.largest(settings)
        self._rows: dict[int, NDArray[np.float64]] = {}
        self._malformed: set[int] = set()

    @property
    def complete(self) -> bool:
        """Whether enough clients sent theirs: further ones are not needed."""
        return len(self._rows) >= self._unsupervised.cluster_client_num

    def add(self, client: int, vectors: object) -> int:
        """Take a client's vectors, of so many bytes, or refuse them. A second set of one client is refused too."""
        if client in self._rows or client in self._malformed:
            raise PeerError("inference vectors for the second time")
        try:
            self._rows[client] = self._checked(vectors)
        except PeerError:
            self._malformed.add(client)
            raise
        return self._rows[client].nbytes

    def _checked(self, vectors: object) -> NDArray[np.float64]:
        due = (self._unsupervised.vectors, self._classes)
        if type(vectors) is not np.ndarray or vectors.dtype != np.float64 or vectors.shape != due:
            raise PeerError(f"inference vectors that are not {due[0]} of {due[1]} numbers")
        if self._largest is None:
            fine = (vectors >= 0).all() and (np.abs(vectors.sum(axis=1) - 1) < _NEAR).all()
        else:
            fine = (np.abs(vectors) <= self._largest).all()
        if not fine:  # NaN is not
            raise PeerError("inference vectors that no model and no noise could give")
        return vectors.copy()

    def score(self) -> Score:
        """By the metric of the file, on at most `largest_score` vectors."""
        wanted = self._unsupervised
        clients = len(self._rows)
        if not self.complete:
            bad = f", and {len(self._malformed)} malformed ones" if self._malformed else ""
            return Score(None, f"{clients} of {wanted.cluster_client_num} clients sent usable vectors{bad}", clients)
        rows = np.concatenate([self._rows[client] for client in sorted(self._rows)])
        if len(rows) > wanted.largest_score:
            draw = np.random.default_rng([self._seed, _SCORING])
            rows = rows[np.sort(draw.choice(len(rows), wanted.largest_score, replace=False))]
        labels = rows.argmax(axis=1)
        clusters = len(np.unique(labels))
        if clusters == 1:
            return Score(None, "all vectors are in one cluster", clients, len(rows), clusters)
        if clusters == len(rows):
            return Score(None, f"{clusters} vectors, each in a cluster of its own", clients, len(rows), clusters)
        value = _metric(wanted.eval_type, rows, labels)
        if not np.isfinite(value):
            return Score(None, "the clusters are points: the score is infinite", clients, len(rows), clusters)
        return Score(value, "", clients, len(rows), clusters)


def _metric(eval_type: str, rows: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    from sklearn import metrics

    with np.errstate(divide="ignore", invalid="ignore"):
        match eval_type:
            case "SILHOUETTE_SCORE":
                return float(metrics.silhouette_score(rows, labels))
            case "CALINSKI_HARABASZ_SCORE":
                return float(metrics.calinski_harabasz_score(rows, labels))
            case "DAVIES_BOULDIN_SCORE":
                return float(metrics.davies_bouldin_score(rows, labels))
    raise ValueError(f"eval_type {eval_type!r} is not known")


def numbers_of(metrics: object) -> dict[str, float]:
    """What a task's `evaluate` returned."""
    if not isinstance(metrics, dict):
        raise TypeError(f"evaluate() must return a dict of numbers, got {type(metrics).__name__}")
    for name, value in metrics.items():
        if not isinstance(value, int | float | np.number):
            raise TypeError(f"evaluate() must return numbers, and {name!r} is {type(value).__name__}")
    return {str(name): float(value) for name, value in metrics.items()}
