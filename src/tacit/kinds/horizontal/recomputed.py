"""A federation's epsilons, computed again from its file and from how many rounds its events tell of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from tacit.dp.accounting import Ledger
from tacit.events import (
    Answered,
    BudgetReached,
    Event,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
)
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.record_level import RECORDS, promised
from tacit.kinds.horizontal.settings import Settings
from tacit.report.recomputed import Check, check, count_of, same

_VECTORS = "epsilon of inference vectors"


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
    paid = dict[str, int]()
    yield from _ledgers(settings, costs, ledgers, events)
    if any(data["view"] not in ("local", "central", "composed", "records") for data in ledgers):
        return
    yield from _noise(costs, ledgers, most, paid)
    yield from _rounds(costs, events, paid)
    yield from _refused(costs, events)
    yield from _answers(ledgers, events)


def _ledgers(
    settings: Settings, costs: Costs, ledgers: Sequence[dict[str, Any]], events: Sequence[Event]
) -> Iterator[Check]:
    """Those that the file leads to, with their deltas and for what they cover; at a client, its records' own."""
    due = [*costs.spent(0, 0), *promised(settings)]
    known = {each.view: (list(each.covers), each.delta, each.ledger.unit, each.against) for each in due}
    wrong = [
        f"{data['view']} of {' and '.join(data['covers'])} at delta {data['delta']}"
        for data in ledgers
        if known.get(data["view"]) != (data["covers"], data["delta"], data["unit"], data.get("against", ""))
        or (data["view"] == "records" and data["relation"] != "add-remove")
    ]
    views = [data["view"] for data in ledgers]
    if _trained(events) and (missing := known.keys() - set(views)):
        wrong.append(f"there is none of the view {' or '.join(sorted(missing))}")
    if len(set(views)) < len(views):
        wrong.append("two have the same view")
    budgets = {each.view: each.ledger.to_json()["budget"] for each in due}
    wrong += [
        f"the budget of {data['view']} is {data['budget']}, the file says {budgets[data['view']]}"
        for data in ledgers
        if data["view"] in budgets and data.get("budget") != budgets[data["view"]] and not _is_of_client(data)
    ]
    for data in ledgers:
        if data["view"] == "records" and not data["lines"] and "records" in known:
            (stated,) = (each.epsilon for each in promised(settings))
            if _number(data["epsilon"]) < stated:
                wrong.append(f"epsilon {data['epsilon']} of {RECORDS}, the file allows {stated:g}")
    yield check(
        "ledgers of the file", not wrong, "; ".join(wrong[:5]) if wrong else f"{len(ledgers)} are those of the file"
    )


def _is_of_client(data: Mapping[str, Any]) -> bool:
    """Whether it is what a client's own records paid: the file's budget for them is kept to apart from it."""
    return bool(data["view"] == "records" and data["lines"] and data["budget"] is None)


def _trained(events: Sequence[Event]) -> bool:
    """Whether the coordinator had a round: it, or all parties in one process, then has every ledger of the file."""
    ended = any(isinstance(event, RunFinished) and event.rounds for event in events)
    client = any(isinstance(event, Answered) for event in events)
    return any(isinstance(event, RoundFinished) for event in events) or (ended and not client)


def _noise(costs: Costs, ledgers: Sequence[dict[str, Any]], most: int, paid: dict[str, int]) -> Iterator[Check]:
    """`paid`: how often, by view, once it was found."""
    makers: dict[str, Callable[[int], Ledger]] = {
        "local": costs.local_ledger,
        "central": costs.central_ledger,
    }
    for data in sorted(ledgers, key=lambda each: bool(each["view"] == "composed")):
        what = f"noise of the ledger of {' and '.join(data['covers'])}"
        if data["view"] == "records":
            yield Check(what, "not checked", "it depends on how many records a client has")
            continue
        if data["view"] == "composed":
            due = costs.composed_ledger(paid.get("local", 0), paid.get("central", 0)).lines
            holds = Ledger.from_json(_bare(data)).lines == due
            yield check(what, holds, "it composes the two others" if holds else "it is not that of the two others")
            continue
        make = makers[data["view"]]
        lines = Ledger.from_json(_bare(data)).lines
        fits = next((n for n in range(most + 1) if make(n).lines == lines), None) if most < 100_000 else None
        if fits is not None:
            paid[data["view"]] = fits
        yield check(
            what,
            fits is not None,
            f"it is that of the file, paid {fits} times" if fits is not None else "it is not the noise of this file",
        )


def _bare(data: dict[str, Any]) -> dict[str, Any]:
    return {key: data.get(key) for key in ("version", "unit", "relation", "budget", "lines")}


