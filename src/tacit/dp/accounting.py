"""What a run's releases cost together.

    Ledger(unit, relation, budget)      events with counts; epsilon(delta), delta(epsilon), trade_off, JSON
    Budget(epsilon, delta)              a release that would exceed it raises BudgetError: nothing is spent or released
    reading(epsilon, delta)             what an epsilon means for an attacker who guesses; strength(epsilon) in a word

Three methods price the same events: `pld` (default), `rdp` and `zcdp`; see `pricing`. Order does not matter; events
may be chosen on the outcome of earlier ones only with a count fixed ahead.
"""

from __future__ import annotations

import math
import threading
from dataclasses import asdict, dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.dp.pricing import Lines, Method, delta_of, epsilon_of, sum_of_pure
from tacit.dp.release import (
    ConcentratedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
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

__all__ = ["Budget", "Ledger", "Reading", "reading", "strength"]

T = TypeVar("T")

HIDES_NOTHING = 10.0  # above this epsilon; e^10 is 22,026
_LARGEST_COUNT = 10**12
_KINDS: dict[str, type[Event]] = {
    "pure": PureEvent,
    "laplace": LaplaceEvent,
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
                spent = epsilon_of(tuple(lines.items()), self.budget.delta, self.budget.method)
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
        return epsilon_of(lines, self.budget.delta, self.budget.method) <= self.budget.epsilon

    def _with(self, event: Event, count: int) -> dict[Event, int]:
        if event.unit != self.unit or event.relation != self.relation:
            raise ValueError(
                f"this ledger is for {self.unit}s under {self.relation}, the event for {event.unit}s under "
                f"{event.relation}: keep one ledger for each"
            )
        return {**self._counts, event: self._counts.get(event, 0) + check_count("count", count)}

    def epsilon(self, delta: float, method: Method = "pld") -> float:
        """The epsilon that holds at `delta`; infinite if it is beyond the precision of the noise."""
        check_choice("method", method, Method)
        return epsilon_of(self.lines, check_delta(delta), method)

    def delta(self, epsilon: float, method: Method = "pld") -> float:
        """The delta that holds at `epsilon`."""
        epsilon = check_epsilon(epsilon)
        check_choice("method", method, Method)
        return delta_of(self.lines, epsilon, method)

    def pure_epsilon(self) -> float:
        """The epsilon that holds at delta = 0: the sum, infinite unless every event is pure."""
        return sum_of_pure(self.lines)

    def trade_off(self, false_positive_rates: ArrayLike, method: Method = "pld") -> NDArray[np.float64]:
        """The least false-negative rate of any attacker at each false-positive rate.

        Source: Dong, Roth, Su 2022, Proposition 2.12: the supremum over epsilon of the (epsilon, delta) curves.
        """
        check_choice("method", method, Method)
        rates = np.asarray(false_positive_rates, dtype=np.float64)
        if rates.size == 0 or not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError("false_positive_rates must be numbers in [0, 1]")
        missed = np.zeros_like(rates)
        for epsilon, delta in self._curve(method):
            missed = np.maximum(missed, _missed(rates, epsilon, delta))
        return missed

    def reading(self, method: Method = "pld") -> Reading:
        """What these events allow an attacker who guesses: every (epsilon, delta) that holds is a bound."""
        curve = self._curve(method)
        each = [reading(epsilon, delta) for epsilon, delta in curve if delta < 1]
        if not each:
            return reading(math.inf, 0.0)
        return Reading(
            max(found.epsilon for found in each),
            min(found.delta for found in each),
            1 / (1 + math.exp(-self.pure_epsilon())),
            min(found.accuracy for found in each),
            min(found.true_positives_at_1_percent for found in each),
        )

    def _curve(self, method: Method) -> list[tuple[float, float]]:
        """Some of the (epsilon, delta) that hold together."""
        top = max(1e-3, epsilon_of(self.lines, 1e-9, method))
        if math.isinf(top):
            return []
        return [(float(epsilon), self.delta(float(epsilon), method)) for epsilon in np.linspace(0.0, top, 200)]

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
            f"of two equally likely inputs an attacker names the right one at most {_up(self.accuracy)} of the time; "
            f"at 1% false positives he finds at most {_up(self.true_positives_at_1_percent)} of the true ones"
        )


def _up(rate: float) -> str:
    """In percent, rounded up: it is a bound."""
    return f"{min(100.0, math.ceil(rate * 1000 - 1e-9) / 10):g}%"


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


def strength(epsilon: float) -> str:
    """What an epsilon is worth, in a word or two."""
    if epsilon <= 1:
        return "a strong promise"
    if epsilon <= 3:
        return "a fair promise"
    if epsilon <= HIDES_NOTHING:
        return "a weak promise"
    return "promises nothing" if math.isinf(epsilon) else "hides nothing"
