"""Carrying out a horizontal federation, and keeping what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from tacit.config.load import fingerprint
from tacit.errors import PeerAway, PeerError, comes_back, loggable
from tacit.events import Event, Kept, Noted, RoundAborted, RoundFinished, RunFinished, RunResumed, RunStarted, Sink, Tee
from tacit.kinds.horizontal import boundary
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.choose import engine_for
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.runs.outcome import Outcome, Status, stop_signals, write_page
from tacit.store.directory import RunDirectory, read_events

__all__ = ["boundary", "caught_up", "execute", "finished", "may_change"]


def may_change(stored: Settings) -> frozenset[str]:
    """What a resumed run may change."""
    free = frozenset(
        {
            "rounds",
            "round.abandoned_rounds",
            "round.repeats",
            "simulation.workers",
            "engine.kind",
            "engine.address",
            "engine.workers",
        }
    )
    return free - {"rounds"} if stored.updates.sized_for_rounds else free


def finished(settings: Settings, state: dict[str, Any]) -> str | None:
    """Why there is nothing left to do."""
    done = state["round"]
    if done < settings.rounds:
        return None
    longer = f": to train longer, give more (--set rounds={done + settings.rounds})"
    return f"all {done} rounds are done{longer if 'rounds' in may_change(settings) else ''}"


def caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    """An earlier state with the rounds that were begun and the sums that were opened since.

    Who was sampled in those rounds is not known any more: each client counts as if it had been, in all of them.
    """
    since = max(0, ledger["attempts"] - state["attempts"])
    uploads = dict(zip(state["clients"].tolist(), state["uploads"].tolist(), strict=True))
    if since:
        uploads = {client: uploads.get(client, 0) + since for client in range(settings.clients)}
    return {
        **state,
        "attempts": state["attempts"] + since,
        "sums": max(state["sums"], ledger["sums"]),
        "clients": np.array(sorted(uploads), dtype=np.int64),
        "uploads": np.array([uploads[client] for client in sorted(uploads)], dtype=np.int64),
        **({"answered": np.arange(settings.clients, dtype=np.int64)} if since else {}),
    }


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
        if status == "done" and _all_aborted(kept, directory):
            status, text = "failed", "no round had enough updates: see the aborted rounds for the reason"
    except KeyboardInterrupt:
        status, text = "stopped", "by hand"
    except PeerAway as error:
        status, text = "stopped", str(error)
        raise
    except PeerError as error:
        text = str(error)
        raise
    except BaseException as error:
        status = "stopped" if comes_back(error) else "failed"
        text = loggable(error)
        raise
    finally:
        both.emit(RunFinished(status, coordinator.round, time.perf_counter() - start, text))
    _saver(directory, settings)(coordinator)
    if directory is not None:
        write_page(directory, both)
    return Outcome(
        status,
        text,
        {name: np.array(array) for name, array in coordinator.model.items()},
        _ledger(coordinator),
        _history(kept, directory, coordinator.round),
        directory.path if directory else None,
    )


def _happened(kept: Kept, directory: RunDirectory | None) -> Iterable[Event]:
    return kept.events if directory is None else read_events(directory.path / "events.jsonl")


def _history(kept: Kept, directory: RunDirectory | None, rounds: int) -> list[RoundFinished]:
    """The finished rounds, those before a resumption included; of one that was done again, the last."""
    found = {event.round: event for event in _happened(kept, directory) if isinstance(event, RoundFinished)}
    return [found[number] for number in sorted(found) if number < rounds]


def _all_aborted(kept: Kept, directory: RunDirectory | None) -> bool:
    """Whether rounds were aborted and none had enough updates. Events that were lost say neither."""
    found = {type(event) for event in _happened(kept, directory)}
    return RoundAborted in found and RoundFinished not in found


def _saver(directory: RunDirectory | None, settings: Settings) -> Callable[[Coordinator], None]:
    pinned = fingerprint(settings)

    def save(coordinator: Coordinator) -> None:
        if directory is not None:
            directory.save(coordinator.model, {**coordinator.state(), "settings": pinned}, _ledger(coordinator))

    return save


def _ledger(coordinator: Coordinator) -> dict[str, Any]:
    """The ledgers as plain data, with what they amount to, and the counters behind them."""
    spent = [each.to_json() for each in coordinator.spent()]
    return {"version": 1, "ledgers": spent, "attempts": coordinator.attempts, "sums": coordinator.sums}
