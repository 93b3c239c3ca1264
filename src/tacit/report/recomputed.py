"""What comes of a run's figures when they are computed again.

Check                       one figure or file: it holds, it does not, or it cannot be checked here, and why
without_epsilon(...)        `Kind.recompute` of a kind in which nothing has an epsilon
stated(events)              each epsilon that events tell
count_of(price, stated, low, high)
                            how many times something was paid for, judging by the epsilon that is stated
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tacit.events import BudgetReached, EpochFinished, Event, RoundFinished

Verdict = Literal["holds", "does not hold", "not checked"]
TOLERANCE = 1e-6  # relative: the same formula on another processor or in another version of a library


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what came out."""

    what: str
    verdict: Verdict
    text: str


def check(what: str, holds: bool, text: str) -> Check:
    return Check(what, "holds" if holds else "does not hold", text)


def same(stated: float, recomputed: float) -> bool:
    """Whether two figures are the same, but for rounding."""
    if math.isinf(stated) or math.isinf(recomputed):
        return stated == recomputed
    return abs(stated - recomputed) <= TOLERANCE * max(abs(stated), abs(recomputed), 1e-12)


def count_of(price: Callable[[int], float], stated: float, low: int, high: int) -> int | None:
    """The first count from `low` to `high` at which `price`, which rises with it, is the stated epsilon."""
    low, high = max(0, low), max(0, high)
    while low < high:
        middle = (low + high) // 2
        found = price(middle)
        if found >= stated or same(found, stated):
            high = middle
        else:
            low = middle + 1
    return low if same(price(low), stated) else None


def stated(events: Sequence[Event]) -> Iterator[float]:
    """Each epsilon that events tell."""
    for event in events:
        if isinstance(event, RoundFinished | EpochFinished | BudgetReached) and event.epsilon:
            yield event.epsilon


def without_epsilon(settings: object, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterator[Check]:
    """Of a kind in which nothing has an epsilon: one that is stated is made up."""
    told = len(ledgers) + sum(1 for _ in stated(events))
    text = f"{told} epsilons are stated, and this kind promises none" if told else "none, as this kind promises none"
    yield check("ledgers of the file", not told, text)
