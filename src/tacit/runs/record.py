"""What the directory of a run says, whether the run is finished, was stopped or still goes on."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from tacit.events import (
    BudgetReached,
    ClientRefused,
    Evaluated,
    Event,
    Noted,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
)
from tacit.runs.config import Settings, load
from tacit.runs.directory import read_events


@dataclass(frozen=True, slots=True)
class Account:
    """One ledger of a run: what it covers and what that costs together."""

    covers: tuple[str, ...]  # "updates", "inference vectors"
    view: str  # local: against the coordinator; central: against whoever sees the sums
    unit: str
    relation: str
    epsilon: float
    delta: float
    lines: tuple[dict[str, Any], ...]  # the events, with how often they happened
    budget: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Record:
    """A run as its directory tells it. Of a round that was done again, only the last time counts."""

    path: Path
    settings: Settings
    started: RunStarted | None
    sampled: dict[int, int]  # by round
    rounds: tuple[RoundFinished, ...]
    aborted: tuple[RoundAborted, ...]
    evaluations: tuple[Evaluated, ...]
    refused: tuple[ClientRefused, ...]
    notes: tuple[str, ...]
    resumed: int  # times
    budget_reached: BudgetReached | None
    finished: RunFinished | None  # None while it runs, and where it was cut off
    ledgers: tuple[Account, ...]
    environment: dict[str, str]  # versions

    @property
    def status(self) -> str:
        return "running, or cut off" if self.finished is None else self.finished.status

    @property
    def seconds(self) -> float:
        """How long the run took; of one that was resumed or is not finished, its rounds."""
        if self.finished is not None and not self.resumed:
            return self.finished.seconds or 0.0
        finished = math.fsum(event.seconds or 0.0 for event in self.rounds)
        return finished + math.fsum(event.seconds or 0.0 for event in self.aborted)

    @property
    def scores(self) -> dict[int, float]:
        """By round."""
        return {event.round: event.score for event in self.evaluations if event.score is not None}


def read_run(path: str | Path) -> Record:
    """Read a run's directory. Raises ValueError, in a sentence, where there is none or a file of it is broken."""
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"{path}: there is no such folder: give the folder of a run, such as runs/<time>-<name>")
    for name in ("config.yaml", "events.jsonl"):
        if not (path / name).is_file():
            raise ValueError(f"{path}: this is not the folder of a run, it has no {name}: `tacit run` makes one")
    settings = load(path / "config.yaml")
    found: list[Event] = []
    for count, event in enumerate(read_events(path / "events.jsonl"), 1):
        _check(event, f"{path / 'events.jsonl'}:{count}")
        found.append(event)
    return _told(path, settings, found)


def _told(path: Path, settings: Settings, events: list[Event]) -> Record:
    rounds: dict[int, RoundFinished] = {}
    aborted: dict[int, RoundAborted] = {}
    evaluations: dict[int, Evaluated] = {}
    sampled: dict[int, int] = {}
    refused: dict[int, list[ClientRefused]] = {}
    notes: dict[str, None] = {}  # a resumed run gives them again
    started, finished, budget, resumed = None, None, None, 0
    for event in events:
        match event:
            case RunStarted():
                started = event
            case RunResumed():
                resumed += 1
                finished, budget = None, None
                for told in (rounds, aborted, evaluations, sampled, refused):
                    for number in [number for number in told if number >= event.round]:
                        del told[number]
            case Noted():
                notes[event.text] = None
            case RoundStarted():
                sampled[event.round] = event.sampled
                refused[event.round] = []
            case ClientRefused():
                refused.setdefault(event.round, []).append(event)
            case Evaluated():
                evaluations[event.round] = event
            case RoundFinished():
                rounds[event.round] = event
                aborted.pop(event.round, None)
            case RoundAborted():
                aborted[event.round] = event
                rounds.pop(event.round, None)
            case BudgetReached():
                budget = event
            case RunFinished():
                finished = event
    return Record(
        path=path,
        settings=settings,
        started=started,
        sampled=dict(sorted(sampled.items())),
        rounds=tuple(rounds[number] for number in sorted(rounds)),
        aborted=tuple(aborted[number] for number in sorted(aborted)),
        evaluations=tuple(evaluations[number] for number in sorted(evaluations)),
        refused=tuple(event for number in sorted(refused) for event in refused[number]),
        notes=tuple(notes),
        resumed=resumed,
        budget_reached=budget,
        finished=finished,
        ledgers=_ledgers(path / "ledger.json"),
        environment=_environment(path / "environment.json"),
    )


def _check(event: Event, where: str) -> None:
    """A file that somebody edited must not fail later, in the middle of a page."""
    hints = get_type_hints(type(event))
    for field in fields(event):
        value, expected = getattr(event, field.name), hints[field.name]
        if not _is(value, expected):
            raise ValueError(f"{where}: {field.name} of {type(event).__name__} cannot be {str(value)[:60]!r}")


def _is(value: Any, expected: Any) -> bool:
    """Whether a value is of an event's type. What was no number in the run was stored as nothing."""
    if get_origin(expected) is dict:
        inner = get_args(expected)[1]
        return isinstance(value, dict) and all(_is(item, inner) for item in value.values())
    if expected in (float, float | None):
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if expected in (str, bool, NoneType):
        return isinstance(value, expected)
    return value in get_args(expected)  # a Literal


def _ledgers(path: Path) -> tuple[Account, ...]:
    """Those of a `ledger.json`; none where the run stopped before the first was written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return tuple(_account(each) for each in data.get("ledgers", []))
    except FileNotFoundError:
        return ()
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}:1: this is no ledger: {error}") from error


def _account(data: dict[str, Any]) -> Account:
    return Account(
        covers=tuple(str(name) for name in data.get("covers", ())),
        view=str(data.get("view", "")),
        unit=str(data.get("unit", "client")),
        relation=str(data.get("relation", "")),
        epsilon=_or_infinite(data.get("epsilon")),
        delta=float(data.get("delta") or 0.0),
        lines=tuple(dict(line) for line in data.get("lines", ())),
        budget=data.get("budget"),
    )


def _or_infinite(value: object) -> float:
    """JSON has no infinite numbers: they are stored as a word, or as nothing."""
    if value is None or value == "infinite":
        return math.inf
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"epsilon cannot be {value!r}")


def _environment(path: Path) -> dict[str, str]:
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
        raise ValueError(f"{path}:1: this is no environment: {error}") from error
