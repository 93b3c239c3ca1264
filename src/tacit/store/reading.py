"""The contents of a run's directory except for its settings: events, ledgers and versions, read and checked."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from tacit.events import KINDS, Event
from tacit.store.directory import Store, read_events
from tacit.store.party_folder import CLIENT, read_intact

_LARGEST = 2**63  # of a number in an event: one that is no float ends whatever counts with it


@dataclass(frozen=True, slots=True)
class Account:
    """One ledger of a run: what it covers and what that costs together."""

    covers: tuple[str, ...]  # "updates", "inference vectors"
    view: str  # local: against the coordinator; central: against anyone who sees the sums; composed: both
    unit: str
    relation: str
    epsilon: float
    delta: float
    lines: tuple[dict[str, Any], ...]  # the events, with how often they happened
    budget: dict[str, Any] | None
    tier: str = ""  # of the noise of a training
    against: str = ""  # for whom and against whom it holds, where a kind says it in its own words


def checked_events(path: Path) -> list[Event]:
    """The events of a run, each of the right types."""
    found: list[Event] = []
    for count, event in enumerate(read_events(path / "events.jsonl"), 1):
        check_event(event, f"{path / 'events.jsonl'}:{count}")
        found.append(event)
    return found


def check_event(event: Event, where: str) -> None:
    """A file that was edited must not fail later, in the middle of a page."""
    hints = _hints(type(event).__name__)
    for field in fields(event):
        value, expected = getattr(event, field.name), hints[field.name]
        if not _is(value, expected):
            raise ValueError(f"{where}: {field.name} of {type(event).__name__} cannot be {str(value)[:60]!r}")


@cache
def _hints(kind: str) -> dict[str, Any]:
    return get_type_hints(KINDS[kind])


def _is(value: Any, expected: Any) -> bool:
    """Whether a value is of an event's type. What was no number in the run was stored as nothing."""
    if get_origin(expected) is dict:
        inner = get_args(expected)[1]
        return isinstance(value, dict) and all(_is(item, inner) for item in value.values())
    if expected in (float, float | None):
        return value is None or isinstance(value, float) or _is(value, int)
    if get_origin(expected) is list:
        return isinstance(value, list) and all(_is(item, get_args(expected)[0]) for item in value)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
    if get_origin(expected) is UnionType:
        return any(_is(value, each) for each in get_args(expected))
    if expected in (str, bool, NoneType):
        return isinstance(value, expected)
    return value in get_args(expected)  # a Literal


def ledgers(folder: Path) -> tuple[Account, ...]:
    """Those of a run's `ledger.json`; none where it stopped before the first was written."""
    return accounts(Store(folder).intact_ledger() or {}, folder / "ledger.json")


def client_ledgers(path: Path) -> tuple[dict[str, int], tuple[Account, ...]]:
    """The counters and the ledgers of a client's own file; nothing where it was never sent a model."""
    data = read_intact(path, CLIENT) or {}
    state, ledger = data.get("state", {}), data.get("ledger", {})
    if not isinstance(state, dict) or not isinstance(ledger, dict):
        raise ValueError(f"{path}:1: these are not counters and ledgers of a client")
    return {name: value for name, value in state.items() if type(value) is int}, accounts(ledger, path)


def accounts(data: dict[str, Any], path: Path) -> tuple[Account, ...]:
    """The ledgers of a ledger.json, or of a client's counters, that was read from `path`."""
    try:
        return tuple(_account(each) for each in data.get("ledgers", []))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path}:1: this is not a ledger: {error}") from error


def _account(data: dict[str, Any]) -> Account:
    return Account(
        covers=tuple(str(name) for name in data.get("covers", ())),
        view=str(data.get("view", "")),
        unit=str(data.get("unit", "client")),
        relation=str(data.get("relation", "")),
        epsilon=_or_infinite(data.get("epsilon")),
        delta=_delta(data.get("delta") or 0.0),
        lines=tuple(dict(line) for line in data.get("lines", ())),
        budget=data.get("budget"),
        tier=str(data.get("tier", "")),
        against=str(data.get("against", "")),
    )


def _or_infinite(value: object) -> float:
    """JSON has no infinite numbers: they are stored as a word, or as nothing."""
    if value is None or value == "infinite":
        return math.inf
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise ValueError(f"epsilon cannot be {value!r}")


def _delta(value: Any) -> float:
    found = float(value)
    if not 0 <= found < math.inf:
        raise ValueError(f"delta cannot be {value!r}")
    return found


def environment(path: Path) -> dict[str, str]:
    """What is in an `environment.json`, on one level; nothing where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        packages = data.pop("packages", {})
        return {str(key): str(value) for key, value in {**data, **packages}.items()}
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}:1: this is not an environment: {error}") from error
