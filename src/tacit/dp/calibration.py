"""From a wanted guarantee to a noise level, and back.

gaussian_sigma, gaussian_epsilon, gaussian_delta    one Gaussian release (see `gaussian`)
laplace_scale, laplace_epsilon_for_magnitude        one Laplace release
randomized_response_probabilities                   one answer out of k
noise_multiplier                                    many Gaussian steps on Poisson samples
least_noise                                         any training whose cost falls as its noise grows
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.dp.accounting import Ledger, check_count
from tacit.dp.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from tacit.dp.noise import response_change
from tacit.dp.pricing import Method
from tacit.dp.release import GaussianEvent, Relation, Unit, check_choice, check_delta, check_positive, number

_LEAST_MULTIPLIER = 0.1  # less noise than that hides nothing by itself
_SMALLEST = 1e-6  # that is tried

__all__ = [
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "laplace_epsilon_for_magnitude",
    "laplace_scale",
    "least_noise",
    "noise_multiplier",
    "randomized_response_probabilities",
]


def laplace_scale(epsilon: float, sensitivity: float) -> float:
    """The scale of Laplace noise that is epsilon-DP for inputs at most `sensitivity` apart in L1.

    Source: Dwork, McSherry, Nissim, Smith 2006, Proposition 1.
    """
    return check_positive("sensitivity", sensitivity) / check_positive("epsilon", epsilon)


def laplace_epsilon_for_magnitude(magnitude: float, probability: float, sensitivity: float) -> float:
    """The epsilon at which Laplace noise stays below `magnitude` with `probability`.

    What usefulness asks for, not what privacy does: check with `accounting.reading` whether anything is still hidden.
    """
    if not 0 < number(probability) < 1:
        raise ValueError(f"probability must be in (0, 1), got {probability!r}")
    per_unit = check_positive("sensitivity", sensitivity) / check_positive("magnitude", magnitude)
    return -math.log1p(-probability) * per_unit


def randomized_response_probabilities(epsilon: float, k: int = 2) -> tuple[float, float]:
    """The probability of the true answer and of each other one of `k`: e^eps / (e^eps + k - 1) and 1 / (e^eps + k - 1).

    Source: Kairouz, Oh, Viswanath 2014, equation 4.
    """
    change = float(response_change(epsilon, k))
    return 1 - change, change / (k - 1)


def noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    steps: int,
    sampling_probability: float = 1.0,
    unit: Unit = "record",
    relation: Relation = "add-remove",
    method: Method = "pld",
) -> float:
    """The least noise over sensitivity with which `steps` Gaussian steps cost at most (epsilon, delta).

    Guarantee: the returned multiplier meets the target under `method`; it is within 0.01% of the least one.
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_delta(delta)
    steps = check_count("steps", steps)
    GaussianEvent(1.0, unit, relation, sampling_probability)  # refuses what cannot be accounted for
    check_choice("method", method, Method)
    if sampling_probability == 1 and method == "pld":
        return gaussian_sigma(epsilon, delta) * math.sqrt(steps) * (1 + 1e-12)

    ever_sampled = -math.expm1(steps * math.log1p(-sampling_probability)) if sampling_probability < 1 else 1.0
    if method == "pld" and ever_sampled <= delta:
        return _LEAST_MULTIPLIER

    def cost(multiplier: float) -> float:
        ledger = Ledger(unit, relation)
        ledger.spend(GaussianEvent(multiplier, unit, relation, sampling_probability), steps)
        return ledger.epsilon(delta, method)

    return least_noise(cost, epsilon)


def least_noise(cost: Callable[[float], float], epsilon: float) -> float:
    """A noise whose falling `cost` is at most `epsilon`, and above 0.9999 of it if that is possible.

    Each cost takes a while, and its logarithm is nearly linear in that of the noise: a chord finds it in a few steps,
    and the end that stays twice is halved (the Illinois method). Where the cost jumps, bisection takes over.
    """

    enough = 5e-5 - 1e-9

    def excess(log_noise: float) -> float:
        """Above `enough` if there is too little noise: 0, which is aimed at, is the middle of what will do."""
        return math.log(max(cost(math.exp(log_noise)), 1e-6 * epsilon) / epsilon) + 5e-5

    low, high = math.log(0.5), 0.0
    above, below = math.inf, excess(high)  # at `low` and `high`
    while below > enough:
        low, above = high, below
        high += math.log(2)
        if high > 600:
            raise ValueError("no finite noise meets the target: relax epsilon or delta")
        below = excess(high)
    while math.isinf(above):
        found = excess(low)
        if found > enough:
            above = found
            break
        low, high, below = low - math.log(2), low, found
        if low < math.log(_SMALLEST):
            return math.exp(high)
    best, side = below, 0
    for step in range(100):
        if best > -enough or high - low < 1e-6:
            break
        chord = high - below * (high - low) / (below - above)
        tried = chord if step % 6 < 5 and math.isfinite(above) else (low + high) / 2
        found = excess(tried)
        if found > enough:
            low, above = tried, found
            below, side = (below / 2 if side < 0 else below), -1
        else:
            high, below, best = tried, found, found
            above, side = (above / 2 if side > 0 else above), 1
    return math.exp(high)
