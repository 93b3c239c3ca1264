"""The shape of every result of the audit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.audit.tradeoff import CurveTest
from tacit.dp.claim import Claim

Images = NDArray[Any]  # [number, height, width], from 0 to 1


def rounded_down(value: float, digits: int) -> float:
    """With so many significant digits, and never above: a lower bound must stay one when it is told."""
    if value <= 0 or not math.isfinite(value):
        return value
    shown = float(f"{value:.{digits}g}")
    if shown <= value:
        return shown
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{shown - step:.{digits}g}")


@dataclass(frozen=True, slots=True)
class LowerBound:
    """With probability `confidence` over the samples, no smaller epsilon holds at `delta`."""

    epsilon: float
    delta: float
    confidence: float
    method: str
    samples: int  # releases, or guesses, that it was computed from
    assumes: str = ""  # beyond (epsilon, delta): what the kind of claim says of the whole trade-off curve

    def __str__(self) -> str:
        return (
            f"epsilon is at least {rounded_down(self.epsilon, 4):g} at delta {self.delta:.3g}, with "
            f"{self.confidence:.4g} confidence ({self.method}, {self.samples} samples)"
        )


@dataclass(frozen=True, slots=True)
class Score:
    """How well an attack did, and the score of a guess without any information."""

    metric: str
    value: float
    low: float
    high: float
    confidence: float  # of the interval from low to high
    baseline: float  # the same metric without any information
    trials: int
    smaller_is_worse: bool = False  # for the attacker a large value is a success, unless it is an error

    @property
    def informative(self) -> bool:
        """Whether the interval lies on the attacker's side of the baseline."""
        return self.high < self.baseline if self.smaller_is_worse else self.low > self.baseline

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.value:.3g} ({self.low:.3g} to {self.high:.3g} at {100 * self.confidence:g}%; "
            f"{self.baseline:.3g} without information)"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Originals and their reconstructions, in the same order."""

    originals: Images
    off: Images | None = None
    on: Images | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a protection costs in utility."""

    metric: str
    off: float
    on: float


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What one attack found."""

    attack: str
    adversary: str  # a role: server, active, passive, leader, follower, network
    sees: str
    protection: str
    proved: Claim | None = None
    audited: LowerBound | None = None
    off: Score | None = None
    on: Score | None = None
    also: tuple[tuple[Score | None, Score], ...] = ()  # off and on by other metrics
    pictures: Pictures | None = None
    cost: Cost | None = None
    not_tested: tuple[str, ...] = ()
    curve: CurveTest | None = None  # of the claim's whole trade-off curve
    broken: tuple[str, ...] = ()  # rules of the protocol that were seen broken: no chance is involved
    watched: int = 0  # how often a rule could have been broken; 0 where none was watched

    def __post_init__(self) -> None:
        if self.proved and self.audited and self.audited.delta < self.proved.delta:
            raise ValueError(
                f"the bound is for delta {self.audited.delta:.3g}, the claim for {self.proved.delta:.3g}: only a bound "
                "at the claim's delta or a larger one can refute it"
            )

    @property
    def refuted(self) -> bool:
        """Whether the claim, or the code, is wrong: the audited bound is above what is proved, or an attack made fewer
        errors than the claim's trade-off curve allows, or a rule was broken."""
        above = self.proved is not None and self.audited is not None and self.audited.epsilon > self.proved.epsilon
        return above or (self.curve is not None and self.curve.refuted) or bool(self.broken)

    @property
    def failure(self) -> float:
        """The probability that a true claim is refuted here."""
        return sum(1 - made.confidence for made in (self.audited, self.curve) if made is not None)

    def __str__(self) -> str:
        verdict = [f"{self.attack}, {self.adversary}, against {self.protection}: proved {self.proved or 'nothing'}"]
        if self.audited is not None:
            verdict.append(str(self.audited))
        if self.curve is not None:
            verdict.append(str(self.curve))
        verdict += self.broken
        if self.refuted:
            verdict[-1] += ": THE CLAIM IS FALSE"
        verdict += [f"{word}: {score}" for word, score in (("off", self.off), ("on", self.on)) if score is not None]
        return "; ".join(verdict)
