"""Carrying out a horizontal federation, and keeping what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from tacit.events import Noted, RoundAborted, RoundFinished, RunResumed, RunStarted, Sink
from tacit.kind import Here, Result, ended_early
from tacit.kinds.horizontal import bounded_participation
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.choose import engine_for
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.kinds.horizontal.tasks import load as tasks


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
    if stored.train.privacy is not None:  # noise is sized for all that a client may answer
        return free - {"rounds", "round.abandoned_rounds"}
    sized = stored.updates.sized_for_rounds and stored.most_sums == stored.rounds  # not for a cap on participations
    return free - {"rounds"} if sized else free


def finished(settings: Settings, state: Mapping[str, Any]) -> str | None:
    """Why there is nothing left to do."""
    done = state["round"]
    if settings.stop is not None and state.get("waited", 0) >= settings.stop.patience:
        return f"it ended early, after {done} rounds: {settings.stop.metric} no longer improved"
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
        **bounded_participation.caught_up(settings, state, since),
    }


class Engine(Protocol):
    """Where the parties live: in this process, on a cluster or on a network."""

    coordinator: Coordinator

    def restore(self, state: dict[str, Any], model: Arrays) -> None: ...

    def run(self, store: Callable[[Coordinator], None], should_stop: Callable[[], bool]) -> None: ...


def execute(
    settings: Settings,
    here: Here,
    engine_of: Callable[[Settings, Task, Sink], Engine] | None = None,
    task_options: dict[str, Any] | None = None,
) -> Callable[[], Result]:
    """The coordinator of `settings`; by default with every other party in this process too.

    `task_options` are added to those of the file.
    """
    task = tasks.make(settings.task, settings.clients, settings.seed, {**settings.task_options, **(task_options or {})})
    folder = here.store.path if here.store is not None else None
    engine: Engine = (engine_of or partial(engine_for, folder=folder))(settings, task, here.sink)
    coordinator = engine.coordinator
    coordinator.check_stop()
    here.sink.emit(started(settings, coordinator.layout.size))
    for note in settings.notes():
        here.sink.emit(Noted(note))
    if here.store is not None and (stored := here.store.stored()) is not None:
        state, model = stored
        engine.restore(state, model)
        here.sink.emit(RunResumed(coordinator.round, state["under_way"]))

    def save(coordinator: Coordinator) -> None:
        if here.store is not None:
            here.store.save(coordinator.model, coordinator.state(), _ledger(coordinator))

    def run() -> Result:
        with ended_early() as ending:
            engine.run(save, here.should_stop)
        if ending.status == "done" and coordinator.budget_reached:
            ending.status = "budget reached"
        elif ending.status == "done" and _all_aborted(here):
            ending.status = "failed"
            ending.text = "no round had enough updates: see the aborted rounds for the reason"
        elif ending.status == "done":
            ending.text = coordinator.stopped_early
        save(coordinator)
        if coordinator.budget_reached and settings.stop is not None and here.store is not None:
            here.store.save_model(coordinator.model, coordinator.round)  # the best one, after the last was stored
        model = {name: np.array(array) for name, array in coordinator.model.items()}
        return Result(model, _ledger(coordinator), ending.status, ending.text)

    return run


def started(settings: Settings, parameters: int) -> RunStarted:
    """That a party begins."""
    protection = settings.encrypt.encrypt_type
    return RunStarted(settings.name, settings.kind, settings.clients, settings.rounds, protection, parameters)


def _all_aborted(here: Here) -> bool:
    """Whether rounds were aborted and none had enough updates. Events that were lost say neither."""
    found = {type(event) for event in here.happened()}
    return RoundAborted in found and RoundFinished not in found


def _ledger(coordinator: Coordinator) -> dict[str, Any]:
    """The ledgers as plain data, with what they amount to, and the counters behind them."""
    spent = [each.to_json() for each in coordinator.spent()]
    return {"version": 1, "ledgers": spent, "attempts": coordinator.attempts, "sums": coordinator.sums}
