"""Carrying out the parties of this process to their end, and what they came to: the same for every kind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from tacit.errors import BudgetError, PeerError, comes_back, loggable
from tacit.events import (
    Answered,
    EpochFinished,
    Event,
    Kept,
    Noted,
    RoundAborted,
    RoundFinished,
    RunFinished,
    RunResumed,
    Sink,
    Tee,
    TrainingResumed,
)
from tacit.kind import Here, Kind, Result, S, Status, kind_of
from tacit.runs.report import report_run
from tacit.store.directory import RunDirectory, read_events

_OF_A_LEDGER = ("covers", "view", "epsilon", "delta", "unit", "relation", "lines")  # a report needs all of these


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    status: Status
    text: str
    model: dict[str, NDArray[Any]]
    ledger: dict[str, Any]  # as in ledger.json: no ledgers where nothing has an epsilon
    history: list[RoundFinished] | list[EpochFinished] = field(default_factory=list)
    directory: Path | None = None


def carried_out(
    settings: S,
    make: Callable[[Kind[S], Here], Callable[[], Result]],
    *,
    sink: Sink,
    directory: RunDirectory | None,
    clients: bool = False,
) -> Outcome:
    """Make the parties of this process, carry them out, and tell how that ended.

    `clients`: they are clients of a federation, whose page is worth writing however they end, once they took part.
    """
    kind = kind_of(settings)
    kept = Kept()
    both = Tee(kept, sink)
    stop = _Stop()

    def happened() -> Iterable[Event]:
        return kept.events if directory is None else read_events(directory.path / "events.jsonl")

    store = directory.store if directory is not None else None
    work = make(kind, Here(both, store, stop.asked.is_set, happened))
    start = time.perf_counter()
    status: Status = "failed"
    text = ""
    try:
        with stop.listening(kind.stopped_by):
            result = work()
        _check_ledger(kind.name, result.ledger)
        status, text = result.status, result.text
    except BaseException as error:
        status, text = _ended_by(error)
        raise
    finally:
        count = finished(kept.events)
        both.emit(RunFinished(status, count, time.perf_counter() - start, text, kind.counted.many))
        if clients and directory is not None and (count or any(directory.path.glob("client-*.json"))):
            write_page(directory, both)
    if directory is not None and not clients:
        write_page(directory, both)
    return Outcome(
        status,
        text,
        dict(result.model),
        dict(result.ledger),
        _history(happened(), count, kind.unit),
        directory.path if directory else None,
    )


def _check_ledger(kind: str, ledger: Mapping[str, Any]) -> None:
    """ValueError if a kind's ledger does not say what its epsilon is, of what, and for whom (see `kind.Result`)."""
    if not ledger:
        return
    found = ledger.get("ledgers")
    if not isinstance(found, list):
        raise ValueError(f'the ledger of the kind {kind} has no list "ledgers": see Result in tacit.kind')
    for number, each in enumerate(found):
        if missing := [key for key in _OF_A_LEDGER if key not in each]:
            raise ValueError(
                f"ledgers[{number}] of the kind {kind} lacks {', '.join(missing)}: add them to what "
                "Ledger.to_json() returns, see Result in tacit.kind"
            )


def finished(events: Sequence[Event]) -> int:
    """How many rounds or epochs a process came to the end of; of clients, how many the busiest took part in."""
    done = 0
    answered: dict[int, set[int]] = {}
    for event in events:
        match event:
            case RoundFinished() | RoundAborted():
                done = max(done, event.round + 1)
            case EpochFinished():
                done = max(done, event.epoch + 1)
            case RunResumed():
                done = max(done, event.round)
            case TrainingResumed():
                done = max(done, event.epoch)
            case Answered():
                answered.setdefault(event.client, set()).add(event.round)
    return max([done, *map(len, answered.values())])


def write_page(directory: RunDirectory, sink: Sink) -> None:
    """Leave the page. A run is not lost because its report could not be written."""
    try:
        report_run(directory.path)
    except (OSError, ValueError) as error:
        sink.emit(Noted(f"report.html was not written ({error}): tacit report {directory.path} tries again"))


def _ended_by(error: BaseException) -> tuple[Status, str]:
    """How a run ends that an error ends, and why."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped", "by hand"
    text = str(error) if isinstance(error, PeerError) else loggable(error)
    if isinstance(error, BudgetError):
        return "budget reached", text
    return ("stopped" if comes_back(error) else "failed"), text


def _history(
    events: Iterable[Event], count: int, unit: Literal["rounds", "epochs"]
) -> list[RoundFinished] | list[EpochFinished]:
    """The finished rounds or epochs, those before a resumption included; of one that was done again, the last."""
    happened = list(events)
    if unit == "rounds":
        rounds = {event.round: event for event in happened if isinstance(event, RoundFinished)}
        return [rounds[number] for number in sorted(rounds) if number < count]
    epochs = {event.epoch: event for event in happened if isinstance(event, EpochFinished)}
    return [epochs[number] for number in sorted(epochs) if number < count]


class _Stop:
    """Whether this process was asked to stop, by SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    @contextmanager
    def listening(self, by: Literal["flag", "interrupt"]) -> Iterator[None]:
        """Note the signals. `flag`: they only set it, as an interrupt may fall where it is swallowed; a second one
        interrupts. `interrupt`: they interrupt too, for work that waits where no flag is looked at."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: object) -> None:
            impatient = self.asked.is_set()
            self.asked.set()
            if impatient or by == "interrupt":
                raise KeyboardInterrupt

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
