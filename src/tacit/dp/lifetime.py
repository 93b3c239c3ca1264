"""What several runs cost together, from their ledgers as they are stored.

    together(runs, delta)   epsilon of all of them at one delta, and of each unit and relation in it

Guarantee: for two inputs that are neighbours under every (unit, relation) that occurs, what all runs released is
(epsilon, delta)-indistinguishable, also where a run was chosen on the outcome of earlier ones.
Assumes: within a run, a composed view holds all that its central view of the same unit and relation does; all other
ledgers are of different releases, and add up.
Source: Renyi divergences of one order add up over adaptively chosen mechanisms (Mironov 2017, Proposition 1), and where
their parameters are chosen adaptively too (Feldman, Zrnic 2021); that is not known of the tighter accounting by privacy
losses. Over groups, and for promises without events: basic composition (Dwork, Roth 2014, Theorem 3.16), with the delta
parted between them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.dp.accounting import Ledger

Group = tuple[str, str]  # unit and relation
Plain = Mapping[str, Any]  # a ledger as a run stores it


@dataclass(frozen=True, slots=True)
class Together:
    """What runs cost together."""

    epsilon: float
    delta: float
    groups: Mapping[Group, float]  # epsilon of what has events, each at an equal part of the delta
    promised: float = 0.0  # epsilon of what is only promised, and has no events yet


def together(runs: Iterable[Sequence[Plain]], delta: float) -> Together:
    """Epsilon of all runs at one delta; infinite where they need a larger delta, or promise nothing."""
    lines: dict[Group, list[Plain]] = {}
    promised, left = 0.0, delta
    for run in runs:
        for ledger in _releases(run):
            if ledger["epsilon"] == "infinite":
                promised = math.inf
            elif ledger["lines"]:
                lines.setdefault((ledger["unit"], ledger["relation"]), []).extend(ledger["lines"])
            elif ledger["epsilon"]:
                promised += ledger["epsilon"]
                left -= ledger["delta"]
    if left < 0 or (lines and left <= 0):
        return Together(math.inf, delta, {}, math.inf)
    found = {group: _epsilon(group, each, left / len(lines)) for group, each in sorted(lines.items())}
    return Together(promised + sum(found.values()), delta, found, promised)


def _releases(run: Sequence[Plain]) -> Iterable[Plain]:
    """Without the views that are part of another."""
    composed = {(each["unit"], each["relation"]) for each in run if each["view"] == "composed"}
    return (each for each in run if each["view"] != "central" or (each["unit"], each["relation"]) not in composed)


def _epsilon(group: Group, lines: Sequence[Plain], delta: float) -> float:
    ledger = {"version": 1, "unit": group[0], "relation": group[1], "budget": None, "lines": list(lines)}
    return Ledger.from_json(ledger).epsilon(delta, "rdp")


def at(ledger: Plain, delta: float) -> float:
    """The epsilon of one stored ledger at a delta no larger than this; infinite if it holds at a larger one only."""
    if ledger["epsilon"] == "infinite":
        return math.inf
    if ledger["delta"] <= delta:
        return float(ledger["epsilon"])
    if not ledger["lines"]:
        return math.inf
    return _epsilon((ledger["unit"], ledger["relation"]), ledger["lines"], delta)


# --- ledgers of one party, earlier and later


def counts(ledgers: Sequence[Plain]) -> dict[tuple[str, ...], int]:
    """How often each event happened, by the ledger that it is in."""
    found: dict[tuple[str, ...], int] = {}
    for ledger in ledgers:
        for line in ledger["lines"]:
            key = (*name_of(ledger), _event(line))
            found[key] = found.get(key, 0) + line["count"]
    return found


def covers(most: Sequence[Plain], paid: Sequence[Plain]) -> bool:
    """Whether a reservation holds all that was paid: as events, or as a promise that the party itself keeps to."""
    promises = {name_of(each) for each in most if not each["lines"] and each["epsilon"]}
    return within([each for each in paid if name_of(each) not in promises], most)


def within(less: Sequence[Plain], more: Sequence[Plain]) -> bool:
    """Whether nothing in `less` happened more often than in `more`."""
    there = counts(more)
    return all(there.get(key, 0) >= count for key, count in counts(less).items())


def _event(line: Plain) -> str:
    """What tells an event from others, whether it was stored meanwhile or not."""
    fields = {key: value for key, value in line.items() if key != "count"}
    return json.dumps(fields, sort_keys=True, default=float)


def name_of(ledger: Plain) -> tuple[str, ...]:
    """What tells a ledger from the others of one party."""
    return (str(ledger["view"]), ",".join(ledger["covers"]), str(ledger["unit"]), str(ledger["relation"]))


def larger(most: Sequence[Plain], paid: Sequence[Plain]) -> list[Plain]:
    """Ledgers that cover both: those of `most`, and for each that does not cover what was paid, both in one.

    A promise without events covers what was paid under it: the party itself keeps to it.
    """
    found = {name_of(each): each for each in most}
    for each in paid:
        name, there = name_of(each), found.get(name_of(each))
        if there is None:
            found[name] = each
        elif there["lines"] and not within([each], [there]):
            found[name] = _united(there, each)
    return list(found.values())


def _united(first: Plain, second: Plain) -> Plain:
    """Each event as often as it happened in the one that has it more often."""
    lines: dict[str, Plain] = {}
    for line in [*first["lines"], *second["lines"]]:
        event = _event(line)
        if event not in lines or lines[event]["count"] < line["count"]:
            lines[event] = line
    ledger = {**second, "budget": None, "lines": list(lines.values())}
    delta = ledger["delta"]
    group = (ledger["unit"], ledger["relation"])
    return {**ledger, "epsilon": _stored(_epsilon(group, ledger["lines"], delta) if delta else _pure(ledger))}


def _pure(ledger: Plain) -> float:
    plain = {key: ledger[key] for key in ("unit", "relation", "lines")}
    return Ledger.from_json({"version": 1, "budget": None, **plain}).pure_epsilon()


def _stored(epsilon: float) -> float | str:
    return "infinite" if math.isinf(epsilon) else epsilon
