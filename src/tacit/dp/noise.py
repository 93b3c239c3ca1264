"""Integer noise from a cryptographic generator.

    bernoulli           exact for p = 1 / (offset + weight * e^exponent): bits are compared lazily, no rounding
    discrete_laplace    exact: the binary digits of a geometric variable are independent Bernoulli variables
    discrete_gaussian   alias tables, convolved for large sigma; `discrete_gaussian_log2_distance` from the truth
    skellam             alias tables, summed for large variance; `skellam_log2_distance` from the truth

Floating-point samplers leak through the pattern of their rounding errors (Mironov 2012), so that none is here: these
return integers, and `mechanisms` puts real vectors on a grid first. `rng` defaults to ChaCha20 keyed from the OS.
A sampler within statistical distance tau of its distribution costs delta += (1 + e^epsilon) * draws * tau; the
mechanisms put log2(draws * tau) into their events as `log2_slack`. Gaussian tables go down to tau = 2^-2000, so that
the claim holds for every epsilon up to about 1300: a noise that is cut at 13 sigma is not private at epsilon = 100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import gmpy2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.dp.alias import AliasTable, mass_precision, symmetric_log2_distance, symmetric_table
from tacit.dp.release import check_epsilon, number
from tacit.randomness import random_words, secure_rng

__all__ = [
    "Probability",
    "bernoulli",
    "discrete_gaussian",
    "discrete_gaussian_log2_distance",
    "discrete_laplace",
    "skellam",
    "skellam_log2_distance",
    "skellam_log2_tail",
]

Ints = NDArray[np.int64]
Shape = int | tuple[int, ...]

_GAUSSIAN_BITS = 2048  # of the weights of a Gaussian table; its tails are cut where less than 2^-2032 is left
_SKELLAM_BITS = 256  # enough for a central epsilon up to about 100
_TAIL_MARGIN_BITS = 16
_LANE_BITS = 16  # random bits that a Bernoulli draw starts with
_CHUNK = 1 << 16
_LARGEST_SIGMA = 2.0**46  # 54 sigma stays exact in float64
_TABLE_SIGMA = 256  # larger tables are slower to build and fall out of the cache
_SKELLAM_TABLE_SIGMA = 4096
_HIGHEST_DIGIT = 50  # digits of a geometric variable drawn one by one; above it the count of 2^50s


@dataclass(frozen=True, slots=True)
class Probability:
    """The real number 1 / (offset + weight * e^exponent), known to as many bits as asked for."""

    weight: Fraction
    exponent: Fraction
    offset: int = 1

    def floor_bits(self, bits: int) -> int:
        """floor(p * 2^bits), exactly."""
        return _floor_bits(self.weight, self.exponent, self.offset, bits)

    def __float__(self) -> float:
        bits = 80 + math.ceil(max(0.0, float(self.exponent)) / math.log(2))
        return float(Fraction(self.floor_bits(bits), 2**bits))


@lru_cache(maxsize=4096)
def _floor_bits(weight: Fraction, exponent: Fraction, offset: int, bits: int) -> int:
    if exponent == 0:
        return int(2**bits / (offset + weight))
    # e^x is irrational for rational x != 0, so that a narrow enough interval holds no multiple of 2^-bits.
    for precision in (bits + 64, bits + 1024, bits + 65536):
        bounds = []
        for toward, away in ((gmpy2.RoundDown, gmpy2.RoundUp), (gmpy2.RoundUp, gmpy2.RoundDown)):
            # p falls as the denominator grows: the lower bound rounds the denominator up.
            with gmpy2.context(gmpy2.get_context(), precision=precision, round=away):
                power = gmpy2.exp(gmpy2.mpfr(gmpy2.mpq(exponent)))
                denominator = offset + gmpy2.mpfr(gmpy2.mpq(weight)) * power
            with gmpy2.context(gmpy2.get_context(), precision=precision, round=toward):
                bounds.append(int(gmpy2.floor(gmpy2.mul_2exp(1 / denominator, bits))))
        if bounds[0] == bounds[1]:
            return bounds[0]
    raise ArithmeticError(f"{bits} bits of 1/({offset} + {weight} e^{float(exponent)}) are not decided")


def response_change(epsilon: float, k: int = 2) -> Probability:
    """The probability that k-ary randomized response changes the answer: (k - 1) / (e^epsilon + k - 1)."""
    if number(k) < 2 or number(k) != int(k):
        raise ValueError(f"randomized response needs k of at least 2 answers, got {k}")
    return Probability(Fraction(1, int(k) - 1), Fraction(check_epsilon(epsilon)))


def bernoulli(probability: Probability, shape: Shape, rng: Generator | None = None) -> NDArray[np.bool_]:
    """True with exactly `probability`, independently for each element."""
    rng = rng or secure_rng()
    result = np.empty(shape, dtype=np.bool_)
    flat = result.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        _bernoulli_into(part, probability, rng)
    return result


def _bernoulli_into(part: NDArray[np.bool_], probability: Probability, rng: Generator) -> None:
    threshold = probability.floor_bits(_LANE_BITS)
    if threshold >= 1 << _LANE_BITS:
        part[:] = True
        return
    lanes = random_words(rng, -(-part.size // 4)).view(np.uint16)[: part.size]
    np.less(lanes, np.uint16(threshold), out=part)
    undecided = np.flatnonzero(lanes == np.uint16(threshold))
    known = _LANE_BITS
    while undecided.size:  # the next 64 bits of the uniform number against the next 64 of p
        digits = probability.floor_bits(known + 64) & (2**64 - 1)
        words = random_words(rng, undecided.size)
        part[undecided] = words < np.uint64(digits)
        undecided = undecided[words == np.uint64(digits)]
        known += 64


def discrete_laplace(rate: Fraction, shape: Shape, rng: Generator | None = None) -> Ints:
    """P(k) proportional to e^(-rate |k|), exactly.

    |X| is geometric; its binary digits are independent, digit i being 1 with probability 1 / (1 + e^(rate 2^i)), and
    X is G or -1 - G by one more such digit. Raises OverflowError (probability below 2^-8000) rather than wrap.
    """
    if rate <= 0:
        raise ValueError(f"rate must be above 0, got {float(rate)}")
    digits = _digits_of_geometric(rate)
    rng = rng or secure_rng()
    result = np.empty(shape, dtype=np.int64)
    flat = result.reshape(-1)
    bits = np.empty(_CHUNK, dtype=np.bool_)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        bit = bits[: part.size]
        part[:] = _geometric_above(rate * 2**digits, part.size, rng) << digits
        for digit in range(digits):
            _bernoulli_into(bit, Probability(Fraction(1), rate * 2**digit), rng)
            part |= np.left_shift(bit, digit, dtype=np.int64)
        _bernoulli_into(bit, Probability(Fraction(1), rate), rng)
        part ^= -bit.astype(np.int64)  # x ^ -1 = -1 - x
    return result


def _digits_of_geometric(rate: Fraction) -> int:
    """How many low digits to draw: above them is something with probability below e^-45."""
    digits = max(0, math.ceil(math.log2(45) - (math.log2(rate.numerator) - math.log2(rate.denominator))))
    if digits > _HIGHEST_DIGIT:
        raise ValueError(
            f"rate {float(rate):.3g} is below {45 / 2**_HIGHEST_DIGIT:.3g}, the noise would leave 64-bit integers: "
            "use a coarser grid"
        )
    return digits


def _geometric_above(rate: Fraction, count: int, rng: Generator) -> Ints:
    """P(k) = (1 - e^-rate) e^(-rate k), by repeated trials: `rate` is at least 45, so that nearly all are 0."""
    result = np.zeros(count, dtype=np.int64)
    going = np.arange(count)
    while going.size:
        trial = np.empty(going.size, dtype=np.bool_)
        _bernoulli_into(trial, Probability(Fraction(1), rate, offset=0), rng)
        going = going[trial]
        result[going] += 1
        if going.size and result.max() >= 1 << (62 - _HIGHEST_DIGIT):
            raise OverflowError("discrete Laplace noise leaves 64-bit integers")
    return result


def discrete_gaussian(sigma: float, shape: Shape, rng: Generator | None = None) -> Ints:
    """P(k) proportional to e^(-k^2 / (2 sigma^2)), within `discrete_gaussian_distance(sigma)`."""
    variance = _checked_variance(sigma)
    rng = rng or secure_rng()
    result = np.empty(shape, dtype=np.int64)
    flat = result.reshape(-1)
    (_, table), *coarser = _gaussian_levels(variance)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        part[:] = table.draw(part.size, rng)
        for stride, level in coarser:
            part += stride * level.draw(part.size, rng)
    return result


def discrete_gaussian_log2_distance(sigma: float) -> float:
    """log2 of a bound on the statistical distance of one draw from the discrete Gaussian."""
    levels = _gaussian_levels(_checked_variance(sigma))
    gaps = [1 + log2_smoothing_gap(SMOOTH_VARIANCE)] * (len(levels) - 1)
    return float(np.logaddexp2.reduce([table.log2_distance for _, table in levels] + gaps))


def log2_smoothing_gap(variance: float) -> float:
    """log2 of how far sum over k in Z of e^(-(k-x)^2 / 2v) is from sqrt(2 pi v), relatively, at most, over all x.

    Source: Poisson summation: the ratio is 1 + 2 sum_j e^(-2 pi^2 v j^2) cos(2 pi j x); for v > 1 the terms after the
    first add less than 2^-50 of it.
    """
    return 1 + 2.0**-50 - 2 * math.pi**2 * variance / math.log(2)


SMOOTH_VARIANCE = 72.0  # the gap is below 2^-2048


@lru_cache(maxsize=64)
def _gaussian_levels(variance: Fraction) -> tuple[tuple[int, AliasTable], ...]:
    """Strides and tables whose weighted sum has `variance`.

    X = stride * Y + Z, with Z of variance 1.25 v stride^2 and Y of the rest (at least 5 v), is discrete Gaussian up to
    a factor (1 +- gap)/(1 -+ gap): its mass at x is e^(-x^2 / 2 variance) times a sum over y of a Gaussian of variance
    1 / (1/var(Y) + stride^2/var(Z)) >= v centred somewhere, which is constant but for the smoothing gap of v.
    Source: the convolution theorem of Micciancio and Peikert 2013, Theorem 3.3.
    """
    levels: list[tuple[int, AliasTable]] = []
    stride = 1
    fine = Fraction(5, 4) * Fraction(SMOOTH_VARIANCE)
    while variance > _TABLE_SIGMA**2:
        # Divides sigma until one table holds it; the coarse part keeps a sigma above 60, above sqrt(5 v) = 19.
        needed = math.isqrt(math.ceil(variance / _TABLE_SIGMA**2)) + 1
        step = min(64, 1 << (needed - 1).bit_length())
        levels.append((stride, _gaussian_table(fine * step**2)))
        variance = variance / step**2 - fine
        stride *= step
    levels.append((stride, _gaussian_table(variance)))
    return tuple(levels)


@lru_cache(maxsize=256)
def _gaussian_table(variance: Fraction) -> AliasTable:
    tail_bits = _GAUSSIAN_BITS - _TAIL_MARGIN_BITS
    last = math.ceil(math.sqrt(2 * tail_bits * math.log(2) * float(variance))) + 1
    with mass_precision(_GAUSSIAN_BITS):
        ratio = gmpy2.exp(gmpy2.mpfr(gmpy2.mpq(-1 / (2 * variance))))
        step = ratio * ratio
        masses = [gmpy2.mpfr(1)]
        for _ in range(last):
            masses.append(masses[-1] * ratio)
            ratio *= step
        # Beyond `last` each mass is at most `ratio` times the one before it, and the masses sum to more than 1.
        log2_tail = float(gmpy2.log2(2 * masses[-1] * ratio / (1 - ratio)))
    return symmetric_table(masses, log2_tail, _GAUSSIAN_BITS)


def _checked_variance(sigma: float) -> Fraction:
    if not 1e-100 < number(sigma) <= _LARGEST_SIGMA:
        raise ValueError(f"sigma must be in (0, {_LARGEST_SIGMA:.3g}] grid units, got {sigma}: choose another grid")
    return Fraction(number(sigma)) ** 2


def skellam(variance: float, shape: Shape, rng: Generator | None = None) -> Ints:
    """The difference of two Poisson variables of mean variance/2 each, within `skellam_log2_distance(variance)`."""
    parts, part = _skellam_parts(variance)
    table = _skellam_table(part)
    rng = rng or secure_rng()
    result = np.zeros(shape, dtype=np.int64)
    flat = result.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        for _ in range(parts):
            chunk += table.draw(chunk.size, rng)
    return result


def skellam_log2_distance(variance: float) -> float:
    """log2 of a bound on the statistical distance of one draw from the Skellam distribution.

    Without making the table: prices are asked for many variances before one is drawn from.
    """
    parts, part = _skellam_parts(variance)
    last = _skellam_last(float(part))
    tail = _skellam_log2_left_out(last, float(part))
    return math.log2(parts) + symmetric_log2_distance(last + 1, tail, _SKELLAM_BITS)


def _skellam_parts(variance: float) -> tuple[int, Fraction]:
    """Skellam variables of one kind add up to a Skellam variable: how many, and the variance of one."""
    if not 1e-100 < number(variance) <= 2.0**40:
        raise ValueError(f"the Skellam variance must be in (0, 2^40], got {variance}: choose another scale")
    parts = math.ceil(variance / _SKELLAM_TABLE_SIGMA**2)
    return parts, Fraction(number(variance)) / parts


@lru_cache(maxsize=64)
def _skellam_table(variance: Fraction) -> AliasTable:
    """Masses e^-v I_k(v) by the downward recurrence I_(k-1) = I_(k+1) + (2k/v) I_k (Miller's algorithm)."""
    mean = float(variance)
    last = _skellam_last(mean)
    start = _skellam_reach(mean, 2 * _SKELLAM_BITS)  # where the recurrence may start from anything
    with mass_precision(_SKELLAM_BITS):
        inverse = 2 / gmpy2.mpfr(gmpy2.mpq(variance))
        above, here = gmpy2.mpfr(0), gmpy2.mpfr(1)
        downward = []
        for k in range(start, -1, -1):
            if k <= last:
                downward.append(here)
            above, here = here, above + k * inverse * here
    return symmetric_table(downward[::-1], _skellam_log2_left_out(last, mean), _SKELLAM_BITS)


def _skellam_last(variance: float) -> int:
    """The largest number in a table."""
    return _skellam_reach(variance, _SKELLAM_BITS - _TAIL_MARGIN_BITS)


def _skellam_log2_left_out(last: int, variance: float) -> float:
    """log2 of a bound on P(|X| > last)."""
    return 1 + skellam_log2_tail(last + 1, variance)


def _skellam_reach(variance: float, tail_bits: int) -> int:
    """A k, not much larger than the smallest, with P(X > k) < 2^-tail_bits."""
    k = 1
    while skellam_log2_tail(k + 1, variance) > -tail_bits:
        k += max(1, k // 64)
    return k


def skellam_log2_tail(k: int, variance: float) -> float:
    """Chernoff's bound on log2 P(X >= k)."""
    return -(k * math.asinh(k / variance) - (math.hypot(k, variance) - variance)) / math.log(2)
