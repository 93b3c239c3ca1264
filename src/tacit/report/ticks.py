"""Where an axis has its ticks, and their labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.report.numbers import short

_TINY = 1e-280  # a fraction of it might be 0


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of numbers on a line of pixels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    log: bool = False

    def part(self, value: float) -> float:
        """How far along the axis a value lies: 0 at its low end, 1 at its high end."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)


def linear(low: float, high: float, *, count: int = 5, whole: bool = False, rounded: bool = True) -> Axis:
    """About `count` ticks at round numbers. `rounded`: the axis begins and ends at ticks; `whole`: at no fractions."""
    largest = max(abs(low), abs(high))
    if high - low <= max(1e-9 * largest, _TINY):
        padding = 1.0 if whole or largest <= _TINY else 0.1 * largest
        low, high = low - padding, high + padding
    step = _step((high - low) / count, whole)
    if rounded:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Axis(low, high, ticks, tuple(_label(tick, step, max(abs(low), abs(high))) for tick in ticks))


def logarithmic(low: float, high: float) -> Axis:
    """Ticks at powers of ten, with 2 and 5 between them where there are few. All values are above 0."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    between = (1, 2, 5) if last - first <= 2 else (1,)
    every = max(1, math.ceil((last - first) / 6))
    ticks = [10.0**power * factor for power in range(first, last + 1, every) for factor in between]
    low, high = 10.0**first, 10.0**last
    kept = tuple(tick for tick in ticks if low <= tick <= high * (1 + 1e-9))
    return Axis(low, high, kept, tuple(short(tick) for tick in kept), log=True)


def _step(least: float, whole: bool) -> float:
    if whole and least <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    factors = (1, 2, 5, 10) if whole and power < 10 else (1, 2, 2.5, 5, 10)
    return next(power * factor for factor in factors if power * factor >= least * (1 - 1e-9))


def _label(tick: float, step: float, largest: float) -> str:
    if largest >= 10**6 or largest < 1e-3:
        return short(tick, 3)
    decimals = next((count for count in range(8) if abs(step * 10**count - round(step * 10**count)) < 1e-6), 8)
    return f"{tick + 0.0:,.{decimals}f}".replace("-", "−")
