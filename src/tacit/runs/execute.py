"""Carrying out what a file says, and keeping what came of it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from tacit import tasks
from tacit.engines.choose import engine_for
from tacit.errors import PeerError
from tacit.events import Kept, Noted, RoundFinished, RunFinished, RunResumed, RunStarted, Sink, Tee
from tacit.horizontal.coordinator import Coordinator
from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Arrays, Task
from tacit.runs.config import fingerprint, load
from tacit.runs.directory import RunDirectory, read_events
from tacit.runs.report import report_run
from tacit.runs.resume import resumed

Status = Literal["done", "budget reached", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    status: Status
    text: str
    model: Arrays
    ledger: dict[str, Any]  # as in ledger.json: no ledgers where nothing has an epsilon
    history: list[RoundFinished] = field(default_factory=list)
    directory: Path | None = None


def run(
    path_or_dict: str | Path | dict[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    resume: str | Path | None = None,
) -> Outcome:
    """Run a federation here: a file or a dict with the same keys. Leaves a run directory under `runs`.

    With `resume`, the run in that directory goes on instead, with the settings that it stored; a dict is needed only
    where its task's options are Python objects.
    """
    if resume is not None:
        if path_or_dict is not None and not isinstance(path_or_dict, dict):
            raise ValueError("a run is resumed with the settings that it stored: leave out the file")
        settings, directory = resumed(resume, path_or_dict, overrides)
    elif path_or_dict is None:
        raise ValueError("run needs a file or a dict, or the directory of a run to resume")
    else:
        settings = load(path_or_dict, overrides)
        directory = RunDirectory.create(Path(runs), settings, time.time())
    with directory:
        return execute(settings, sink=directory, directory=directory)


class Engine(Protocol):
    """Where the parties live: in this process, on a cluster or on a network."""

    coordinator: Coordinator

    def restore(self, state: dict[str, Any], model: Arrays) -> None: ...

    def run(self, store: Callable[[Coordinator], None], should_stop: Callable[[], bool]) -> None: ...


def execute(
    settings: Settings,
    *,
    sink: Sink,
    directory: RunDirectory | None,
    engine_of: Callable[[Settings, Task, Sink], Engine] = engine_for,
    task_options: dict[str, Any] | None = None,
) -> Outcome:
    """Carry out `settings` as their coordinator; by default with every other party in this process too.

    `task_options` are added to those of the file.
    """
    kept = Kept()
    both = Tee(kept, sink)
    task = tasks.make(settings.task, settings.clients, settings.seed, {**settings.task_options, **(task_options or {})})
    engine = engine_of(settings, task, both)
    coordinator = engine.coordinator
    both.emit(
        RunStarted(
            settings.name,
            settings.kind,
            settings.clients,
            settings.rounds,
            settings.encrypt.encrypt_type,
            coordinator.layout.size,
        )
    )
    for note in settings.notes():
        both.emit(Noted(note))
    if directory is not None and (stored := directory.stored()) is not None:
        state, model = stored
        engine.restore(state, model)
        both.emit(RunResumed(coordinator.round, state["under_way"]))
    start = time.perf_counter()
    status: Status = "failed"
    text = ""
    try:
        with stop_signals() as asked:
            engine.run(_saver(directory, settings), asked)
        status = "budget reached" if coordinator.budget_reached else "done"
        if not _history(kept, directory, coordinator.round) and status == "done":
            status, text = "failed", "no round had enough updates: see the aborted rounds for the reason"
    except KeyboardInterrupt:
        status, text = "stopped", "by hand"
    except PeerError as error:
        text = str(error)
        raise
    except BaseException as error:
        text = type(error).__name__  # not its words, which may quote a record
        raise
    finally:
        both.emit(RunFinished(status, coordinator.round, time.perf_counter() - start, text))
    _saver(directory, settings)(coordinator)
    if directory is not None:
        _report(directory, both)
    return Outcome(
        status,
        text,
        {name: np.array(array) for name, array in coordinator.model.items()},
        _ledger(coordinator),
        _history(kept, directory, coordinator.round),
        directory.path if directory else None,
    )


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


def _report(directory: RunDirectory, sink: Sink) -> None:
    """Leave the page. A run is not lost because its report could not be written."""
    try:
        report_run(directory.path)
    except (OSError, ValueError) as error:
        sink.emit(Noted(f"report.html was not written ({error}): tacit report {directory.path} tries again"))


def _history(kept: Kept, directory: RunDirectory | None, rounds: int) -> list[RoundFinished]:
    """The finished rounds, those before a resumption included; of one that was done again, the last."""
    happened = kept.events if directory is None else read_events(directory.path / "events.jsonl")
    found = {event.round: event for event in happened if isinstance(event, RoundFinished)}
    return [found[number] for number in sorted(found) if number < rounds]


def _saver(directory: RunDirectory | None, settings: Settings) -> Callable[[Coordinator], None]:
    pinned = fingerprint(settings)

    def save(coordinator: Coordinator) -> None:
        if directory is not None:
            directory.save(coordinator.model, {**coordinator.state(), "settings": pinned}, _ledger(coordinator))

    return save


def _ledger(coordinator: Coordinator) -> dict[str, Any]:
    """The ledgers as plain data, with what they amount to."""
    return {"version": 1, "ledgers": [spent.to_json() for spent in coordinator.spent()]}
