"""What a round costs in privacy, known before the first one.

Two ledgers, because their guarantees differ, and a third where a run has both:

    local       what leaves a client by itself, for replacing all its data, against everybody: noisy updates, noisy
                inference vectors. Counted from the moment a client is sent the model, whether it answers or not.
    central     the sums that secure aggregation opens, for zeroing out one client, against anyone who sees them.
    composed    the events of both, for zeroing out one client, against the coordinator: it sees the sums and the
                vectors. See `as_zero_out`.

The coordinator, each client and `tacit plan` price with the same functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from tacit.dp.accounting import Budget, Ledger, Reading, reading
from tacit.dp.release import Event, PureEvent
from tacit.kinds.horizontal.protections import price_of, protections_of
from tacit.kinds.horizontal.protections.contract import Cost, Covers
from tacit.kinds.horizontal.settings import Settings

View = Literal["local", "central", "composed", "records"]  # the last: see `record_level`


@dataclass(frozen=True, slots=True)
class Spent:
    """A ledger and what it amounts to."""

    view: View
    covers: tuple[Covers, ...]
    ledger: Ledger
    epsilon: float
    delta: float
    against: str = ""  # for whom and against whom, if its view does not say it

    def reading(self) -> Reading:
        """What it allows an attacker; everything, where the noise is not secret."""
        if math.isinf(self.epsilon):
            return reading(math.inf)
        return self.ledger.reading("pld" if self.view in ("local", "records") else "rdp")

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "covers": list(self.covers),
            **self.ledger.to_json(),
            "epsilon": "infinite" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            **({"against": self.against} if self.against else {}),
        }


class Costs:
    """The price list of a federation whose model has `size` numbers."""

    def __init__(self, settings: Settings, size: int) -> None:
        self.settings = settings
        prices = [price_of(each, settings, size) for each in protections_of(settings)]
        self.local: list[Cost] = [cost for price in prices for cost in price.local]
        self.central: list[Cost] = [cost for price in prices for cost in price.central]
        self.limit = settings.updates.limit(settings)

    def spent(self, uploads: int, sums: int) -> list[Spent]:
        """What a client that was sent the model `uploads` times paid, and what `sums` opened sums cost.

        Infinite where the noise is not secret.
        """
        return [replace(spent, epsilon=self._true(spent.epsilon)) for spent in self._priced(uploads, sums)]

    def _priced(self, uploads: int, sums: int) -> list[Spent]:
        found = []
        if self.local:
            ledger = self.local_ledger(uploads)
            pure = all(isinstance(cost.event, PureEvent) for cost in self.local)
            delta = 0.0 if pure else self._local_delta
            epsilon = ledger.pure_epsilon() if pure else ledger.epsilon(delta)
            found.append(Spent("local", tuple(cost.covers for cost in self.local), ledger, epsilon, delta))
        if self.central:
            ledger, delta = self.central_ledger(sums), self._central_delta
            epsilon = ledger.epsilon(delta, "rdp")
            found.append(Spent("central", tuple(cost.covers for cost in self.central), ledger, epsilon, delta))
        if self.local and self.central:
            ledger, delta = self.composed_ledger(uploads, sums), self._composed_delta
            covers = tuple(cost.covers for cost in (*self.central, *self.local))
            found.append(Spent("composed", covers, ledger, ledger.epsilon(delta, "rdp"), delta))
        return found

    def local_ledger(self, uploads: int = 0) -> Ledger:
        """With the budget of the file, if it names one."""
        limit = self.settings.budget
        budget = Budget(limit.epsilon, self._local_delta) if limit else None
        return _filled(Ledger("client", "replace-one"), self.local, uploads, budget)

    def central_ledger(self, sums: int = 0) -> Ledger:
        """Its budget is what the noise was sized for; that of the file if it was not sized for a whole run."""
        limit = self.limit or self.settings.budget
        budget = Budget(limit.epsilon, self._central_delta, "rdp") if limit else None
        return _filled(Ledger("client", "zero-out"), self.central, sums, budget)

    def composed_ledger(self, uploads: int = 0, sums: int = 0) -> Ledger:
        """With the budget of the file, if it names one.

        Guarantee: for zeroing out one client, against anyone who sees the sums, the vectors and all models.
        Assumes: what `as_zero_out` does of the local events, and at most `settings.colluders` in each sum.
        Source: Mironov 2017, Proposition 1: Renyi divergences of adaptive releases add up, in any order.
        """
        limit = self.settings.budget
        ledger = _filled(Ledger("client", "zero-out"), self.central, sums, None)
        local = [replace(cost, event=as_zero_out(cost.event)) for cost in self.local]
        return _filled(ledger, local, uploads, Budget(limit.epsilon, self._composed_delta, "rdp") if limit else None)

    @property
    def _composed_delta(self) -> float:
        """That of the sums, or the budget's if that is smaller."""
        limit, delta = self.settings.budget, self._central_delta
        return min(delta, (limit.delta if limit else None) or delta)

    @property
    def _central_delta(self) -> float:
        return self._local_delta if self.limit is None else self.limit.delta

    @property
    def _local_delta(self) -> float:
        limit = self.settings.budget
        return (limit.delta if limit else None) or self.settings.delta

    def inference_epsilon(self, uploads: int) -> float | None:
        """What a client's inference vectors cost it together, at delta 0; None where they have no epsilon."""
        costs = [cost for cost in self.local if cost.covers == "inference vectors"]
        if not costs:
            return None
        return self._true(_filled(Ledger("client", "replace-one"), costs, uploads, None).pure_epsilon())

    def beyond(self, uploads: int, sums: int) -> Spent | None:
        """The ledger that so many uploads and sums would bring above its budget, if any."""
        for spent in self._priced(uploads, sums):
            if spent.ledger.budget is not None and spent.epsilon > spent.ledger.budget.epsilon:
                return spent
        return None

    def affordable(self, uploads: int, sums: int, left: int) -> int:
        """How many of so many further uploads the budgets pay for."""
        low, high = 0, left
        while low < high:
            middle = (low + high + 1) // 2
            if self.beyond(uploads + middle, sums + middle) is None:
                low = middle
            else:
                high = middle - 1
        return low

    def _true(self, epsilon: float) -> float:
        return math.inf if self.settings.simulation.insecure_noise_seed is not None else epsilon


def as_zero_out(event: Event) -> Event:
    """The same mechanism under zero-out, where it was priced for replace-one.

    Guarantee: what holds for replacing all of a client's data by any other holds for replacing them by none.
    Assumes: a client without data still sends its messages, made from values that some data could give: a zero update,
    and the uniform vector, a point of the simplex, for each of its inference vectors. Clients do exactly that where
    their training fails (`Client._update`, `Client._infer`). A client that sent no vectors at all would not be covered:
    who takes part is in the clear.
    """
    return replace(event, relation="zero-out")


def _filled(ledger: Ledger, costs: list[Cost], rounds: int, budget: Budget | None) -> Ledger:
    """A ledger in which so many rounds were paid; its budget binds what is spent from now on."""
    for cost in costs if rounds else ():
        ledger.spend(cost.event, cost.count * rounds)
    ledger.budget = budget
    return ledger
