"""What an epsilon means, in words that claim no more than it does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tacit.dp.accounting import HIDES_NOTHING, Ledger, Reading, reading
from tacit.dp.pricing import Method
from tacit.kinds.horizontal.record import Record
from tacit.report.numbers import at_most
from tacit.store.reading import Account

_WITH_DISTRIBUTION = ("pure", "laplace", "gaussian")  # of the privacy loss
_COMPOSED = "composed"  # of the sums and of what leaves each client by itself
_AGAINST_COORDINATOR = (
    "for each client, for leaving its data out, against the coordinator, who sees the noisy sums and the noisy vectors "
    "both"
)
_PURE = "pure"  # events of Laplace noise; those of updates are of other kinds


@dataclass(frozen=True, slots=True)
class Promise:
    """An (epsilon, delta) that holds for something that clients release, and what it allows an attacker."""

    what: str  # "updates", "inference vectors" or both
    epsilon: float
    delta: float
    central: bool  # of the sums, not of each message
    reading: Reading
    unit: str = "client"
    against: str = ""  # for whom and against whom, where its ledger says so


def promises(record: Record) -> list[Promise]:
    """What holds for updates and for inference vectors, and for both together where one ledger covers both.

    From the ledgers, which also know what aborted and abandoned rounds cost; before the first one is written, from the
    last round.
    """
    found = [each for account in record.ledgers for each in promised(account)] or list(_of_last_round(record))
    found.sort(key=lambda each: (" and " in each.what, each.what != "updates"))
    if record.settings.simulation.insecure_noise_seed is not None:
        return [replace(each, epsilon=math.inf, reading=reading(math.inf)) for each in found]
    return found


def promise(what: str, epsilon: float, delta: float, central: bool = False) -> Promise:
    """One of which nothing but its epsilon and delta is known."""
    return Promise(what, epsilon, delta, central, reading(epsilon, min(delta, 1 - 1e-12)))


def promised(account: Account) -> Iterator[Promise]:
    """What a ledger promises: for each thing that it covers, and for all together.

    One that composes two others promises only for all together.
    """
    central = account.view in ("central", _COMPOSED)
    if len(account.covers) > 1 and account.view != _COMPOSED:
        noisy = [line for line in account.lines if line.get("kind") != _PURE]
        vectors = [line for line in account.lines if line.get("kind") == _PURE]
        for what, lines, delta in (("updates", noisy, account.delta), ("inference vectors", vectors, 0.0)):
            if (priced := _priced(account, lines, delta)) is not None:
                yield Promise(what, priced[0], delta, central, priced[1])
    priced = None if math.isinf(account.epsilon) else _priced(account, list(account.lines), account.delta)
    made = promise(" and ".join(account.covers), account.epsilon, account.delta, central)
    against = account.against or (_AGAINST_COORDINATOR if account.view == _COMPOSED else "")
    made = replace(made, unit=account.unit, against=against)
    yield made if priced is None else replace(made, reading=priced[1])


def _priced(account: Account, lines: list[dict[str, Any]], delta: float) -> tuple[float, Reading] | None:
    """The epsilon of some events of a ledger and what they allow; None where they cannot be priced here.

    Every (epsilon, delta) that holds bounds an attacker, not only the one that is stated.
    """
    data = {"version": 1, "unit": account.unit, "relation": account.relation, "budget": None, "lines": lines}
    known = all(line.get("kind") in _WITH_DISTRIBUTION for line in lines)
    method: Method = "pld" if known else "rdp"
    try:
        ledger = Ledger.from_json(data)
        if not ledger.lines:
            return None
        epsilon = ledger.epsilon(delta, method) if delta else ledger.pure_epsilon()
        return epsilon, ledger.reading(method)
    except ValueError:
        return None


def _of_last_round(record: Record) -> Iterator[Promise]:
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
        yield replace(both, against=_AGAINST_COORDINATOR)


def spent_on(record: Record) -> str:
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


def against(promise: Promise) -> str:
    """For whom an epsilon holds, and against whom."""
    if promise.against:
        return promise.against
    if promise.central:
        return (
            "for each client, for leaving its update out of the sums, against all who see the noisy sums: the "
            "coordinator, and everybody who has the model"
        )
    return (
        "for each client, for replacing all its data, against everybody who sees its messages: the coordinator sees "
        "them one by one. It is that of the client that was asked most often"
    )


def explained(promise: Promise) -> str:
    """What an attacker may achieve against a promise."""
    if math.isinf(promise.epsilon):
        return f"it promises nothing, and does not rule out that an attacker is certain of what a {promise.unit} is."
    question = (
        _question(promise)
        if promise.unit != "client"
        else ("whether a client's " + ("data were used" if " and " in promise.what else "update is in the sums"))
        if promise.central
        else f"which of two equally likely sets of {promise.what} is a client's"
    )
    certain = (
        f"It allows an attacker to be all but certain of a {promise.unit}. " if promise.epsilon > HIDES_NOTHING else ""
    )
    right, found = at_most(promise.reading.accuracy), at_most(promise.reading.true_positives_at_1_percent)
    return (
        f"{certain}Asked {question}, an attacker is right at most {right} of the time (50% is guessing); with 1% false "
        f"alarms he finds at most {found} of the true cases (1% is guessing)."
    )


def _question(promise: Promise) -> str:
    if promise.central:
        return f"whether a {promise.unit} was trained on"
    return f"which of two equally likely values a {promise.unit} has"


def _or_infinite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon
