"""A federation as its record tells it, whether the run is finished, was stopped or still goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.events import (
    BudgetReached,
    ClientBlamed,
    ClientRefused,
    Evaluated,
    Noted,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    SharesDisputed,
)
from tacit.kinds.horizontal.settings import Settings
from tacit.store.reading import Account
from tacit.store.record import Record


@dataclass(frozen=True, slots=True)
class Rounds:
    """A run as its directory tells it. Of a round that was done again, only the last time counts."""

    path: Path
    settings: Settings
    started: RunStarted | None
    sampled: dict[int, int]  # by round
    rounds: tuple[RoundFinished, ...]
    aborted: tuple[RoundAborted, ...]
    evaluations: tuple[Evaluated, ...]
    refused: tuple[ClientRefused, ...]
    blamed: tuple[ClientBlamed, ...]
    disputed: tuple[SharesDisputed, ...]
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


def rounds_of(record: Record[Settings]) -> Rounds:
    """The events put together."""
    rounds: dict[int, RoundFinished] = {}
    aborted: dict[int, RoundAborted] = {}
    evaluations: dict[int, Evaluated] = {}
    sampled: dict[int, int] = {}
    refused: dict[int, list[ClientRefused]] = {}
    blamed: dict[int, list[ClientBlamed]] = {}
    disputed: dict[int, list[SharesDisputed]] = {}
    notes: dict[str, None] = {}  # a resumed run gives them again
    started, finished, budget, resumed = None, None, None, 0
    for event in record.events:
        match event:
            case RunStarted():
                started = event
            case RunResumed():
                resumed += 1
                finished, budget = None, None
                _forget(event.round, rounds, aborted, evaluations, sampled, refused, blamed, disputed)
            case Noted():
                notes[event.text] = None
            case RoundStarted():
                sampled[event.round] = event.sampled
                refused[event.round], blamed[event.round], disputed[event.round] = [], [], []
            case ClientRefused():
                refused.setdefault(event.round, []).append(event)
            case ClientBlamed():
                blamed.setdefault(event.round, []).append(event)
            case SharesDisputed():
                disputed.setdefault(event.round, []).append(event)
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
    return Rounds(
        path=record.path,
        settings=record.settings,
        started=started,
        sampled=dict(sorted(sampled.items())),
        rounds=tuple(rounds[number] for number in sorted(rounds)),
        aborted=tuple(aborted[number] for number in sorted(aborted)),
        evaluations=tuple(evaluations[number] for number in sorted(evaluations)),
        refused=tuple(event for number in sorted(refused) for event in refused[number]),
        blamed=tuple(event for number in sorted(blamed) for event in blamed[number]),
        disputed=tuple(event for number in sorted(disputed) for event in disputed[number]),
        notes=tuple(notes),
        resumed=resumed,
        budget_reached=budget,
        finished=finished,
        ledgers=record.ledgers,
        environment=record.environment,
    )


def _forget(first: int, *told: dict[int, Any]) -> None:
    """What was told of round `first` and later ones: they are done again."""
    for by_round in told:
        for number in [number for number in by_round if number >= first]:
            del by_round[number]
