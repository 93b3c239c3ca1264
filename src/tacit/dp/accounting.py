"""What a run's releases cost together.

    Ledger(unit, relation, budget)      events with counts; epsilon(delta), delta(epsilon), trade_off, JSON
    Budget(epsilon, delta)              a release that would exceed it raises BudgetError: nothing is spent or released
    reading(epsilon, delta)             what an epsilon means for somebody who guesses

Three methods price the same events. `pld` (default) composes privacy loss distributions; unsampled Gaussian events it
adds up analytically, without discretisation. `rdp` composes Renyi curves: an upper bound, fast, close to it. `zcdp`
converts rho optimally, for unsampled events only: subsampling does not amplify zCDP. An upper bound is returned in
every case. Order does not matter; events may be chosen on the outcome of earlier ones only with a count fixed ahead.

Noise multipliers are relative to the sensitivity of the event's own relation (see `release`), so that an unsampled
Gaussian costs the same under each. dp-accounting is therefore always asked for add-remove: its PLD would double a
sensitivity for replace-one that is doubled already, its RDP would not.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from tacit.dp.gaussian import gaussian_delta, gaussian_epsilon
from tacit.dp.release import (
    ConcentratedEvent,
    Event,
    GaussianEvent,
    PureEvent,
    Relation,
    Released,
    SkellamEvent,
    Unit,
    check_choice,
    check_delta,
    check_epsilon,
    check_positive,
    number,
)
from tacit.errors import BudgetError

Method = Literal["pld", "rdp", "zcdp"]
Lines = tuple[tuple[Event, int], ...]
T = TypeVar("T")

FINEST_INTERVAL = 1e-4  # discretisation of privacy losses, for an epsilon from 0.1 to 20; rounding is pessimistic
_LARGEST_COUNT = 10**12
_PLD_LARGEST_COUNT = 10**6  # of one event, ...
_PLD_LARGEST_EPSILON = 500.0  # ... and by RDP: beyond these the distributions get too large, and RDP is close
_PLD_SMALLEST_DELTA = 1e-10
_PLD_ALLOWANCE = 1e-12  # of delta, for the rounding errors of Fourier transforms (seen: 1e-14)
_LARGE_PURE = 20.0  # above it, composing pure events gains next to nothing over adding their epsilons
_KINDS: dict[str, type[Event]] = {
    "pure": PureEvent,
    "gaussian": GaussianEvent,
    "concentrated": ConcentratedEvent,
    "skellam": SkellamEvent,
}


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the releases of one ledger may cost."""

    epsilon: float
    delta: float
    method: Method = "pld"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))
        check_choice("method", self.method, Method)


