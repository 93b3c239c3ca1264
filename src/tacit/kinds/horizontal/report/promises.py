"""What a federation promises, from its ledgers or, before the first is written, from its last round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tacit.dp.accounting import HIDES_NOTHING, reading
from tacit.kinds.horizontal.rounds_view import Rounds
from tacit.report.promises import AGAINST_COORDINATOR, Promise, promise, promised


def promises(record: Rounds) -> list[Promise]:
    """What holds for updates and for inference vectors, and for both together where one ledger covers both.

    From the ledgers, which also know what aborted and abandoned rounds cost; before the first one is written, from the
    last round.
    """
    found = [each for account in record.ledgers for each in promised(account)] or list(_of_last_round(record))
    found.sort(key=lambda each: (" and " in each.what, each.what != "updates"))
    if record.settings.simulation.insecure_noise_seed is not None:
        return [replace(each, epsilon=math.inf, reading=reading(math.inf)) for each in found]
    return found


def _of_last_round(record: Rounds) -> Iterator[Promise]:
    if not record.rounds:
        return
    settings, last = record.settings, record.rounds[-1]
    updates, vectors = settings.updates, settings.vectors
    broken = settings.simulation.insecure_noise_seed is not None
    if updates.promises:
        yield promise(spent_on(record), _or_infinite(last.epsilon), last.delta or 0.0, updates.masked)
    if vectors.promises and (last.evaluation_epsilon is not None or broken):
        yield promise("inference vectors", _or_infinite(last.evaluation_epsilon), 0.0)
    summed = updates.promises and updates.masked
    if vectors.promises and summed and (last.composed_epsilon is not None or broken):
        both = promise(
            "updates and inference vectors", _or_infinite(last.composed_epsilon), last.composed_delta or 0.0, True
        )
        yield replace(both, against=AGAINST_COORDINATOR)


def spent_on(record: Rounds) -> str:
    """What the epsilon of `RoundFinished` is of: one ledger holds all that a client sends by itself."""
    updates, vectors = record.settings.updates, record.settings.vectors
    both = updates.promises and not updates.masked and vectors.promises
    return "updates and inference vectors" if both else "updates"


def hollow(made: list[Promise]) -> frozenset[str]:
    """The figures, by the names of events' fields, that an epsilon covers without hiding anything."""
    found: set[str] = set()
    bare = {each.what: each.epsilon > HIDES_NOTHING for each in made}
    if bare.get("updates", any(bare.values())):
        found |= {"metrics", "update_norm", "score"}
    if bare.get("inference vectors"):
        found.add("score")
    return frozenset(found)


def _or_infinite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon
