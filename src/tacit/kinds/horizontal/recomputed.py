"""A federation's epsilons, computed again from its file and from how many rounds its events tell of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tacit.dp.accounting import Ledger
from tacit.events import Answered, Event, RoundFinished, RoundStarted, RunResumed, RunStarted
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.record_level import RECORDS
from tacit.kinds.horizontal.settings import Settings
from tacit.report.recomputed import Check, check, count_of, same


def recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    """The noise of every ledger, and the epsilon of every round.

    The price list is made of the file alone. How often a client was asked, or a sum opened, is looked for among the
    rounds that were begun until then: an epsilon that fits no such number does not hold.
    """
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    if started is None:
        yield Check("epsilon of each round", "not checked", "the events do not say how large the model is")
        return
    costs = Costs(settings, started.parameters)
    begun = sum(isinstance(event, RoundStarted | RunResumed) for event in events)
    most = max(begun, settings.answers) + 1
    yield from _noise(costs, ledgers, most)
    yield from _rounds(costs, events)
    yield from _answers(ledgers, events)


def _noise(costs: Costs, ledgers: Sequence[dict[str, Any]], most: int) -> Iterator[Check]:
    makers: dict[str, Callable[[int], Ledger]] = {
        "local": costs.local_ledger,
        "central": costs.central_ledger,
    }
    for data in ledgers:
        what = f"noise of the ledger of {' and '.join(data['covers'])}"
        if (make := makers.get(data["view"])) is None:
            why = (
                "it depends on how many records a client has"
                if RECORDS in data["covers"]
                else "it composes two others, which are checked"
            )
            yield Check(what, "not checked", why)
            continue
        lines = Ledger.from_json(_bare(data)).lines
        fits = next((n for n in range(most + 1) if make(n).lines == lines), None) if most < 100_000 else None
        yield check(
            what,
            fits is not None,
            f"it is that of the file, paid {fits} times" if fits is not None else "it is not the noise of this file",
        )


def _bare(data: dict[str, Any]) -> dict[str, Any]:
    return {key: data.get(key) for key in ("version", "unit", "relation", "budget", "lines")}


def _rounds(costs: Costs, events: Sequence[Event]) -> Iterator[Check]:
    begun, wrong, seen = 0, [], 0
    for event in events:
        if isinstance(event, RoundStarted | RunResumed):
            begun += 1
        if not isinstance(event, RoundFinished):
            continue
        for name, stated, price in _stated(costs, event):
            seen += 1
            if count_of(price, stated, 1, begun) is None:
                nearest = price(begun)
                wrong.append(f"round {event.round + 1}: {name} {stated:.6g}, after {begun} begun rounds {nearest:.6g}")
    if seen:
        text = "; ".join(wrong[:5]) if wrong else f"{seen} figures are those of the file's noise"
        yield check("epsilon of each round", not wrong, text)


def _stated(costs: Costs, event: RoundFinished) -> Iterator[tuple[str, float, Callable[[int], float]]]:
    """Each epsilon of a round, and what it comes to after so many rounds."""

    def by(holds: Callable[[Spent], bool]) -> Callable[[int], float]:
        def price(count: int) -> float:
            return next((each.epsilon for each in costs.spent(count, count) if holds(each)), 0.0)

        return price

    if event.epsilon is not None and costs.spent(1, 1):
        yield "epsilon", event.epsilon, by(lambda each: "updates" in each.covers and each.view != "composed")
    if event.evaluation_epsilon is not None:
        yield "epsilon of inference vectors", event.evaluation_epsilon, lambda n: costs.inference_epsilon(n) or 0.0


def _answers(ledgers: Sequence[dict[str, Any]], events: Sequence[Event]) -> Iterator[Check]:
    """At a client: what it told after each answer grows, and ends at its ledger."""
    told = [event for event in events if isinstance(event, Answered) and event.epsilons]
    if not told:
        return
    falls = any(
        later.epsilons.get(what, math.inf) < epsilon and not same(later.epsilons.get(what, math.inf), epsilon)
        for earlier, later in pairwise(told)
        if earlier.client == later.client
        for what, epsilon in earlier.epsilons.items()
    )
    most = max((_number(data["epsilon"]) for data in ledgers), default=0.0)
    above = [e for event in told for e in event.epsilons.values() if e > most and not same(e, most)]
    text = "they fall, or exceed the ledger" if falls or above else f"{len(told)} answers, up to {most:.6g}"
    yield check("epsilon after each answer", not falls and not above, text)


def _number(epsilon: Any) -> float:
    return math.inf if epsilon == "infinite" else float(epsilon)
