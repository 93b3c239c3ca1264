"""What an epsilon means, in words that claim no more than it does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tacit.dp.accounting import HIDES_NOTHING, Ledger, Reading, reading
from tacit.dp.pricing import Method
from tacit.report.numbers import at_most
from tacit.store.reading import Account

_WITH_DISTRIBUTION = ("pure", "laplace", "gaussian")  # of the privacy loss
_COMPOSED = "composed"  # of the sums and of what leaves each client by itself
AGAINST_COORDINATOR = (
    "for each client, for leaving its data out, against the coordinator, who sees the noisy sums and the noisy vectors "
    "both"
)
_CLIENT = "client"  # the unit of a federation; of any other unit nothing is said of clients and a coordinator
_CHANGES = {
    "replace-one": "for replacing it, ",
    "add-remove": "for adding it or leaving it out, ",
    "zero-out": "for leaving it out, ",
}
_PURE = "pure"  # events of Laplace noise; those of updates are of other kinds


@dataclass(frozen=True, slots=True)
class Promise:
    """An (epsilon, delta) that holds for something that clients release, and what it allows an attacker."""

    what: str  # "updates", "inference vectors" or both
    epsilon: float
    delta: float
    central: bool  # of the sums, not of each message
    reading: Reading
    unit: str = _CLIENT
    against: str = ""  # for whom and against whom, where its ledger says so
    relation: str = ""


def promise(what: str, epsilon: float, delta: float, central: bool = False) -> Promise:
    """One of which nothing but its epsilon and delta is known."""
    return Promise(what, epsilon, delta, central, reading(epsilon, min(delta, 1 - 1e-12)))


def promised(account: Account) -> Iterator[Promise]:
    """What a ledger promises: for each thing that it covers, and for all together.

    One that composes two others promises only for all together.
    """
    central = account.view in ("central", _COMPOSED) or account.relation == "add-remove"
    federated = account.unit == _CLIENT
    if federated and len(account.covers) > 1 and account.view != _COMPOSED:
        noisy = [line for line in account.lines if line.get("kind") != _PURE]
        vectors = [line for line in account.lines if line.get("kind") == _PURE]
        for what, lines, delta in (("updates", noisy, account.delta), ("inference vectors", vectors, 0.0)):
            if (priced := _priced(account, lines, delta)) is not None:
                yield Promise(what, priced[0], delta, central, priced[1])
    priced = None if math.isinf(account.epsilon) else _priced(account, list(account.lines), account.delta)
    made = promise(" and ".join(account.covers), account.epsilon, account.delta, central)
    against = account.against or (AGAINST_COORDINATOR if federated and account.view == _COMPOSED else "")
    made = replace(made, unit=account.unit, against=against, relation=account.relation)
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


def against(promise: Promise) -> str:
    """For whom an epsilon holds, and against whom."""
    if promise.against:
        return promise.against
    if promise.unit != _CLIENT:
        change = _CHANGES.get(promise.relation, "")
        return f"for each {promise.unit}, {change}against anyone who sees what was released"
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
        return f"it promises nothing, and does not rule out that an attacker is certain of what {_a(promise)} is."
    question = (
        _question(promise)
        if promise.unit != _CLIENT
        else ("whether a client's " + ("data were used" if " and " in promise.what else "update is in the sums"))
        if promise.central
        else f"which of two equally likely sets of {promise.what} is a client's"
    )
    certain = (
        f"It allows an attacker to be all but certain of {_a(promise)}. " if promise.epsilon > HIDES_NOTHING else ""
    )
    right, found = at_most(promise.reading.accuracy), at_most(promise.reading.true_positives_at_1_percent)
    return (
        f"{certain}Asked {question}, an attacker is right at most {right} of the time (50% is guessing); with 1% false "
        f"alarms he finds at most {found} of the true cases (1% is guessing)."
    )


def _a(promise: Promise) -> str:
    return "an owner with all its records" if promise.unit == "owner" else f"a {promise.unit}"


def _question(promise: Promise) -> str:
    if promise.central:
        return f"whether {_a(promise)} was trained on"
    return f"which of two equally likely values {_a(promise)} has"
