"""Privacy loss distributions on a grid, composed by Fourier transforms; every rounding is towards a larger loss.

    LossPair(q, loss range, masses)     the losses of one event: gaussian_pair, laplace_pair, response_pair
    compose(lines)                      -> Composed: epsilon(delta), delta(epsilon) of all events together

An event is a pair of distributions that dominates every pair of neighbouring inputs: for each epsilon its divergence
max(0, P - e^epsilon Q) is at least theirs. Pairs of adaptively chosen events compose as products (Zhu, Dong, Wang 2022,
Theorem 10). A pair (M, N) for a record in a Poisson sample, with and without it, becomes one for each record:
((1 - q) N + q M, N) if it is removed, the swapped pair if it is added (ibid., Theorem 11). The larger delta counts.

The mass of a loss between two grid points goes to both of them, so that the masses under P and under Q stay what they
are ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): delta is exact at the grid points and
above the truth between them. What lies beyond the grid counts as an infinite loss, or moves up to its lowest point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weighted = Sequence[tuple["LossPair", int]]

_ALLOWANCE = 1e-12  # of delta, for the rounding errors of Fourier transforms (seen: 1e-14), ...
_ALLOWANCE_A_STEP = 1e-16  # ... which powers multiply (seen: 2e-11 after a million steps)
LARGEST_LOSS = 650.0  # e^loss stays a float; far above it RDP is as good

_EXCESS = 3e-5  # of the variance of the losses that rounding may add: about as much of epsilon
_FINE = 8  # times the interval that adds so much: 0.2%
_DEVIATIONS = 9.6  # of a Gaussian loss that are on the grid: 4e-22 are beyond
_TAIL = 1e-15  # of the composed losses, beyond the window of the transform
_MOST_POINTS = 1 << 19  # of all grids together
_WIDEST = 1 << 21  # points of the window
_NEGLIGIBLE = -80.0  # log of a Fourier coefficient; two million of them are below 10^-28
_LEAST_MASS = 1e-40  # smaller ones are dropped, far within what is set aside for rounding errors: floats get slow
_COARSE = 513  # points for the moments from which the interval is chosen


@dataclass(frozen=True, slots=True)
class LossPair:
    """The losses log(M / N) of a record in the sample, and the probability of being in it."""

    probability: float
    low: float
    high: float
    masses: Callable[[Floats], tuple[Floats, Floats]]  # under N and M, in the intervals (t, next t]

    def sampled(self, loss: Floats) -> Floats:
        """log((1 - q) + q e^loss)."""
        q = self.probability
        if q == 1:
            return loss
        with np.errstate(over="ignore"):
            small = np.log1p(q * np.expm1(np.minimum(loss, 1.0)))
            large = loss + math.log(q) + np.log1p((1 - q) / q * np.exp(-np.maximum(loss, 1.0)))
        return np.where(loss <= 1, small, large)

    def unsampled(self, loss: Floats) -> Floats:
        """The inverse; -inf below log(1 - q)."""
        q = self.probability
        if q == 1:
            return loss
        with np.errstate(divide="ignore", invalid="ignore"):
            small = np.log1p(np.maximum(np.expm1(np.minimum(loss, 1.0)) / q, -1.0))
            large = loss - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(loss, 1.0)))
        return np.where(loss <= 1, small, large)

    def span(self) -> tuple[float, float]:
        """The least and the largest loss on the grid."""
        low, high = self.sampled(np.array([self.low, self.high]))
        return float(low), float(high)

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the loss for a record that is removed, roughly."""
        edges = np.linspace(self.low, self.high, _COARSE)
        below, above = self.masses(edges)
        mass = (1 - self.probability) * below + self.probability * above
        loss = self.sampled((edges[1:] + edges[:-1]) / 2)
        mean = float((mass * loss).sum())
        return mean, max(float((mass * (loss - mean) ** 2).sum()), 1e-300)


