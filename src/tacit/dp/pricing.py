"""What events cost together: epsilon at a delta and delta at an epsilon, by three methods.

`pld` composes privacy loss distributions (`losses`); unsampled Gaussian events it adds up analytically, without a grid.
`rdp` composes Renyi curves: an upper bound, close to it. `zcdp` converts rho optimally, for unsampled events
only: subsampling does not amplify zCDP. An upper bound is returned in every case.

Noise multipliers are relative to the sensitivity of the event's own relation (see `release`), so that an unsampled
Gaussian costs the same under each. dp-accounting, which `rdp` takes the curves of sampled Gaussians from, is always
asked for add-remove.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tacit.dp import losses
from tacit.dp.gaussian import gaussian_delta, gaussian_epsilon
from tacit.dp.release import ConcentratedEvent, Event, GaussianEvent, LaplaceEvent, PureEvent, SkellamEvent

Method = Literal["pld", "rdp", "zcdp"]
Lines = tuple[tuple[Event, int], ...]

_PLD_LARGEST_COUNT = 10**6  # of one event: above it RDP answers alone
_CLEAR = 100  # times what is set aside for rounding errors: for a delta below it RDP is asked too
_LARGE_PURE = 20.0  # above it, composing pure events gains next to nothing over adding their epsilons


def _slack(lines: Lines, epsilon: float) -> float:
    """(1 + e^epsilon) times the statistical distances of the samplers."""
    return math.exp(min(700.0, _log_slack(lines) + np.logaddexp(0.0, epsilon)))


def _log_slack(lines: Lines) -> float:
    slacks = [
        event.log2_slack * math.log(2) + math.log(count)
        for event, count in lines
        if not isinstance(event, PureEvent | LaplaceEvent) and event.log2_slack is not None
    ]
    return float(np.logaddexp.reduce(slacks)) if slacks else -math.inf


@lru_cache(maxsize=1024)
def epsilon_of(lines: Lines, delta: float, method: Method) -> float:
    """The epsilon at which the price and the slack of the samplers together stay within `delta`."""
    if _log_slack(lines) == -math.inf:
        return _epsilon_without_slack(lines, delta, method)
    for share in (1e-10, 1e-5, 1e-2, 0.5):
        epsilon = _epsilon_without_slack(lines, delta * (1 - share), method)
        if _slack(lines, epsilon) <= share * delta:
            return epsilon
    # Beyond the precision of the noise: two halves, each certified by itself, add up.
    halves = _halves(lines)
    return sum(epsilon_of(half, delta / 2, method) for half in halves) if halves else math.inf


def _halves(lines: Lines) -> tuple[Lines, Lines] | None:
    if sum(count for _, count in lines) < 2:
        return None
    if len(lines) > 1:
        return lines[: len(lines) // 2], lines[len(lines) // 2 :]
    event, count = lines[0]
    return ((event, count // 2),), ((event, count - count // 2),)


def _epsilon_without_slack(lines: Lines, delta: float, method: Method) -> float:
    added, rest = _split(lines)
    if not rest:
        return added
    match method:
        case "pld":
            epsilon = _pld_epsilon(rest, delta)
        case "rdp":
            epsilon = _rdp_epsilon(rest, delta)
        case "zcdp":
            epsilon = _zcdp_epsilon(_rho(rest), delta)
    return added + min(epsilon, sum_of_pure(rest))


def delta_of(lines: Lines, epsilon: float, method: Method) -> float:
    """The delta at which the price and the slack of the samplers together hold for `epsilon`."""
    return min(1.0, _delta_without_slack(lines, epsilon, method) + _slack(lines, epsilon))


def _delta_without_slack(lines: Lines, epsilon: float, method: Method) -> float:
    added, rest = _split(lines)
    epsilon -= added
    if epsilon < 0:
        return 1.0
    if epsilon >= sum_of_pure(rest):
        return 0.0
    match method:
        case "pld":
            return _pld_delta(rest, epsilon)
        case "rdp":
            return _rdp_delta(rest, epsilon)
        case "zcdp":
            return _zcdp_delta(_rho(rest), epsilon)


def _split(lines: Lines) -> tuple[float, Lines]:
    """The sum of the large pure epsilons, which only add up, and the other lines."""
    large = [(e, n) for e, n in lines if isinstance(e, PureEvent | LaplaceEvent) and e.epsilon > _LARGE_PURE]
    return sum_of_pure(tuple(large)), tuple(line for line in lines if line not in large)


def sum_of_pure(lines: Lines) -> float:
    """The epsilon at delta 0: infinite unless every event is pure."""
    return math.fsum(e.epsilon * n if isinstance(e, PureEvent | LaplaceEvent) else math.inf for e, n in lines)


# --- privacy loss distributions


def _pld_epsilon(lines: Lines, delta: float) -> float:
    multiplier = _gaussian_only(lines)
    if multiplier is not None:
        return gaussian_epsilon(multiplier, delta)
    composed, fine = _composed(lines)
    if composed is None or delta < 2 * composed.allowance:
        return _rdp_epsilon(lines, delta)
    epsilon = composed.epsilon(delta)
    return epsilon if fine and delta >= _CLEAR * composed.allowance else min(epsilon, _rdp_epsilon(lines, delta))


def _pld_delta(lines: Lines, epsilon: float) -> float:
    multiplier = _gaussian_only(lines)
    if multiplier is not None:
        return gaussian_delta(multiplier, epsilon)
    composed, fine = _composed(lines)
    if composed is None or epsilon > losses.LARGEST_LOSS:
        return _rdp_delta(lines, epsilon)
    delta = composed.delta(epsilon)
    return delta if fine and delta >= _CLEAR * composed.allowance else min(delta, _rdp_delta(lines, epsilon))


def _gaussian_only(lines: Lines) -> float | None:
    """The multiplier of the one Gaussian that unsampled Gaussian events amount to; None if there are others."""
    whole = [(e, n) for e, n in lines if isinstance(e, GaussianEvent) and e.sampling_probability == 1]
    return 1 / math.sqrt(math.fsum(n / e.noise_multiplier**2 for e, n in whole)) if len(whole) == len(lines) else None


@lru_cache(maxsize=16)  # of some megabytes each
def _composed(lines: Lines) -> tuple[losses.Composed | None, bool]:
    """The losses together, None where they are out of reach; and whether their grid is as fine as is wanted."""
    pairs = _pairs(lines)
    if max(count for _, count in lines) > _PLD_LARGEST_COUNT or losses.out_of_reach(pairs):
        return None, False
    return losses.compose(pairs), losses.discretisation(pairs)[1]


def _pairs(lines: Lines) -> list[tuple[losses.LossPair, int]]:
    """Of each event; unsampled Gaussians go in as one."""
    whole = tuple(line for line in lines if _gaussian_only((line,)) is not None)
    pairs = [(_pair(event), count) for event, count in lines if (event, count) not in whole]
    return [*pairs, (losses.gaussian_pair(cast(float, _gaussian_only(whole))), 1)] if whole else pairs


def _pair(event: Event) -> losses.LossPair:
    match event:
        case PureEvent():
            return losses.response_pair(event.epsilon)
        case LaplaceEvent():
            return losses.laplace_pair(event.noise_multiplier, event.sampling_probability)
        case GaussianEvent():
            return losses.gaussian_pair(event.noise_multiplier, event.sampling_probability)
        case ConcentratedEvent():
            raise ValueError(
                "a zCDP event (discrete Gaussian noise below 512 grid steps) has no privacy loss distribution: "
                "use method='rdp', or a finer grid"
            )
        case SkellamEvent():
            raise ValueError("Skellam noise has a Renyi bound and no privacy loss distribution: use method='rdp'")


# --- Renyi differential privacy


def _rdp_epsilon(lines: Lines, delta: float) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant

    return float(rdp_privacy_accountant.compute_epsilon(_orders(), _rdp(lines), delta)[0])


def _rdp_delta(lines: Lines, epsilon: float) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant

    return float(rdp_privacy_accountant.compute_delta(_orders(), _rdp(lines), epsilon)[0])


@lru_cache(maxsize=1)
def _orders() -> NDArray[np.float64]:
    from dp_accounting.rdp import rdp_privacy_accountant

    return np.array([1.01, 1.02, 1.05, *rdp_privacy_accountant.DEFAULT_RDP_ORDERS])


def _rdp(lines: Lines) -> NDArray[np.float64]:
    return cast(NDArray[np.float64], sum(count * _rdp_of_one(event) for event, count in lines))


@lru_cache(maxsize=4096)
def _rdp_of_one(event: Event) -> NDArray[np.float64]:
    orders = _orders()
    match event:
        case PureEvent() | LaplaceEvent():
            # The curve of binary randomized response, which every epsilon-DP mechanism is a function of.
            log_keep = -math.log1p(math.exp(-event.epsilon))
            log_flip = log_keep - event.epsilon
            same = orders * log_keep + (1 - orders) * log_flip
            other = orders * log_flip + (1 - orders) * log_keep
            return np.logaddexp(same, other) / (orders - 1)
        case ConcentratedEvent():
            return orders * event.rho
        case SkellamEvent():
            return _skellam_rdp(event, orders)
        case GaussianEvent(sampling_probability=1):
            return orders / (2 * event.noise_multiplier**2)
        case GaussianEvent():
            import dp_accounting
            from dp_accounting import rdp

            _quiet()

            accountant = rdp.RdpAccountant(orders)
            gaussian = dp_accounting.GaussianDpEvent(event.noise_multiplier)
            accountant.compose(dp_accounting.PoissonSampledDpEvent(event.sampling_probability, gaussian))
            return cast(NDArray[np.float64], accountant.rdp)


def _skellam_rdp(event: SkellamEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Source: Agarwal, Kairouz, Liu 2021, Theorem 3.5, for whole orders; (order - 1) times the divergence is convex."""

    def at(order: NDArray[np.float64]) -> NDArray[np.float64]:
        square, variance = event.l2_sensitivity**2, event.variance
        extra = ((2 * order - 1) * square + 6 * event.l1_sensitivity) / (4 * variance**2)
        return order * square / (2 * variance) + np.minimum(extra, 3 * event.l1_sensitivity / (2 * variance))

    below, above = np.floor(orders), np.ceil(orders)
    part = orders - below
    moment = (1 - part) * (below - 1) * at(below) + part * (above - 1) * at(above)
    return cast(NDArray[np.float64], moment / (orders - 1))


