"""What a protected release is: a value and the event that says what was done to protect it.

An event records the mechanism, not its price: `accounting` prices it. It names the `unit` that is protected (one
record, owner of records, client, vector or label) and the neighbouring `relation` that its sensitivity was computed
for. Noise multipliers are always noise over sensitivity *under that relation*: for replace-one with clipping norm C,
sigma / 2C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

import numpy as np

__all__ = [
    "ConcentratedEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "PureEvent",
    "Relation",
    "Released",
    "SkellamEvent",
    "Unit",
]

Unit = Literal["record", "owner", "client", "vector", "label"]
Relation = Literal["replace-one", "add-remove", "zero-out"]

T = TypeVar("T")


LARGEST = 1e100  # of any epsilon, multiplier or sensitivity: sums of a few stay finite


def number(value: object) -> float:
    """`value` as a Python float, NaN if it is no real number: arithmetic on numpy scalars may wrap or round."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_positive(name: str, value: object) -> float:
    found = number(value)
    if not 1 / LARGEST <= found <= LARGEST:
        hint = "" if not 0 < found < math.inf else f", from {1 / LARGEST:g} to {LARGEST:g}"
        raise ValueError(f"{name} must be a finite number above 0{hint}, got {value!r}")
    return found


def check_epsilon(value: object) -> float:
    """An epsilon that may be 0."""
    found = number(value)
    if not 0 <= found <= LARGEST:
        raise ValueError(f"epsilon must be finite and at least 0, got {value!r}")
    return found


def check_delta(delta: object) -> float:
    found = number(delta)
    if not 1e-290 <= found < 1:
        hint = " and at least 1e-290" if 0 < found < 1 else ""
        raise ValueError(f"delta must be in (0, 1){hint}, got {delta!r}")
    return found


def check_slack(log2_slack: object) -> float | None:
    if log2_slack is None:
        return None
    found = number(log2_slack)
    if math.isnan(found) or found > 0:
        raise ValueError(f"log2_slack must be a number of at most 0, got {log2_slack!r}")
    return found


def check_choice(name: str, value: str, choices: object) -> None:
    known = get_args(choices)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def _set(event: object, **fields: object) -> None:
    """Give a frozen event its checked values, while it is made."""
    for name, value in fields.items():
        object.__setattr__(event, name, value)


def _check_sampling(probability: object, relation: str) -> float:
    found = number(probability)
    if not 0 < found <= 1:
        raise ValueError(f"sampling_probability must be in (0, 1], got {probability!r}")
    if found < 1 and relation == "replace-one":
        raise ValueError("Poisson sampling is accounted for add-remove or zero-out, not for replace-one")
    return found


@dataclass(frozen=True, slots=True)
class PureEvent:
    """An epsilon-DP mechanism: randomized response, a single Laplace release. Epsilon 0 releases nothing."""

    epsilon: float
    unit: Unit
    relation: Relation

    def __post_init__(self) -> None:
        _set(self, epsilon=check_epsilon(self.epsilon))
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Laplace noise of `noise_multiplier` times the L1 sensitivity, on a Poisson sample if its probability is < 1."""

    noise_multiplier: float
    unit: Unit
    relation: Relation
    sampling_probability: float = 1.0

    def __post_init__(self) -> None:
        _set(self, noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier))
        _set(self, sampling_probability=_check_sampling(self.sampling_probability, self.relation))
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)

    @property
    def epsilon(self) -> float:
        """What it costs at delta = 0: log(1 + q (e^(1 / multiplier) - 1)).

        Source: Balle, Barthe, Gaboardi 2018, Theorem 8 with delta = 0; tight for pure DP.
        """
        epsilon, q = 1 / self.noise_multiplier, self.sampling_probability
        if q == 1:
            return epsilon
        if epsilon > 500:  # e^epsilon leaves the floats: what is left of 1 - q counts for nothing
            return epsilon + math.log(q) + 1e-9
        return math.log1p(q * math.expm1(epsilon)) * (1 + 1e-15)


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Gaussian noise of `noise_multiplier` times the sensitivity, on a Poisson sample if `sampling_probability` < 1.

    `log2_slack`: log2 of the statistical distance between what was drawn and a function of such a release, summed over
    the draws; None if there is none.
    """

    noise_multiplier: float
    unit: Unit
    relation: Relation
    sampling_probability: float = 1.0
    log2_slack: float | None = None

    def __post_init__(self) -> None:
        _set(self, noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier))
        _set(self, sampling_probability=_check_sampling(self.sampling_probability, self.relation))
        _set(self, log2_slack=check_slack(self.log2_slack))
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)


@dataclass(frozen=True, slots=True)
class ConcentratedEvent:
    """A rho-zCDP mechanism that is not close to a Gaussian one: discrete Gaussian noise of a few grid steps."""

    rho: float
    unit: Unit
    relation: Relation
    log2_slack: float | None = None

    def __post_init__(self) -> None:
        _set(self, rho=check_positive("rho", self.rho), log2_slack=check_slack(self.log2_slack))
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
        _set(self, variance=check_positive("variance", self.variance), log2_slack=check_slack(self.log2_slack))
        _set(self, l2_sensitivity=check_positive("l2_sensitivity", self.l2_sensitivity))
        _set(self, l1_sensitivity=check_positive("l1_sensitivity", self.l1_sensitivity))
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)


Event = PureEvent | LaplaceEvent | GaussianEvent | ConcentratedEvent | SkellamEvent


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """A protected value and what its protection was. `Ledger.release` hands out the value once it is paid for."""

    value: T
    event: Event