def gaussian_pair(multiplier: float, probability: float = 1.0) -> LossPair:
    """N(0, multiplier^2) and its shift by 1: the losses are normal with mean -/+ mu^2 / 2, variance mu^2."""
    mu = 1 / multiplier

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        return _normal_masses(edges / mu + mu / 2), _normal_masses(edges / mu - mu / 2)

    reach = mu * mu / 2 + _DEVIATIONS * mu
    return LossPair(probability, -reach, reach, masses)


def _normal_masses(edges: Floats) -> Floats:
    """Between neighbouring edges, from the tail that is the smaller one."""
    beyond = np.fromiter(map(math.erfc, np.abs(edges) / math.sqrt(2)), np.float64, len(edges)) / 2
    above = np.where(edges > 0, beyond, 1 - beyond)
    below = np.where(edges > 0, 1 - beyond, beyond)
    return np.asarray(np.where(edges[:-1] > 0, -np.diff(above), np.diff(below)))


def laplace_pair(multiplier: float, probability: float = 1.0) -> LossPair:
    """Laplace noise of scale `multiplier` and its shift by 1: for vectors whose L1 norms differ by at most 1.

    Guarantee: the scalar pair dominates every shift of a vector with independent Laplace noise by v, |v|_1 <= 1.
    Write f_m for the least false-negative rate of a test of noise X against X + m. Laplace noise is log-concave, so the
    likelihood ratio is monotone and a threshold is the best test: f_m(a) = F(F^-1(1 - a) - m), for either sign of the
    shift, as X is symmetric. Change one coordinate at a time; two neighbours of that chain have the trade-off f_|v_i|.
    A test that rejects P with probability a rejects Q with at most 1 - f(a) if T(P, Q) >= f, and so misses R with at
    least g(1 - f(a)) if T(Q, R) >= g (as in Dong, Roth, Su 2022, Theorem 2.14, on groups). Here f_n(1 - f_m(a)) =
    F(F^-1(f_m(a)) - n) = F(F^-1(1 - a) - m - n) = f_(m+n)(a): the whole chain has at least f_|v|_1, which falls in
    |v|_1 and is at least f_1. A trade-off nowhere below another has no larger delta at any epsilon (Proposition 2.12).
    """
    mu = 1 / multiplier

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        above = np.where(edges < -mu, 1.0, np.where(edges < mu, np.exp(-(np.clip(edges, -mu, mu) + mu) / 2) / 2, 0.0))
        below = np.where(edges < -mu, 0.0, np.where(edges < mu, np.exp((np.clip(edges, -mu, mu) - mu) / 2) / 2, 1.0))
        return -np.diff(above), np.diff(below)

    return LossPair(probability, -mu, mu, masses)


def response_pair(epsilon: float) -> LossPair:
    """Randomized response, of which every epsilon-DP mechanism is a function (Kairouz, Oh, Viswanath 2015)."""
    keep = 1 / (1 + math.exp(-epsilon))
    flip = math.exp(-epsilon) * keep

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        at_least_low, at_least_high = edges >= -epsilon, edges >= epsilon
        return np.diff(np.where(at_least_high, 1.0, np.where(at_least_low, keep, 0.0))), np.diff(
            np.where(at_least_high, 1.0, np.where(at_least_low, flip, 0.0))
        )

    return LossPair(1.0, -epsilon, epsilon, masses)


@dataclass(frozen=True, slots=True)
class Grid:
    """Masses of losses at the multiples of an interval from `first` on, and the mass of an infinite loss."""

    first: int
    masses: Floats
    infinite: float


def removed_and_added(pair: LossPair, interval: float) -> tuple[Grid, Grid]:
    """The losses when a record is removed, and when it is added."""
    q, (low, high) = pair.probability, pair.span()
    first, last = math.floor(low / interval) - 1, math.ceil(high / interval) + 1
    edges: Floats = np.arange(first, last + 1, dtype=np.float64) * interval
    ends = np.concatenate([[-np.inf], pair.unsampled(edges), [np.inf]])
    under_n, under_m = pair.masses(ends)
    mixed = (1 - q) * under_n + q * under_m
    inside, gap = slice(1, -1), -math.expm1(-interval)
    excess = q * (under_m[inside] - under_n[inside])
    up = (excess - under_n[inside] * np.expm1(edges[:-1])) / gap
    removed = _dealt(mixed[inside], up, mixed[0])
    down = np.exp(-edges[1:]) * (under_n[inside] * np.expm1(edges[1:]) - excess) / gap
    added = _dealt(under_n[inside][::-1], down[::-1], under_n[-1])
    return Grid(first, removed, float(mixed[-1])), Grid(-last, added, float(under_n[0]))


