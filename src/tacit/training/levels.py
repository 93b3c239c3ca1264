"""A noise that falls over the steps moves in levels: each is one line of the ledger, and exactly what is drawn.

The seed's formulas give a multiplier for each step. A step takes the lowest level that is at least its multiplier, so
the noise is never below the formula, and what is accounted for is what is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.dp.schedules import NoiseDecay

_MOST_LEVELS = 16
_LEAST_RATIO = 2 ** (1 / 8)  # between neighbouring levels: at most 9.1% more noise than the formula asks for
_LARGEST_FALL = 1e6  # from the first level to the last


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
