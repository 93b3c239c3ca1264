"""How far a party is: a sink that keeps the last word about everything, as operators are shown it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from tacit.events import (
    Answered,
    EpochFinished,
    Event,
    Paused,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    Stepped,
    TrainingResumed,
    TrainingStarted,
    Unpaused,
)
from tacit.kind import Status as Ending
from tacit.store.run_summary import costs_of_round

STATES = ("starting", "running", "pausing", "paused", *get_args(Ending))
_TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far it is. Rounds, epochs and steps count from 1; None where there are none, or not yet."""

    state: str = "starting"
    round: int | None = None  # that was begun last
    rounds: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None  # of this epoch, done
    steps: int | None = None
    epsilons: Mapping[str, float] = field(default_factory=dict)  # spent so far, by what they cover
    deltas: Mapping[str, float] = field(default_factory=dict)
    succeeded_at: float | None = None  # when a round, an epoch, a step or an answer was done last; since 1970

    def left(self, budget: float | None) -> dict[str, float]:
        """The part of the budget that is not spent, by what it is for."""
        return {} if budget is None else {of: max(0.0, budget - spent) for of, spent in self.epsilons.items()}


class Status:
    """A sink; any thread may ask for its `standing`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._standing = Standing()

    @property
    def standing(self) -> Standing:
        return self._standing

    def emit(self, event: Event) -> None:
        with self._lock:
            self._standing = after(self._standing, event, self._clock())

    def replay(self, events: Iterable[tuple[float, Event]]) -> None:
        """Take what earlier processes of this run told: what was spent, and when it last succeeded."""
        with self._lock:
            standing = self._standing
            for at, event in events:
                standing = after(standing, event, at)
            self._standing = replace(standing, state="starting", step=None, steps=None)


def after(standing: Standing, event: Event, at: float) -> Standing:
    """The standing once this has happened."""
    match event:
        case RunStarted():
            return replace(standing, state="running", rounds=event.rounds)
        case RunResumed():
            return replace(standing, round=event.round or None)
        case RoundStarted():
            return replace(standing, round=event.round + 1)
        case RoundFinished():
            epsilons, deltas = _of_round(event)
            return replace(standing, epsilons=epsilons, deltas=deltas, succeeded_at=at)
        case TrainingStarted():
            return replace(standing, state="running", epochs=event.epochs, steps=event.steps)
        case TrainingResumed():
            return replace(standing, epoch=event.epoch + 1, step=event.step)
        case Stepped():
            found = replace(standing, epoch=event.epoch + 1, step=event.step, steps=event.steps, succeeded_at=at)
            return found if event.epsilon is None else replace(found, epsilons={_TRAINING: event.epsilon})
        case EpochFinished():
            found = replace(standing, epoch=event.epoch + 1, succeeded_at=at)
            if event.epsilon is None:
                return found
            deltas = {} if event.delta is None else {_TRAINING: event.delta}
            return replace(found, epsilons={_TRAINING: event.epsilon}, deltas=deltas)
        case Answered():
            return _answered(standing, event, at)
        case Paused():
            return replace(standing, state="paused")
        case Unpaused():
            return replace(standing, state="running")
        case RunFinished():
            return replace(standing, state=event.status)
        case _:
            return standing


def _of_round(event: RoundFinished) -> tuple[dict[str, float], dict[str, float]]:
    """What the rounds so far have cost; nothing where they are not protected."""
    costs = costs_of_round(event)
    epsilons = {of: epsilon for of, (epsilon, _) in costs.items() if epsilon is not None}
    return epsilons, {of: delta for of, (_, delta) in costs.items() if of in epsilons and delta is not None}


def _answered(standing: Standing, event: Answered, at: float) -> Standing:
    """At a client: its own figures; of several in one process, those of the one that paid most."""
    most = {of: max(spent, standing.epsilons.get(of, 0.0)) for of, spent in event.epsilons.items()}
    return replace(
        standing,
        round=event.round + 1,
        epsilons={**standing.epsilons, **most},
        deltas={**standing.deltas, **event.deltas},
        succeeded_at=at,
    )