def _dealt(masses: Floats, up: Floats, below: float) -> Floats:
    """The mass of each interval at its two ends, `up` of it at the upper one; what is below the first, there."""
    up = np.clip(up, 0.0, masses)
    found = np.zeros(len(masses) + 1)
    found[1:] += up
    found[:-1] += masses - up
    found[0] += below
    found[found < _LEAST_MASS] = 0.0
    return found


@dataclass(frozen=True, slots=True)
class Curve:
    """The composed losses of one direction, from 0 on: sums over all losses from an index on."""

    interval: float
    masses: Floats  # under P
    discounted: Floats  # under Q: masses times e^-loss
    infinite: float

    def delta(self, epsilon: float) -> float:
        index = min(math.floor(epsilon / self.interval) + 1, len(self.masses) - 1)
        growth = math.exp(min(epsilon, 700.0))  # a smaller one has a larger delta
        return self.infinite + max(0.0, float(self.masses[index] - growth * self.discounted[index]))

    def epsilon(self, delta: float) -> float:
        """The least one with at most `delta`."""
        if self.infinite > delta:
            return math.inf
        low, high = -1, len(self.masses) - 1  # of grid points: delta at `high` is met, at `low` it is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.delta(middle * self.interval) <= delta else (middle, high)
        if high == 0:
            return 0.0
        left, below = float(self.masses[high]) - (delta - self.infinite), float(self.discounted[high])
        if left <= 0 or below < 1e-280:
            return high * self.interval
        return min(max(math.log(left / below), low * self.interval), high * self.interval)


@dataclass(frozen=True, slots=True)
class Composed:
    """The losses of all events together, for a record that is removed and one that is added."""

    curves: tuple[Curve, ...]
    allowance: float  # of delta, for what floats lose

    def delta(self, epsilon: float) -> float:
        return min(1.0, max(curve.delta(epsilon) for curve in self.curves) + self.allowance)

    def epsilon(self, delta: float) -> float:
        return max(curve.epsilon(delta - self.allowance) for curve in self.curves)


def discretisation(lines: Weighted) -> tuple[float, bool]:
    """The interval of the grid, and whether it is fine enough for an epsilon that is close to the truth.

    Dealing the mass of an interval to its ends adds a variance of about interval^2 / 6 to each loss.
    """
    variance = math.fsum(count * pair.moments()[1] for pair, count in lines)
    wanted = math.sqrt(6 * _EXCESS * variance / sum(count for _, count in lines))
    spans = [pair.span() for pair, _ in lines]
    finest = math.fsum(high - low for low, high in spans) / _MOST_POINTS
    return max(wanted, finest), finest < _FINE * wanted


def out_of_reach(lines: Weighted) -> bool:
    """Whether losses are too large for floats, or for a grid of a moderate size."""
    moments = [(*pair.moments(), count) for pair, count in lines]
    mean = math.fsum(count * mean for mean, _, count in moments)
    deviation = math.sqrt(math.fsum(count * variance for _, variance, count in moments))
    return not max(mean + 8 * deviation, max(pair.span()[1] for pair, _ in lines)) < LARGEST_LOSS


def compose(lines: Weighted) -> Composed:
    """The losses of `count` times each pair. Assumes: not `out_of_reach`."""
    interval, _ = discretisation(lines)
    counts = [count for _, count in lines]
    directions = 2 if any(pair.probability < 1 for pair, _ in lines) else 1  # without sampling the two are the same
    while True:
        grids = [removed_and_added(pair, interval) for pair, _ in lines]
        each = [[pair[direction] for pair in grids] for direction in range(directions)]
        windows = [_window(some, counts, interval) for some in each]
        if all(high - low < _WIDEST for low, high in windows):
            break
        interval *= 2
    curves = tuple(_composed(some, counts, interval, window) for some, window in zip(each, windows, strict=True))
    return Composed(curves, _ALLOWANCE + _ALLOWANCE_A_STEP * sum(counts))