class Ledger:
    """The events of one unit under one neighbouring relation."""

    def __init__(self, unit: Unit, relation: Relation, budget: Budget | None = None) -> None:
        check_choice("unit", unit, Unit)
        check_choice("relation", relation, Relation)
        self.unit = unit
        self.relation = relation
        self.budget = budget
        self._counts: dict[Event, int] = {}
        self._lock = threading.Lock()  # two threads must not both be told that there is room for one

    @property
    def lines(self) -> Lines:
        """Each distinct event with how often it happened."""
        return tuple(self._counts.items())

    def spend(self, event: Event, count: int = 1) -> None:
        """Record `count` occurrences, or raise BudgetError and record nothing."""
        with self._lock:
            lines = self._with(event, count)
            if self.budget is not None:
                spent = _epsilon(tuple(lines.items()), self.budget.delta, self.budget.method)
                if not spent <= self.budget.epsilon:
                    raise BudgetError(
                        f"this release would bring epsilon to {spent:.4g} at delta {self.budget.delta:.3g}, the budget "
                        f"is {self.budget.epsilon:.4g}: stop here, add noise or raise the budget"
                    )
            self._counts = lines

    def release(self, released: Released[T], count: int = 1) -> T:
        """Spend what `released` cost and hand out its value; over budget the value stays in."""
        self.spend(released.event, count)
        return released.value

    def affords(self, event: Event, count: int = 1) -> bool:
        """Whether `count` further occurrences stay within the budget."""
        if self.budget is None:
            return True
        lines = tuple(self._with(event, count).items())
        return _epsilon(lines, self.budget.delta, self.budget.method) <= self.budget.epsilon

    def _with(self, event: Event, count: int) -> dict[Event, int]:
        if event.unit != self.unit or event.relation != self.relation:
            raise ValueError(
                f"this ledger is for {self.unit}s under {self.relation}, the event for {event.unit}s under "
                f"{event.relation}: keep one ledger for each"
            )
        return {**self._counts, event: self._counts.get(event, 0) + check_count("count", count)}

    def epsilon(self, delta: float, method: Method = "pld") -> float:
        """The epsilon that holds at `delta`; infinite where it is beyond the precision of the noise."""
        check_choice("method", method, Method)
        return _epsilon(self.lines, check_delta(delta), method)

    def delta(self, epsilon: float, method: Method = "pld") -> float:
        """The delta that holds at `epsilon`."""
        epsilon = check_epsilon(epsilon)
        check_choice("method", method, Method)
        return min(1.0, _delta(self.lines, epsilon, method) + _slack(self.lines, epsilon))

    def pure_epsilon(self) -> float:
        """The epsilon that holds at delta = 0: the sum, infinite unless every event is pure."""
        return _sum_of_pure(self.lines)

    def trade_off(self, false_positive_rates: ArrayLike, method: Method = "pld") -> NDArray[np.float64]:
        """The least false-negative rate of any attacker at each false-positive rate.

        Source: Dong, Roth, Su 2022, Proposition 2.12: the supremum over epsilon of the (epsilon, delta) curves.
        """
        check_choice("method", method, Method)
        rates = np.asarray(false_positive_rates, dtype=np.float64)
        if rates.size == 0 or not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError("false_positive_rates must be numbers in [0, 1]")
        top = max(1e-3, _epsilon(self.lines, 1e-9, method))
        if math.isinf(top):
            return np.zeros_like(rates)
        missed = np.zeros_like(rates)
        for epsilon in np.linspace(0.0, top, 200):
            missed = np.maximum(missed, _missed(rates, float(epsilon), self.delta(float(epsilon), method)))
        return missed

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; `from_json` gives the same ledger back."""
        names = {kind: name for name, kind in _KINDS.items()}
        lines = [{"kind": names[type(e)], "count": n, **_own_fields(e)} for e, n in self.lines]
        budget = asdict(self.budget) if self.budget else None
        return {"version": 1, "unit": self.unit, "relation": self.relation, "budget": budget, "lines": lines}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Ledger:
        try:
            if data["version"] != 1 or isinstance(data["version"], bool):
                raise ValueError(f"a ledger of version {data['version']!r} is not known here, only 1")
            budget = None if data["budget"] is None else Budget(**data["budget"])
            ledger = cls(data["unit"], data["relation"])
            for line in data["lines"]:
                fields = {key: value for key, value in line.items() if key not in ("kind", "count")}
                event = _KINDS[line["kind"]](unit=ledger.unit, relation=ledger.relation, **fields)
                ledger.spend(event, line["count"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a ledger: {error}") from error
        ledger.budget = budget  # what was spent is spent, within the budget or not
        return ledger


def check_count(name: str, count: object) -> int:
    """A whole number from 1 to 10^12, as a Python int."""
    if isinstance(count, int | np.integer) and not isinstance(count, bool) and 1 <= count <= _LARGEST_COUNT:
        return int(count)
    raise ValueError(f"{name} must be a whole number of at least 1 and at most {_LARGEST_COUNT:g}, got {count!r}")


def _own_fields(event: Event) -> dict[str, Any]:
    return {key: value for key, value in asdict(event).items() if key not in ("unit", "relation")}


@dataclass(frozen=True, slots=True)
class Reading:
    """What (epsilon, delta) allows an attacker who must tell two neighbouring inputs apart."""

    epsilon: float
    delta: float
    posterior: float  # most he may believe in the true one after a 50% prior if delta is 0; rare outcomes may tell more
    accuracy: float  # of his best guess between the two after a 50% prior
    true_positives_at_1_percent: float  # rate, at 1% false positives

    def __str__(self) -> str:
        return (
            f"of two equally likely inputs an attacker names the right one at most {self.accuracy:.4%} of the time; at "
            f"1% false positives he finds at most {self.true_positives_at_1_percent:.4%} of the true ones"
        )


def reading(epsilon: float, delta: float = 0.0) -> Reading:
    """The operational meaning of an (epsilon, delta) guarantee.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 2.1 (the region of error rates).
    """
    if not number(epsilon) >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    if not 0 <= number(delta) < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}")
    epsilon, delta = number(epsilon), number(delta)
    odds = math.exp(-epsilon)
    missed = float(_missed(np.array([0.01]), epsilon, delta)[0])
    return Reading(epsilon, delta, 1 / (1 + odds), (1 + delta * odds) / (1 + odds), 1 - missed)


def _missed(rates: NDArray[np.float64], epsilon: float, delta: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        steep = 1 - delta - np.exp(np.log(np.maximum(rates, 1e-320)) + epsilon)
    return cast(NDArray[np.float64], np.maximum(0.0, np.maximum(steep, math.exp(-epsilon) * (1 - delta - rates))))


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
def _epsilon(lines: Lines, delta: float, method: Method) -> float:
    """The epsilon at which the price and the slack of the samplers together stay within `delta`."""
    if _log_slack(lines) == -math.inf:
        return _epsilon_without_slack(lines, delta, method)
    for share in (1e-10, 0.5):
        epsilon = _epsilon_without_slack(lines, delta * (1 - share), method)
        if _slack(lines, epsilon) <= share * delta:
            return epsilon
    # Beyond the precision of the noise: two halves, each certified by itself, add up.
    halves = _halves(lines)
    return sum(_epsilon(half, delta / 2, method) for half in halves) if halves else math.inf


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
    return added + min(epsilon, _sum_of_pure(rest))


def _delta(lines: Lines, epsilon: float, method: Method) -> float:
    added, rest = _split(lines)
    epsilon -= added
    if epsilon < 0:
        return 1.0
    if epsilon >= _sum_of_pure(rest):
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


def _sum_of_pure(lines: Lines) -> float:
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
