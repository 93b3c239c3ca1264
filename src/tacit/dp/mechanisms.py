"""Mechanisms: each takes a value, returns the protected value and the event it cost.

    discrete_laplace, discrete_gaussian     integer vectors
    laplace, gaussian                       float vectors, put on a grid first; the event counts what rounding adds
    randomized_response                     free bits
    unary_randomized_response               one-hot vectors
    k_ary_randomized_response               labels

The last axis of `values` is one unit's vector; leading axes are further units, and the event is the price for each one.
(Labels are a unit each.) Where several vectors belong to one unit, spend the event as often.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.dp import noise
from tacit.dp.release import (
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    Relation,
    Released,
    Unit,
    check_epsilon,
    check_positive,
    number,
)
from tacit.fixedpoint import Floats, Grid, Ints, as_finite
from tacit.randomness import secure_rng

__all__ = [
    "discrete_gaussian",
    "discrete_laplace",
    "gaussian",
    "gaussian_event",
    "k_ary_randomized_response",
    "laplace",
    "laplace_event",
    "randomized_response",
    "unary_randomized_response",
]

_NEAR_GAUSSIAN = 512  # from this sigma on, smoothing costs less than 0.02% of it
_GAUSSIAN_RESOLUTION_BITS = 12  # an automatic grid has this many steps in one sigma ...
_LAPLACE_RESOLUTION_BITS = 10
_DISCRETE_SHIFT = 2.0**-22  # r^2 / 4 for a rate of r = 2^-LAPLACE_RESOLUTION_BITS: see `laplace_event`
_CERTIFIED_LOG2_DISTANCE = -2000.0  # above that of discrete Gaussian noise for any sigma, smoothing included
_ROUNDING_BITS = 13  # ... and rounding adds at most 2^-13 of the sensitivity


def discrete_laplace(
    values: Ints,
    *,
    l1_sensitivity: int,
    epsilon: float,
    unit: Unit = "vector",
    relation: Relation = "replace-one",
    rng: Generator | None = None,
) -> Released[Ints]:
    """Add two-sided geometric noise, exactly.

    Guarantee: epsilon-DP for inputs at most `l1_sensitivity` apart in L1.
    Source: Ghosh, Roughgarden, Sundararajan 2009, Theorem 2.2 and its section 2.
    """
    values = _integers(values)
    if not number(l1_sensitivity) >= 1 or l1_sensitivity != int(l1_sensitivity):
        raise ValueError(f"l1_sensitivity must be a whole number of at least 1, got {l1_sensitivity!r}")
    epsilon, l1_sensitivity = check_positive("epsilon", epsilon), int(l1_sensitivity)
    drawn = noise.discrete_laplace(Fraction(epsilon) / l1_sensitivity, values.shape, rng)
    return Released(values + drawn, PureEvent(epsilon, unit, relation))


def discrete_gaussian(
    values: Ints,
    *,
    l2_sensitivity: float,
    sigma: float,
    unit: Unit = "vector",
    relation: Relation = "replace-one",
    rng: Generator | None = None,
) -> Released[Ints]:
    """Add discrete Gaussian noise.

    Guarantee: for sigma < 512, rho-zCDP with rho = l2_sensitivity^2 / (2 sigma^2) (Canonne, Kamath, Steinke 2020,
    Theorem 14). For larger sigma the release is, up to the event's slack, a function of a continuous Gaussian release
    with variance sigma^2 - 72: draw x from the latter, then z from the discrete Gaussian of variance 72 around x. The
    mass of z is that of the discrete Gaussian of variance sigma^2 up to the smoothing gap of 72, below 2^-2048, and
    the second step treats shifted integers alike. So every bound for Gaussian noise holds, PLD's included.
    """
    values = _integers(values)
    l2_sensitivity, sigma = check_positive("l2_sensitivity", l2_sensitivity), check_positive("sigma", sigma)
    drawn = noise.discrete_gaussian(sigma, values.shape, rng)
    log2_draws = math.log2(values.shape[-1])
    log2_distance = noise.discrete_gaussian_log2_distance(sigma)
    event: GaussianEvent | ConcentratedEvent
    if sigma < _NEAR_GAUSSIAN:
        rho = l2_sensitivity**2 / (2 * sigma**2)
        event = ConcentratedEvent(rho, unit, relation, log2_slack=log2_draws + log2_distance)
    else:
        multiplier = math.sqrt(sigma**2 - noise.SMOOTH_VARIANCE) / l2_sensitivity
        gap = 1 + noise.log2_smoothing_gap(noise.SMOOTH_VARIANCE)
        slack = log2_draws + float(np.logaddexp2(log2_distance, gap))
        event = GaussianEvent(multiplier, unit, relation, log2_slack=slack)
    return Released(values + drawn, event)


def laplace(
    values: Any,
    *,
    sensitivity: float,
    epsilon: float,
    unit: Unit = "vector",
    relation: Relation = "replace-one",
    grid: Grid | None = None,
    rng: Generator | None = None,
) -> Released[Floats]:
    """Add Laplace noise of scale sensitivity / epsilon on a grid.

    Guarantee: epsilon-DP for inputs at most `sensitivity` apart in L1. Rounding two vectors of length d to the grid
    moves them apart by at most d steps: the noise is sized for floor(sensitivity / step) + d steps.
    Assumes: the caller bounded the inputs; two points of the probability simplex are up to 2 apart, not 1.
    Source: Dwork, McSherry, Nissim, Smith 2006, on integers as in `discrete_laplace`.
    """
    array = _vectors(values)
    sensitivity, epsilon = check_positive("sensitivity", sensitivity), check_positive("epsilon", epsilon)
    d = array.shape[-1]
    if grid is None:
        grid = _grid_finer_than(
            sensitivity / epsilon / 2**_LAPLACE_RESOLUTION_BITS, sensitivity / (d * 2**_ROUNDING_BITS)
        )
    steps = math.floor(Fraction(sensitivity) / Fraction(grid.step)) + d
    released = discrete_laplace(
        grid.encode(array), l1_sensitivity=steps, epsilon=epsilon, unit=unit, relation=relation, rng=rng
    )
    return Released(grid.decode(released.value), released.event)


def laplace_event(
    noise_multiplier: float, sampling_probability: float = 1.0, *, unit: Unit, relation: Relation
) -> LaplaceEvent:
    """What discrete Laplace noise with 2^10 grid steps or more in its scale costs: that of continuous noise, nearly.

    Guarantee: two-sided geometric noise of rate r, shifted by s in L1, is dominated by continuous Laplace noise of
    scale 1 that is shifted by m = r s + r^2 / 4; here r s = 1 / noise_multiplier, and r <= 2^-10 adds at most 2^-22.
    For integers too the noise is log-concave, and the best tests are (randomised) thresholds, so that one coordinate is
    the worst case as in `losses.laplace_pair`. Its trade-off is linear between the points (P(K > k), P(K <= k - s)),
    that of continuous noise is convex: it is enough that no such point lies below the latter, 1 - e^m a up to
    a = e^-m / 2, then e^-m / 4a, and symmetric. For k >= s the points lie on 1 - e^rs a, with a below e^-m / 2. For
    0 <= k < s the product of the two rates is e^-r(s+1) / (1 + e^-r)^2 = e^-rs / (4 cosh^2(r/2)), at least
    e^(-rs - r^2/4) / 4 as cosh x <= e^(x^2/2). For k < 0 the rates change places.
    """
    return LaplaceEvent(1 / (1 / noise_multiplier + _DISCRETE_SHIFT), unit, relation, sampling_probability)


def gaussian(
    values: Any,
    *,
    sensitivity: float,
    noise_multiplier: float,
    unit: Unit = "client",
    relation: Relation = "replace-one",
    grid: Grid | None = None,
    rng: Generator | None = None,
) -> Released[Floats]:
    """Add Gaussian noise of noise_multiplier * sensitivity, and a little more, on a grid.

    Guarantee: that of continuous Gaussian noise with exactly `noise_multiplier`, for inputs at most `sensitivity` apart
    in L2. Rounding two vectors of length d moves them apart by at most sqrt(d) steps, and smoothing costs a variance of
    72 steps^2 (see `discrete_gaussian`): sigma is raised by both.
    Assumes: the caller clipped. Two vectors clipped to C are up to 2C apart: replace-one wants sensitivity 2C.
    """
    array = _vectors(values)
    sensitivity = check_positive("sensitivity", sensitivity)
    noise_multiplier = check_positive("noise_multiplier", noise_multiplier)
    root_d = math.sqrt(array.shape[-1])
    if grid is None:
        grid = _grid_finer_than(
            sensitivity * noise_multiplier / 2**_GAUSSIAN_RESOLUTION_BITS, sensitivity / (root_d * 2**_ROUNDING_BITS)
        )
    steps = (sensitivity / grid.step + root_d) * (1 + 1e-12)
    sigma = math.sqrt((noise_multiplier * steps) ** 2 + noise.SMOOTH_VARIANCE) * (1 + 1e-12)
    if sigma < _NEAR_GAUSSIAN:
        raise ValueError(
            f"a grid of step {grid.step:.3g} leaves {sigma:.3g} steps in one sigma, at least {_NEAR_GAUSSIAN} are "
            "needed: take more fraction bits"
        )
    released = discrete_gaussian(
        grid.encode(array), l2_sensitivity=steps, sigma=sigma, unit=unit, relation=relation, rng=rng
    )
    event = gaussian_event(array.shape[-1], noise_multiplier, unit=unit, relation=relation)
    return Released(grid.decode(released.value), event)


def gaussian_event(
    size: int, noise_multiplier: float, *, unit: Unit = "client", relation: Relation = "replace-one"
) -> GaussianEvent:
    """What `gaussian` costs for vectors of `size` numbers, known before the first is protected.

    The slack is a bound for every sigma: the tables and their convolutions stay below 2^-2000 a draw.
    """
    slack = math.log2(size) + _CERTIFIED_LOG2_DISTANCE
    return GaussianEvent(float(noise_multiplier), unit, relation, log2_slack=slack)


def randomized_response(
    bits: NDArray[Any], *, epsilon_per_bit: float, unit: Unit = "vector", rng: Generator | None = None
) -> Released[NDArray[Any]]:
    """Flip each bit with probability 1 / (1 + e^epsilon_per_bit), exactly. Epsilon 0 is a coin flip.

    Guarantee: d * epsilon_per_bit for a vector of d bits, each of which may differ: an epsilon per bit is not one per
    vector.
    Source: Warner 1965; Dwork and Roth 2014, section 3.2.
    """
    bits, epsilon_per_bit = _bits(bits), check_epsilon(epsilon_per_bit)
    flips = noise.bernoulli(noise.response_change(epsilon_per_bit), bits.shape, rng)
    return Released(bits ^ flips.astype(bits.dtype), PureEvent(bits.shape[-1] * epsilon_per_bit, unit, "replace-one"))


def unary_randomized_response(
    one_hot: NDArray[Any], *, epsilon: float, unit: Unit = "vector", rng: Generator | None = None
) -> Released[NDArray[Any]]:
    """Flip each bit of a one-hot vector with probability 1 / (1 + e^(epsilon/2)).

    Guarantee: epsilon, as two one-hot vectors differ in two bits. Anything else than one-hot is refused.
    Source: basic RAPPOR: Erlingsson, Pihur, Korolova 2014.
    """
    one_hot, epsilon = _bits(one_hot), check_epsilon(epsilon)
    sums = one_hot.sum(axis=-1, dtype=np.int64)
    if (sums != 1).any():
        raise ValueError(f"every vector must be one-hot, {int((sums != 1).sum())} of {sums.size} are not")
    flips = noise.bernoulli(noise.response_change(epsilon / 2), one_hot.shape, rng)
    return Released(one_hot ^ flips.astype(one_hot.dtype), PureEvent(epsilon, unit, "replace-one"))


def k_ary_randomized_response(
    labels: NDArray[Any], *, k: int, epsilon: float, unit: Unit = "label", rng: Generator | None = None
) -> Released[NDArray[Any]]:
    """Keep each label in 0 .. k-1 with probability e^epsilon / (e^epsilon + k - 1), else take one of the others.

    Guarantee: epsilon for each label.
    Source: Kairouz, Oh, Viswanath 2014, section 4.
    """
    labels = np.asarray(labels)
    if labels.size == 0 or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be a non-empty integer array, got {labels.size} of {labels.dtype}")
    epsilon, change_probability = check_epsilon(epsilon), noise.response_change(epsilon, k)
    if labels.min() < 0 or labels.max() >= k:
        raise ValueError(f"labels must be in 0 .. {k - 1}, got {labels.min()} .. {labels.max()}")
    if k - 1 > np.iinfo(labels.dtype).max:
        raise ValueError(f"{labels.dtype} cannot hold labels up to {k - 1}: pass a wider type")
    rng = rng or secure_rng()
    change = noise.bernoulli(change_probability, labels.shape, rng)
    other = rng.integers(1, k, size=labels.shape)
    value = np.where(change, (labels.astype(np.int64) + other) % k, labels).astype(labels.dtype)
    return Released(value, PureEvent(epsilon, unit, "replace-one"))


def _grid_finer_than(*steps: float) -> Grid:
    return Grid(math.ceil(-math.log2(min(steps))))


def _vectors(values: Any) -> Floats:
    array = as_finite(values)
    if array.ndim == 0:
        raise ValueError("values must be a vector or a stack of vectors, got one number: wrap it in a list")
    return array


def _integers(values: Any) -> Ints:
    array = np.asarray(values)
    if array.size == 0 or array.ndim == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"values must be a non-empty integer vector, got shape {array.shape} of {array.dtype}")
    if array.dtype == np.uint64 or array.max() > 2**62 or array.min() < -(2**62):
        raise ValueError("values must be signed integers of magnitude up to 2^62")
    return array.astype(np.int64)


def _bits(bits: Any) -> NDArray[Any]:
    array = np.asarray(bits)
    if array.size == 0 or array.ndim == 0 or array.dtype.kind not in "biu":
        raise ValueError(f"bits must be a non-empty vector of booleans or integers, got {array.shape} of {array.dtype}")
    if array.dtype.kind != "b" and ((array != 0) & (array != 1)).any():
        raise ValueError(f"bits must be 0 or 1, got values from {array.min()} to {array.max()}")
    return array
