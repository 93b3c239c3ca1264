"""Carrying out what a file says, and keeping what came of it."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tacit import tasks
from tacit.engines.memory import MemoryEngine
from tacit.events import Kept, Noted, RoundFinished, RunFinished, RunStarted, Sink, Tee
from tacit.horizontal.coordinator import Coordinator
from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Arrays
from tacit.runs.config import load
from tacit.runs.directory import RunDirectory

Status = Literal["done", "budget reached", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    status: Status
    text: str
    model: Arrays
    ledger: dict[str, Any] | None  # of the client with the most uploads; None where nothing has an epsilon
    history: list[RoundFinished] = field(default_factory=list)
    directory: Path | None = None


def run(
    path_or_dict: str | Path | dict[str, Any], *, overrides: list[str] | None = None, runs: str | Path = "runs"
) -> Outcome:
    """Run a federation here: a file or a dict with the same keys. Leaves a run directory under `runs`."""
    settings = load(path_or_dict, overrides or [])
    with RunDirectory.create(Path(runs), settings, time.time()) as directory:
        return execute(settings, sink=directory, directory=directory)


def execute(settings: Settings, *, sink: Sink, directory: RunDirectory | None) -> Outcome:
    """Run every party of `settings` in this process."""
    kept = Kept()
    both = Tee(kept, sink)
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    engine = MemoryEngine(settings, task, both)
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
    start = time.perf_counter()
    status: Status = "failed"
    text = ""
    try:
        with _stop_signals() as asked:
            engine.run(_saver(directory), asked)
        status = "budget reached" if coordinator.budget_reached else "done"
        finished = [event for event in kept.events if isinstance(event, RoundFinished)]
        if not finished and status == "done":
            status, text = "failed", "no round had enough updates: see the aborted rounds for the reason"
    except KeyboardInterrupt:
        status, text = "stopped", "by hand"
    except BaseException as error:
        text = type(error).__name__  # not its words, which may quote a record
        raise
    finally:
        both.emit(RunFinished(status, coordinator.round, time.perf_counter() - start, text))
    _saver(directory)(coordinator)
    return Outcome(
        status,
        text,
        {name: np.array(array) for name, array in coordinator.model.items()},
        _ledger(coordinator),
        [event for event in kept.events if isinstance(event, RoundFinished)],
        directory.path if directory else None,
    )


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
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


def _saver(directory: RunDirectory | None) -> Callable[[Coordinator], None]:
    def save(coordinator: Coordinator) -> None:
        if directory is not None:
            directory.save_ledger(_ledger(coordinator) or {"lines": []})
            directory.save_model(dict(coordinator.model), coordinator.round)

    return save


def _ledger(coordinator: Coordinator) -> dict[str, Any] | None:
    """The ledger as plain data, with what it amounts to. It is stored before the model: never less than was spent."""
    ledger = coordinator.ledger()
    if ledger is None:
        return None
    epsilon = coordinator.epsilon()
    return {
        **ledger.to_json(),
        "epsilon": "infinite" if epsilon is None or math.isinf(epsilon) else epsilon,
        "delta": coordinator.delta,
        "uploads": max(coordinator.uploads.values(), default=0),
    }