def _composed(grids: Sequence[Grid], counts: Sequence[int], interval: float, window: tuple[int, int]) -> Curve:
    low, high = window
    size = 1 << max(4, (high - low).bit_length())
    kept = np.arange(size // 2 + 1)  # frequencies whose product is not negligible: mostly few
    log_size, angle = np.zeros(len(kept)), np.zeros(len(kept))
    for grid, count in zip(grids, counts, strict=True):
        part = np.fft.rfft(_folded(grid, size))[kept]
        log_size += count * np.log(np.maximum(np.abs(part), 1e-300))
        angle += count * np.angle(part)
        large = log_size > _NEGLIGIBLE
        kept, log_size, angle = kept[large], log_size[large], angle[large]
    product = np.zeros(size // 2 + 1, dtype=np.complex128)
    product[kept] = np.exp(log_size + 1j * angle)
    masses = np.roll(np.maximum(np.fft.irfft(product, size), 0.0), -(low % size))
    masses = np.concatenate([np.zeros(max(0, low)), masses[max(0, -low) :], [0.0]])  # from a loss of 0 on
    discounted = masses * np.exp(-interval * np.arange(len(masses)))
    finite = math.fsum(count * math.log1p(-grid.infinite) for grid, count in zip(grids, counts, strict=True))
    infinite = _TAIL - math.expm1(finite)
    return Curve(interval, np.cumsum(masses[::-1])[::-1], np.cumsum(discounted[::-1])[::-1], infinite)


def _folded(grid: Grid, size: int) -> Floats:
    """The masses on a circle of `size` points."""
    start = grid.first % size
    turns = -(-(start + len(grid.masses)) // size)
    line = np.zeros(turns * size)
    line[start : start + len(grid.masses)] = grid.masses
    return np.asarray(line.reshape(turns, size).sum(axis=0))


def _window(grids: Sequence[Grid], counts: Sequence[int], interval: float) -> tuple[int, int]:
    """Grid points between which the sum lies but for 10^-15 on either side: Chernoff's bound, at a few orders."""
    variance = math.fsum(count * _variance(grid, interval) for grid, count in zip(grids, counts, strict=True))
    largest = max(max(abs(grid.first), abs(grid.first + len(grid.masses))) for grid in grids) * interval
    normal = math.sqrt(-2 * math.log(_TAIL) / max(variance, 1e-12))  # the best order for a normal sum
    lowest = min(normal / 16, 1 / largest)
    orders = lowest * 2.0 ** np.arange(math.ceil(math.log2(8 * normal / lowest)))
    upper, lower = np.zeros(len(orders)), np.zeros(len(orders))
    for grid, count in zip(grids, counts, strict=True):
        there = np.flatnonzero(grid.masses)
        masses, losses = grid.masses[there], interval * (grid.first + there)
        grown, fallen = np.exp(lowest * losses), np.exp(-lowest * losses)
        with np.errstate(over="ignore"):
            for k in range(len(orders)):
                upper[k] += count * math.log((masses * grown).sum())
                lower[k] += count * math.log((masses * fallen).sum())
                grown, fallen = grown * grown, fallen * fallen
    most = sum(count * (grid.first + len(grid.masses) - 1) for grid, count in zip(grids, counts, strict=True))
    least = sum(count * grid.first for grid, count in zip(grids, counts, strict=True))
    high = float(np.min((upper - math.log(_TAIL)) / orders)) / interval
    low = -float(np.min((lower - math.log(_TAIL)) / orders)) / interval
    return math.floor(max(least, low)), math.ceil(min(most, high))


def _variance(grid: Grid, interval: float) -> float:
    losses = interval * (grid.first + np.arange(len(grid.masses)))
    mean = float((grid.masses * losses).sum())
    return float((grid.masses * (losses - mean) ** 2).sum())
