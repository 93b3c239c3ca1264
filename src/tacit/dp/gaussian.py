"""The Gaussian mechanism, analytically: sigma, epsilon and delta from one another, exact for every epsilon.

Source: Balle and Wang, Improving the Gaussian mechanism for differential privacy, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.dp.release import check_delta, check_epsilon, check_positive

_LARGEST_EPSILON = 1e12  # up to here `gaussian_delta` keeps its precision
_RELATIVE_ERROR = 1e-9  # of `gaussian_delta`, tested; the inverses stay that much on the safe side of delta


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """The smallest delta for which Gaussian noise of `sigma` is (epsilon, delta)-DP.

    Source: Theorem 8: Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s) with s = sensitivity / sigma.
    """
    shift = check_positive("sensitivity", sensitivity) / check_positive("sigma", sigma)
    epsilon = check_epsilon(epsilon)
    if epsilon > _LARGEST_EPSILON:
        raise ValueError(f"epsilon must be at most {_LARGEST_EPSILON:g}, got {epsilon!r}: beyond it nothing is hidden")
    from scipy.special import log_ndtr, ndtr  # a third of a second, for unsampled Gaussians only

    upper = shift / 2 - epsilon / shift
    if upper < -37:  # below 1e-300
        return float(math.exp(max(-745.0, log_ndtr(upper))))
    if upper > 37:
        return 1.0
    # e^epsilon phi(lower) = phi(upper), so that neither e^epsilon nor a difference of small tails is formed.
    density = math.exp(-upper * upper / 2) / math.sqrt(2 * math.pi)
    if upper > 5:
        return float(ndtr(upper)) - density * _mills(shift - upper)
    if shift < 5e-5:  # the difference below by its derivative: mills' = x mills - 1
        middle = shift / 2 - upper
        return density * shift * (1 - middle * _mills(middle))
    return density * (_mills(-upper) - _mills(shift - upper))


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x)."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest sigma for which Gaussian noise is (epsilon, delta)-DP, rounded up.

    Guarantee: holds for every epsilon > 0, unlike the classical sqrt(2 ln(1.25/delta)) / epsilon.
    Source: Theorem 9.
    """
    epsilon, sensitivity = check_positive("epsilon", epsilon), check_positive("sensitivity", sensitivity)
    allowed = check_delta(delta) * (1 - 2 * _RELATIVE_ERROR)  # so that `gaussian_epsilon` of it is at most epsilon
    return sensitivity * least(lambda sigma: gaussian_delta(sigma, epsilon) <= allowed)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest epsilon for which Gaussian noise of `sigma` is (epsilon, delta)-DP.

    0 if `delta` alone covers it, infinite beyond 10^12.
    """
    allowed = check_delta(delta) * (1 - _RELATIVE_ERROR)
    multiplier = check_positive("sigma", sigma) / check_positive("sensitivity", sensitivity)
    if gaussian_delta(multiplier, 0.0) <= allowed:
        return 0.0
    if gaussian_delta(multiplier, _LARGEST_EPSILON) > allowed:
        return math.inf
    return least(lambda epsilon: gaussian_delta(multiplier, epsilon) <= allowed)


def least(holds: Callable[[float], bool], relative_tolerance: float = 1e-14) -> float:
    """The least positive number for which the monotone `holds` is true, from above, by bisection of exponents."""
    low, high = 0.5, 1.0
    while not holds(high):
        low, high = high, high * 4
        if high > 1e300:
            raise ValueError("no finite value meets the target: relax epsilon or delta")
    while holds(low):
        low, high = low / 4, low
        if low < 1e-300:
            return high
    while high - low > relative_tolerance * high:
        middle = math.sqrt(low) * math.sqrt(high) if high > 2 * low else (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