def _rounds(costs: Costs, events: Sequence[Event], paid: Mapping[str, int]) -> Iterator[Check]:
    """What is told never falls, and ends at what the ledger says was paid."""
    begun, wrong, seen = 0, [], 0
    last = dict[str, int]()
    for event in events:
        if isinstance(event, RoundStarted | RunResumed):
            begun += 1
        if not isinstance(event, RoundFinished):
            continue
        wrong += [
            f"round {event.round + 1}: delta {delta}, the file says {own:g}" for delta, own in _deltas(costs, event)
        ]
        for name, stated, view, price in _stated(costs, event):
            seen += 1
            found = count_of(price, stated, last.get(name, 1), begun)
            if found is None or found > paid.get(view, begun) + 1:  # a ledger is stored after a round is told
                nearest = price(begun)
                wrong.append(f"round {event.round + 1}: {name} {stated:.6g}, after {begun} begun rounds {nearest:.6g}")
            else:
                last[name] = found
        if (problem := _composed(costs, event, last)) is not None:
            wrong.append(problem)
    if paid and begun and not seen:
        yield Check("epsilon of each round", "not checked", "rounds were begun, and no event tells how one ended")
    if seen:
        text = "; ".join(wrong[:5]) if wrong else f"{seen} figures are those of the file's noise"
        yield check("epsilon of each round", not wrong, text)


def _refused(costs: Costs, events: Sequence[Event]) -> Iterator[Check]:
    """A round that was not begun, because it would have cost more than the budget of the file."""
    begun = sum(isinstance(event, RoundStarted | RunResumed) for event in events)
    for event in events:
        if isinstance(event, BudgetReached):
            text = f"{event.epsilon:.6g} of {event.of}, budget {event.budget:g} at delta {event.delta:g}"
            holds = _is_beyond(costs, event, begun)
            yield check("epsilon beyond the budget", holds, text if holds else f"{text}: not what the file leads to")


def _is_beyond(costs: Costs, event: BudgetReached, begun: int) -> bool:
    def paid(count: int) -> Spent | None:
        return next((each for each in costs.spent(count, count) if " and ".join(each.covers) == event.of), None)

    def price(count: int) -> float:
        return math.inf if (found := paid(count)) is None else found.epsilon

    known = paid(0)
    if known is None or known.ledger.budget is None or event.epsilon <= event.budget:
        return False
    if (event.budget, event.delta) != (known.ledger.budget.epsilon, known.delta):
        return False
    # What is composed depends on two numbers.
    return known.view == "composed" or count_of(price, event.epsilon, 1, begun + 1) is not None


def _deltas(costs: Costs, event: RoundFinished) -> Iterator[tuple[Any, float]]:
    """Each delta of a round that is not the file's, and the file's."""
    for spent in costs.spent(0, 0):
        composed = spent.view == "composed"
        told, epsilon = (event.composed_delta, event.composed_epsilon) if composed else (event.delta, event.epsilon)
        if (composed or "updates" in spent.covers) and epsilon is not None and told != spent.delta:
            yield told, spent.delta


def _stated(costs: Costs, event: RoundFinished) -> Iterator[tuple[str, float, str, Callable[[int], float]]]:
    """Each epsilon of a round, the view of its ledger, and what it comes to after so many rounds."""

    def by(holds: Callable[[Spent], bool]) -> tuple[str, Callable[[int], float]]:
        view = next((each.view for each in costs.spent(0, 0) if holds(each)), "")

        @cache
        def price(count: int) -> float:
            return next((each.epsilon for each in costs.spent(count, count) if holds(each)), math.inf)

        return view, price

    if event.epsilon is not None:
        yield "epsilon", event.epsilon, *by(lambda each: "updates" in each.covers and each.view != "composed")
    if event.evaluation_epsilon is not None:
        yield _VECTORS, event.evaluation_epsilon, "local", cache(lambda n: costs.inference_epsilon(n) or math.inf)


def _composed(costs: Costs, event: RoundFinished, last: Mapping[str, int]) -> str | None:
    """What is wrong with the epsilon of sums and vectors together, given how often either was paid."""
    if event.composed_epsilon is None:
        return None
    spent = costs.spent(last.get(_VECTORS, 0), last.get("epsilon", 0))
    own = next((each.epsilon for each in spent if each.view == "composed"), math.inf)
    if same(event.composed_epsilon, own):
        return None
    return f"round {event.round + 1}: composed epsilon {event.composed_epsilon:.6g}, both cost {own:.6g}"


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
