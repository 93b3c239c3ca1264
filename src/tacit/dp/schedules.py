"""How noise and clipping norms change over the steps of a run: known before it, or paid for within it.

`NoiseDecay` depends on the step only, so that the whole run can be accounted for in advance. `ClipAdaptation` follows
the data through a noisy fraction that the caller has released and paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tacit.dp.release import check_choice, check_positive

__all__ = ["ClipAdaptation", "NoiseDecay"]

Decay = Literal["Time", "Step", "Exp"]
Adaptation = Literal["Linear", "Geometric"]


@dataclass(frozen=True, slots=True)
class NoiseDecay:
    """A noise multiplier that falls from `initial` at step 0.

    Time: initial / (1 + rate t). Step: initial (1 - rate)^t. Exp: initial e^(-rate t).
    """

    initial: float
    kind: Decay
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", check_positive("initial", self.initial))
        check_choice("kind", self.kind, Decay)
        if not 0 <= self.rate < math.inf or (self.kind == "Step" and self.rate >= 1):
            bound = "in [0, 1)" if self.kind == "Step" else "finite and at least 0"
            raise ValueError(f"rate must be {bound} for {self.kind}, got {self.rate!r}")

    def at(self, step: int) -> float:
        """The multiplier of `step`, counted from 0."""
        if step < 0:
            raise ValueError(f"step must be at least 0, got {step}")
        match self.kind:
            case "Time":
                value = self.initial / (1 + self.rate * step)
            case "Step":
                value = self.initial * (1 - self.rate) ** step
            case "Exp":
                value = self.initial * math.exp(-self.rate * step)
        if value <= 0:
            raise ValueError(f"the noise has decayed to 0 at step {step}: take a rate below {self.rate!r}")
        return value


@dataclass(frozen=True, slots=True)
class ClipAdaptation:
    """Moves a clipping norm C towards the `quantile` of the norms.

    Linear: C - rate (fraction - quantile). Geometric: C e^(-rate (fraction - quantile)). `fraction` is the noisy share
    of norms that were at most C. The norm stays within [smallest, largest].
    Source: Andrew, Thakkar, McMahan, Ramaswamy 2021, section 2.
    """

    kind: Adaptation
    quantile: float
    rate: float
    smallest: float = 1e-6
    largest: float = 1e6

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, Adaptation)
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must be in (0, 1), got {self.quantile!r}")
        check_positive("rate", self.rate)
        check_positive("smallest", self.smallest)
        if not self.smallest < self.largest < math.inf:
            raise ValueError(f"largest must be above smallest = {self.smallest!r} and finite, got {self.largest!r}")

    def next(self, norm: float, fraction: float) -> float:
        """The norm after one in which the noisy `fraction` was unclipped (noise may push it outside [0, 1])."""
        check_positive("norm", norm)
        if not math.isfinite(fraction):
            raise ValueError(f"fraction must be finite, got {fraction!r}")
        excess = fraction - self.quantile
        match self.kind:
            case "Linear":
                moved = norm - self.rate * excess
            case "Geometric":
                moved = norm * math.exp(min(700.0, -self.rate * excess))
        return min(max(moved, self.smallest), self.largest)
