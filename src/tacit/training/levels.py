"""A noise that falls over the steps moves in levels: each is one line of the ledger, and exactly what is drawn.

The seed's formulas give a multiplier for each step. A step takes the lowest level that is at least its multiplier, so
the noise is never below the formula, and what is accounted for is what is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from tacit.dp.gaussian import least
from tacit.dp.schedules import NoiseDecay

_MOST_LEVELS = 16
_LEAST_RATIO = 2 ** (1 / 8)  # between neighbouring levels: at most 9.1% more noise than the formula asks for
_LARGEST_FALL = 1e6  # from the first level to the last
_ORDERS = 96  # of `whole_order_epsilon`


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of each step, over the first: `ratio` to the power of minus a whole number."""

    decay: NoiseDecay  # of an initial noise of 1
    steps: int

    @property
    def ratio(self) -> float:
        fall = 1 / self.decay.at(max(0, self.steps - 1))
        if fall > _LARGEST_FALL:
            raise ValueError(
                f"rate {self.decay.rate:g} lets the noise fall by a factor of {fall:.3g} over {self.steps} steps, at "
                f"most {_LARGEST_FALL:g} is accounted for: take a lower rate"
            )
        return max(_LEAST_RATIO, math.exp(math.log(fall) / _MOST_LEVELS))

    def power(self, step: int) -> int:
        """How many levels `step` is below the first."""
        return math.floor(-math.log(self.decay.at(step)) / math.log(self.ratio) + 1e-9)

    def at(self, step: int) -> float:
        return float(self.ratio ** -self.power(step))

    def counts(self, steps: int) -> list[tuple[float, int]]:
        """Each level of the first `steps` steps with how many of them it has."""
        found: list[tuple[float, int]] = []
        done = 0
        while done < steps:
            power = self.power(done)
            low, high = done, steps - 1  # the last step on this level, by bisection: levels only fall
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if self.power(middle) == power else (low, middle - 1)
            found.append((self.ratio**-power, low + 1 - done))
            done = low + 1
        return found


def calibrate(cost: Callable[[float], float], estimate: Callable[[float], float], epsilon: float) -> float:
    """An initial noise whose `cost` is at most `epsilon`, mostly within 1% of the least.

    `cost` takes seconds: `estimate`, an upper bound that is close to it, is solved instead, for an epsilon that is
    raised by as much as it is too careful.
    """
    aim, found = epsilon, math.inf
    for _ in range(4):
        tried = least(lambda initial, aim=aim: estimate(initial) <= aim, 1e-4)  # type: ignore[misc]
        spent = cost(tried)
        if spent <= epsilon:
            found = min(found, tried)
            if spent >= 0.99 * epsilon:
                break
        aim *= 0.998 * epsilon / max(spent, 1e-12)
    while math.isinf(found):
        tried *= 1.02
        found = tried if cost(tried) <= epsilon else math.inf
    return found


def whole_order_epsilon(lines: Iterable[tuple[float, int]], probability: float, delta: float) -> float:
    """What Gaussian steps on Poisson samples cost, (multiplier, count) each: Renyi's bound at whole orders only.

    Source: Mironov, Talwar, Zhang 2019, section 3.3; converted by Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    whole = np.arange(_ORDERS + 1)
    orders = whole[2:, None]
    logs = gammaln(orders + 1) - gammaln(whole + 1) - gammaln(np.maximum(orders - whole, 0) + 1)
    logs = logs + whole * math.log(probability) + (orders - whole) * math.log1p(-probability)
    logs[whole > orders] = -np.inf
    moments = sum(
        count * logsumexp(logs + (whole**2 - whole) / (2 * multiplier**2), axis=1) for multiplier, count in lines
    )
    excess = orders[:, 0] - 1
    found = (moments - math.log(delta) - np.log(excess + 1)) / excess + np.log1p(-1 / (excess + 1))
    return max(0.0, float(found.min()))
