"""What a protected release is: a value and the event that says what was done to protect it.

An event records the mechanism, not its price: `accounting` prices it. It names the `unit` that is protected (one
record, client, vector or label) and the neighbouring `relation` that its sensitivity was computed for. Noise
multipliers are always noise over sensitivity *under that relation*: for replace-one with clipping norm C, sigma / 2C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

import numpy as np

Unit = Literal["record", "client", "vector", "label"]
Relation = Literal["replace-one", "add-remove", "zero-out"]

T = TypeVar("T")


_NUMBERS = (int, float, np.integer, np.floating)


def check_positive(name: str, value: object) -> None:
    if not (isinstance(value, _NUMBERS) and 0 < value < math.inf):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")


def check_delta(delta: object) -> None:
    if not (isinstance(delta, _NUMBERS) and 0 < delta < 1):
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")


def check_choice(name: str, value: str, choices: object) -> None:
    known = get_args(choices)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


@dataclass(frozen=True, slots=True)
class PureEvent:
    """An epsilon-DP mechanism: Laplace, randomized response. Epsilon 0 releases nothing."""

    epsilon: float
    unit: Unit
    relation: Relation

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon must be finite and at least 0, got {self.epsilon!r}")
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Gaussian noise of `noise_multiplier` times the sensitivity, on a Poisson sample if `sampling_probability` < 1.

    `log2_slack`: log2 of the statistical distance between what was drawn and a function of such a release, summed over
    the draws; None where there is none.
    """

    noise_multiplier: float
    unit: Unit
    relation: Relation
    sampling_probability: float = 1.0
    log2_slack: float | None = None

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.sampling_probability <= 1:
            raise ValueError(f"sampling_probability must be in (0, 1], got {self.sampling_probability!r}")
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)
        if self.sampling_probability < 1 and self.relation == "replace-one":
            raise ValueError("Poisson sampling is accounted for add-remove or zero-out, not for replace-one")


@dataclass(frozen=True, slots=True)
class ConcentratedEvent:
    """A rho-zCDP mechanism that is not close to a Gaussian one: discrete Gaussian noise of a few grid steps."""

    rho: float
    unit: Unit
    relation: Relation
    log2_slack: float | None = None

    def __post_init__(self) -> None:
        check_positive("rho", self.rho)
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)


@dataclass(frozen=True, slots=True)
class SkellamEvent:
    """Skellam noise of `variance` on an integer vector of the given sensitivities."""

    variance: float
    l2_sensitivity: float
    l1_sensitivity: float
    unit: Unit
    relation: Relation
    log2_slack: float | None = None

    def __post_init__(self) -> None:
        check_positive("variance", self.variance)
        check_positive("l2_sensitivity", self.l2_sensitivity)
        check_positive("l1_sensitivity", self.l1_sensitivity)
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)


Event = PureEvent | GaussianEvent | ConcentratedEvent | SkellamEvent


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """A protected value and what its protection was. `Ledger.release` hands out the value once it is paid for."""

    value: T
    event: Event