# --- zero-concentrated differential privacy


def _rho(lines: Lines) -> float:
    total = 0.0
    for event, count in lines:
        match event:
            case PureEvent() | LaplaceEvent():
                total += count * event.epsilon**2 / 2  # Bun and Steinke 2016, Proposition 3
            case ConcentratedEvent():
                total += count * event.rho
            case SkellamEvent():
                raise ValueError("the bound for Skellam noise is not one of zCDP: use method='rdp'")
            case GaussianEvent():
                if event.sampling_probability < 1:
                    raise ValueError(
                        "zCDP is not amplified by subsampling: a bound that ignores the sampling would hold but say "
                        "nothing. Use method='pld' or 'rdp' for a sampling probability of "
                        f"{event.sampling_probability:.4g}"
                    )
                total += count / (2 * event.noise_multiplier**2)
    return total


def _zcdp_epsilon(rho: float, delta: float) -> float:
    """The least epsilon over all Renyi orders. Source: Canonne, Kamath, Steinke 2020, Corollary 13."""

    def at(log_excess: float) -> float:
        excess = math.exp(log_excess)  # order - 1
        order = 1 + excess
        return rho * order + (-math.log(delta) - math.log(order)) / excess + math.log(excess / order)

    return max(0.0, _minimum(at))


def _zcdp_delta(rho: float, epsilon: float) -> float:
    def at(log_excess: float) -> float:
        excess = math.exp(log_excess)
        order = 1 + excess
        return excess * (order * rho - epsilon) + excess * log_excess - order * math.log(order)

    return min(1.0, math.exp(min(0.0, _minimum(at))))


def _minimum(function: Callable[[float], float]) -> float:
    """The least value over a grid of logarithms, refined; any point is a valid bound, so that precision is no risk."""
    from scipy.optimize import minimize_scalar

    points = np.linspace(-12, 12, 481)
    values = [function(float(point)) for point in points]
    best = int(np.argmin(values))
    low, high = points[max(0, best - 1)], points[min(480, best + 1)]
    return min(values[best], float(minimize_scalar(function, bounds=(low, high), method="bounded").fun))


@lru_cache(maxsize=1)
def _quiet() -> None:
    """dp-accounting reports each Renyi order that it leaves out, at which the others answer: not for a terminal."""
    from importlib import import_module

    converge: Callable[[Any], bool] = lambda record: "failed to converge" not in record.getMessage()  # noqa: E731
    import_module("absl.logging").get_absl_logger().addFilter(converge)
