"""From a wanted guarantee to a noise level, and back.

gaussian_sigma, gaussian_epsilon, gaussian_delta    one Gaussian release (see `gaussian`)
laplace_scale, laplace_epsilon_for_magnitude        one Laplace release
randomized_response_probabilities                   one answer out of k
noise_multiplier                                    many Gaussian steps on Poisson samples
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from tacit.dp.accounting import Ledger, check_count
from tacit.dp.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from tacit.dp.noise import response_change
from tacit.dp.pricing import Method
from tacit.dp.release import GaussianEvent, Relation, Unit, check_choice, check_delta, check_positive, number

_LEAST_LOG_MULTIPLIER = math.log(0.1)  # less noise than that hides nothing by itself

__all__ = [
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "laplace_epsilon_for_magnitude",
    "laplace_scale",
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
        return math.exp(_LEAST_LOG_MULTIPLIER)

    def cost(log_multiplier: float, by: Method) -> float:
        ledger = Ledger(unit, relation)
        ledger.spend(GaussianEvent(math.exp(log_multiplier), unit, relation, sampling_probability), steps)
        return ledger.epsilon(delta, by)

    def solve(low: float, high: float, by: Method) -> float:
        """The root of log cost = log epsilon, which is nearly linear."""
        while cost(high, by) > epsilon:
            low, high = high, high + (high - low)
        while cost(low, by) < epsilon:
            if low < _LEAST_LOG_MULTIPLIER:  # delta alone covers the sampling, or nearly
                return low
            low, high = low - (high - low), low
        excess = lambda x: math.log(max(cost(x, by), 1e-300) / epsilon)  # noqa: E731
        return float(brentq(excess, low, high, xtol=1e-5))

    root = solve(math.log(0.5), 0.0, "rdp")
    if method != "rdp":  # RDP is close from above: PLD, the slower one, is asked just below it
        root = solve(root - 0.1, root, method)
    while cost(root, method) > epsilon:
        root += 1e-5
    return math.exp(root)
