"""What events cost together: epsilon at a delta and delta at an epsilon, by three methods.

`pld` composes privacy loss distributions; unsampled Gaussian events it adds up analytically, without discretisation.
`rdp` composes Renyi curves: an upper bound, fast, close to it. `zcdp` converts rho optimally, for unsampled events
only: subsampling does not amplify zCDP. An upper bound is returned in every case.

Noise multipliers are relative to the sensitivity of the event's own relation (see `release`), so that an unsampled
Gaussian costs the same under each. dp-accounting is therefore always asked for add-remove: its PLD would double a
sensitivity for replace-one that is doubled already, its RDP would not.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from tacit.dp.gaussian import gaussian_delta, gaussian_epsilon
from tacit.dp.release import ConcentratedEvent, Event, GaussianEvent, PureEvent, SkellamEvent

Method = Literal["pld", "rdp", "zcdp"]
Lines = tuple[tuple[Event, int], ...]

FINEST_INTERVAL = 1e-4  # discretisation of privacy losses, for an epsilon from 0.1 to 20; rounding is pessimistic
_PLD_LARGEST_COUNT = 10**6  # of one event, ...
_PLD_LARGEST_EPSILON = 500.0  # ... and by RDP: beyond these the distributions get too large, and RDP is close
_PLD_SMALLEST_DELTA = 1e-10
_PLD_ALLOWANCE = 1e-12  # of delta, for the rounding errors of Fourier transforms (seen: 1e-14)
_LARGE_PURE = 20.0  # above it, composing pure events gains next to nothing over adding their epsilons


def _slack(lines: Lines, epsilon: float) -> float:
    """(1 + e^epsilon) times the statistical distances of the samplers."""
    return math.exp(min(700.0, _log_slack(lines) + np.logaddexp(0.0, epsilon)))


def _log_slack(lines: Lines) -> float:
    slacks = [
        event.log2_slack * math.log(2) + math.log(count)
        for event, count in lines
        if not isinstance(event, PureEvent) and event.log2_slack is not None
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
    large = [(e, n) for e, n in lines if isinstance(e, PureEvent) and e.epsilon > _LARGE_PURE]
    return math.fsum(e.epsilon * n for e, n in large), tuple(line for line in lines if line not in large)


def sum_of_pure(lines: Lines) -> float:
    """The epsilon at delta 0: infinite unless every event is pure."""
    return math.fsum(e.epsilon * n if isinstance(e, PureEvent) else math.inf for e, n in lines)


# --- privacy loss distributions


def _pld_epsilon(lines: Lines, delta: float) -> float:
    multiplier = _gaussian_only(lines)
    if multiplier is not None:
        return gaussian_epsilon(multiplier, delta)
    bound = _rdp_epsilon(lines, delta)
    if delta < _PLD_SMALLEST_DELTA or not _within_reach(lines):
        return bound
    distribution = _pld(lines, discretisation(lines))
    return min(bound, float(distribution.get_epsilon_for_delta(delta - _PLD_ALLOWANCE)))


def _pld_delta(lines: Lines, epsilon: float) -> float:
    multiplier = _gaussian_only(lines)
    if multiplier is not None:
        return gaussian_delta(multiplier, epsilon)
    bound = _rdp_delta(lines, epsilon)
    if not _within_reach(lines):
        return bound
    distribution = _pld(lines, discretisation(lines))
    return min(bound, float(distribution.get_delta_for_epsilon(epsilon)) + _PLD_ALLOWANCE)


def _within_reach(lines: Lines) -> bool:
    """Whether privacy loss distributions of a moderate size do."""
    _refuse_without_distribution(lines)
    return max(count for _, count in lines) <= _PLD_LARGEST_COUNT and _rdp_epsilon(lines, 1e-6) <= _PLD_LARGEST_EPSILON


def _gaussian_only(lines: Lines) -> float | None:
    """The multiplier of the one Gaussian that unsampled Gaussian events amount to; None if there are others."""
    whole = [(e, n) for e, n in lines if isinstance(e, GaussianEvent) and e.sampling_probability == 1]
    return 1 / math.sqrt(math.fsum(n / e.noise_multiplier**2 for e, n in whole)) if len(whole) == len(lines) else None


def discretisation(lines: Lines) -> float:
    """The interval to which privacy losses are rounded up: 1e-4, coarser above an epsilon of 20, finer below 0.1."""
    _refuse_without_distribution(lines)
    epsilon = _rdp_epsilon(lines, 1e-6)
    return FINEST_INTERVAL * max(math.ceil(epsilon / 20), 1) * min(1.0, max(10 * epsilon, 1e-3))


def _refuse_without_distribution(lines: Lines) -> None:
    if any(isinstance(event, ConcentratedEvent) for event, _ in lines):
        raise ValueError(
            "a zCDP event (discrete Gaussian noise below 512 grid steps) has no privacy loss distribution: "
            "use method='rdp', or a finer grid"
        )
    if any(isinstance(event, SkellamEvent) for event, _ in lines):
        raise ValueError("Skellam noise has a Renyi bound and no privacy loss distribution: use method='rdp'")


_composed: OrderedDict[tuple[Lines, float], Any] = OrderedDict()  # the latest few: a growing ledger extends its own
_composed_lock = threading.Lock()


def _pld(lines: Lines, interval: float) -> Any:
    """The composed distribution. Unsampled Gaussians go in as one, last."""
    from dp_accounting.pld import privacy_loss_distribution as distribution

    whole = tuple(line for line in lines if _gaussian_only((line,)) is not None)
    rest = tuple(line for line in lines if line not in whole)
    with _composed_lock:
        if (lines, interval) in _composed:
            return _composed[lines, interval]
        known = max((k for k in range(1, len(rest) + 1) if (rest[:k], interval) in _composed), default=0)
        composed = _composed[rest[:known], interval] if known else None
        for k in range(known, len(rest)):
            event, count = rest[k]
            part = _pld_of_one(event, interval)
            part = part.self_compose(count) if count > 1 else part
            composed = part if composed is None else composed.compose(part)
            if k >= len(rest) - 2:  # the last line often grows: keep what came before it too
                _composed[rest[: k + 1], interval] = composed
        if whole:
            multiplier = cast(float, _gaussian_only(whole))
            part = distribution.from_gaussian_mechanism(multiplier, value_discretization_interval=interval)
            composed = part if composed is None else composed.compose(part)
        _composed[lines, interval] = composed
        while len(_composed) > 8:
            _composed.popitem(last=False)
    return composed


@lru_cache(maxsize=256)
def _pld_of_one(event: Event, interval: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as distribution

    match event:
        case PureEvent():
            parameters = common.DifferentialPrivacyParameters(event.epsilon, 0.0)
            return distribution.from_privacy_parameters(parameters, value_discretization_interval=interval)
        case GaussianEvent():
            return distribution.from_gaussian_mechanism(
                event.noise_multiplier,
                value_discretization_interval=interval,
                sampling_prob=event.sampling_probability,
            )
    raise AssertionError(event)


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
        case PureEvent():
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
            case PureEvent():
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
