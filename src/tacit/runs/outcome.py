"""What a run comes to, and how it ends: the same for every kind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from tacit.errors import BudgetError, PeerError, comes_back, loggable
from tacit.events import EpochFinished, Kept, Noted, RoundFinished, RunFinished, Sink, TrainingResumed
from tacit.runs.report import report_run
from tacit.store.directory import RunDirectory, read_events

Status = Literal["done", "budget reached", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    status: Status
    text: str
    model: dict[str, NDArray[Any]]
    ledger: dict[str, Any]  # as in ledger.json: no ledgers where nothing has an epsilon
    history: list[RoundFinished] | list[EpochFinished] = field(default_factory=list)
    directory: Path | None = None


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Whether somebody asked the process to stop. Left to Python, an interrupt may fall where it is swallowed."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt  # somebody is impatient
        asked.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class Ending:
    """How a training in epochs ended."""

    status: Status = "failed"
    text: str = ""
    asked: bool = False  # to stop, by a signal


@contextmanager
def concluded(sink: Sink, kept: Kept) -> Iterator[Ending]:
    """Tell how the training inside ended. `kept` has what it told so far."""
    ending = Ending()
    start = time.perf_counter()
    try:
        with _stopped_by_signals(ending):
            yield ending
        if ending.status == "failed" and not ending.text:
            ending.status = "done"
    except KeyboardInterrupt:
        ending.status, ending.text = "stopped", "by hand"
    except BudgetError as error:
        ending.status, ending.text = "budget reached", str(error)
    except PeerError as error:
        ending.status, ending.text = "stopped" if comes_back(error) else "failed", str(error)
        raise
    except BaseException as error:
        ending.status = "stopped" if comes_back(error) else "failed"
        ending.text = loggable(error)
        raise
    finally:
        epochs = [event.epoch + 1 for event in kept.events if isinstance(event, EpochFinished)]
        epochs += [event.epoch for event in kept.events if isinstance(event, TrainingResumed)]
        seconds = time.perf_counter() - start
        sink.emit(RunFinished(ending.status, max(epochs, default=0), seconds, ending.text, "epochs"))


@contextmanager
def _stopped_by_signals(ending: Ending) -> Iterator[None]:
    """Have SIGTERM stop the run as Ctrl-C does. The interrupt may fall where Python swallows it: `asked` stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        ending.asked = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def history(kept: Kept, directory: RunDirectory | None) -> list[EpochFinished]:
    """The finished epochs, those before a resumption included; of one that was done again, the last."""
    happened = kept.events if directory is None else read_events(directory.path / "events.jsonl")
    found = {event.epoch: event for event in happened if isinstance(event, EpochFinished)}
    return [found[number] for number in sorted(found)]


def write_page(directory: RunDirectory, sink: Sink) -> None:
    """Leave the page. A run is not lost because its report could not be written."""
    try:
        report_run(directory.path)
    except (OSError, ValueError) as error:
        sink.emit(Noted(f"report.html was not written ({error}): tacit report {directory.path} tries again"))
