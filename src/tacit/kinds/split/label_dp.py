"""LabelDP: each label is randomized once, before training; whatever is computed from it afterwards costs nothing more.

LabelDP(eps)(labels)                 binary labels: flip with 1 / (1 + e^eps)
LabelDP(eps)(labels, classes=10)     integer labels: keep with e^eps / (e^eps + k - 1), else one of the others
LabelDP(eps)(one_hot)                rows of one-hot labels, likewise
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.dp.mechanisms import k_ary_randomized_response
from tacit.dp.release import PureEvent, Released, check_epsilon
from tacit.kinds.split.embedding_dp import as_numpy


@dataclass(frozen=True, slots=True)
class LabelDP:
    """Randomized response on labels.

    Guarantee: eps-DP for each label, exactly, for everything that is computed from the randomized labels.
    Assumes: they are randomized once and kept; a second draw costs eps again.
    Source: Warner 1965; Kairouz, Oh, Viswanath 2014, section 4; for training, Ghazi, Golowich, Kumar, Manurangsi,
        Zhang 2021, Algorithm 1.
    """

    eps: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_epsilon(self.eps))

    def __call__(self, labels: Any, classes: int | None = None, rng: Generator | None = None) -> Any:
        """The randomized labels: numpy for numpy, torch for torch, in the same shape and dtype."""
        value = self.release(as_numpy(labels), classes, rng).value
        return value if not hasattr(labels, "detach") else labels.new_tensor(value)

    def release(
        self, labels: NDArray[Any], classes: int | None = None, rng: Generator | None = None
    ) -> Released[NDArray[Any]]:
        """The randomized labels and the event, which is the price for each label.

        Args:
            labels: 0 and 1; whole numbers below `classes`; or, with two axes and no `classes`, rows of one-hot labels.
        """
        if labels.ndim == 2 and labels.shape[1] > 1 and classes is None:
            return self._one_hot(labels, rng)
        whole = _whole_numbers(labels)
        released = k_ary_randomized_response(whole, k=classes or 2, epsilon=self.eps, rng=rng)
        return Released(released.value.astype(labels.dtype), released.event)

    @property
    def event(self) -> PureEvent:
        return PureEvent(self.eps, unit="label", relation="replace-one")

    def _one_hot(self, labels: NDArray[Any], rng: Generator | None) -> Released[NDArray[Any]]:
        if ((labels != 0) & (labels != 1)).any() or (np.count_nonzero(labels, axis=1) != 1).any():
            raise ValueError("labels with two axes must be one-hot rows: pass `classes` for whole numbers in rows")
        count = labels.shape[1]
        released = k_ary_randomized_response(labels.argmax(axis=1), k=count, epsilon=self.eps, rng=rng)
        return Released(np.eye(count, dtype=labels.dtype)[released.value], released.event)


def _whole_numbers(labels: NDArray[Any]) -> NDArray[np.int64]:
    whole = labels.astype(np.int64)
    if not np.array_equal(whole, labels):
        raise ValueError("labels must be whole numbers, and 0 and 1 if `classes` is not given")
    return whole
