"""Being one party of a federation, over a network."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.events import Noted, Sink
from tacit.kind import Here, Paid, Result, Seat, fingerprint
from tacit.kinds.horizontal.answered import check_state
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.frames import FramedClient, FramedCoordinator
from tacit.kinds.horizontal.kept_arrays import KeptArrays
from tacit.kinds.horizontal.last_model import LastModel
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.record_level import check_records, records_spent
from tacit.kinds.horizontal.run import execute, started
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.net.site import Site, manner
from tacit.net.star import client_name
from tacit.net.star_guest import StarGuest
from tacit.net.star_host import StarHost
from tacit.store.files import write_twice
from tacit.store.party_folder import CLIENT, Store, read_intact


def seat(settings: Settings, party: str, identities: str | None) -> Seat:
    """The coordinator, or the client or clients that `--id` names."""
    if party == "coordinator":
        if identities is not None:
            raise ConfigError("--id is for clients: leave it out for the coordinator")
        return Seat("coordinator", coordinates=True)
    if party != "client":
        near = re.fullmatch(r"client-(\d+)", party)
        advice = f"did you mean --party client --id {near[1]}?" if near else "give coordinator, or client with --id"
        raise ConfigError(f"--party is {party!r}: {advice}")
    if identities is None:
        raise ConfigError(f"--id is missing: give the client's number, from 0 to {settings.clients - 1}")
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", identities)
    if not found:
        raise ConfigError(f"--id is {identities!r}: give a number from 0 to {settings.clients - 1}, or two as in 0-3")
    first, last = int(found[1]), int(found[2] or found[1])
    if not first <= last < settings.clients:
        raise ConfigError(f"--id is {identities}: the file has clients 0 to {settings.clients - 1}")
    return Seat(client_name(first), tuple(range(first, last + 1)))


def address(settings: Settings, party: str) -> str:
    """Where the coordinator is."""
    if settings.network.coordinator is None:
        raise ConfigError("the file does not say where the coordinator is: add network: {coordinator: HOST:PORT}")
    return settings.network.coordinator


def take_part(settings: Settings, seat: Seat, site: Site, here: Here) -> Callable[[], Result]:
    """Be the coordinator until all rounds are done, or clients until it says so."""
    if here.store is None:
        raise ValueError("a party over a network keeps what it paid: give it a store")
    join = _join_clients if seat.clients else _join_coordinator
    return join(settings, seat.clients, site, here, here.store)


class NetworkEngine:
    """A coordinator on a server; see `run.Engine`."""

    def __init__(self, prepared: Prepared, site: Site, sink: Sink) -> None:
        star = FramedCoordinator(prepared, sink, time.perf_counter)
        self.coordinator = star.coordinator
        self._host = StarHost(
            star,
            site,
            sink,
            pins=site.pins,
            listening=lambda: sink.emit(Noted(f"listening on {site.bind} {manner(site)}")),
        )

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        self.coordinator.restore(state, model)

    def run(self, store: Callable[[Coordinator], None], should_stop: Callable[[], bool]) -> None:
        self._host.run(lambda: store(self.coordinator), should_stop)


def _join_coordinator(
    settings: Settings, clients: Sequence[int], site: Site, here: Here, store: Store
) -> Callable[[], Result]:
    def engine(settings: Settings, task: Task, sink: Sink) -> NetworkEngine:
        return NetworkEngine(Prepared.of(settings, task), site, sink)

    return execute(settings, here, engine, site.local.task_options)


def _join_clients(
    settings: Settings, clients: Sequence[int], site: Site, here: Here, store: Store
) -> Callable[[], Result]:
    task = tasks.make(
        settings.task, settings.clients, settings.seed, {**settings.task_options, **site.local.task_options}
    )
    prepared = Prepared.of(settings, task)
    here.sink.emit(started(settings, prepared.layout.size))
    here.sink.emit(Noted(f"connecting to {site.address} {manner(site)}"))
    last_model = LastModel(store.path, prepared.layout) if settings.share_model else None

    def run() -> Result:
        try:
            return asyncio.run(_answer(prepared, clients, site, here, store.path, last_model))
        finally:
            if last_model is not None and (failed := last_model.close()):
                here.sink.emit(Noted(f"the last model was not kept: {failed}"))

    return run


async def _answer(
    prepared: Prepared, clients: Sequence[int], site: Site, here: Here, folder: Path, last_model: LastModel | None
) -> Result:
    settings = prepared.settings
    thread = ThreadPoolExecutor(1, "clients")
    running = []
    keep = last_model.keep if last_model is not None else lambda round, model: None
    under = fingerprint(settings)
    if settings.spends and _stored(folder, clients[0], under) is None:
        here.sink.emit(
            Noted(
                "the ledger begins at nothing: a client that took part before resumes with --resume RUN, or --state DIR"
            )
        )
    kept = KeptArrays(folder)
    for identity in clients:
        store = _storer(folder, identity, Costs(settings, prepared.layout.size), under, kept, here.paid)
        leaf = FramedClient(prepared, identity, site.credentials, store, keep, fit=kept.around(prepared.task.fit))
        if (stored := _stored(folder, identity, under)) is not None:
            leaf.client.restore(stored)
        guest = StarGuest(leaf, site, here.sink, thread=thread, pins=site.pins)
        running.append(asyncio.create_task(guest.run(here.should_stop)))
    try:
        partings = await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        thread.shutdown(wait=False)
    if any(parting.status == "stopped" for parting in partings):
        raise KeyboardInterrupt  # not where the end was heard before the signal: nobody would tell it again
    last = partings[0]
    match last.status:
        case "done" | "budget reached" as status:
            return Result({}, {}, status, last.reason)
        case _:
            raise PeerError(f"the coordinator ended the run: {last.reason or 'it did not say why'}")


def _storer(
    folder: Path,
    identity: int,
    costs: Costs,
    under: str,
    kept: KeptArrays | None = None,
    paid: Paid = lambda ledgers: None,
) -> Callable[[Client], None]:
    """Stores what a client answered and paid, and tells its site. `under`: the fingerprint of the settings that it paid
    under."""
    stored: dict[str, Any] = {}

    def store(client: Client) -> None:
        state = client.state()
        if state != stored:  # not every answer costs something, and a file that must reach the disk takes its time
            spent = costs.spent(state["uploads"], state["sums"]) + records_spent(costs.settings, state)
            ledgers = [each.to_json() for each in spent]
            data = {"state": state, "ledger": {"version": 1, "ledgers": ledgers}, "settings": under}
            write_twice(folder / f"{client_name(identity)}.json", data)
            paid(ledgers)
            stored.update(state)
        if kept is not None:
            kept.store(state["attempts"], identity)  # after the ledger: what it was paid for is stored first

    return store


def _stored(folder: Path, identity: int, under: str) -> dict[str, Any] | None:
    """What a client stored; ConfigError if that was under other settings, under which it cost something else."""
    path = folder / f"{client_name(identity)}.json"
    if (stored := read_intact(path, CLIENT)) is None:
        return None
    if stored.get("settings", under) != under:  # an earlier release stored none
        raise ConfigError(
            f"{path}: config.yaml was changed since this client last answered, and what it spent so far was spent "
            "under the old settings: put them back, or start a new run"
        )
    try:
        state = stored["state"]
        found = {name: state[name] for name in ("attempts", "uploads", "sums")}
        answered = {
            name: state[name] for name in ("models", "repeats", "opened", "trained", "records") if name in state
        }
        check_state(answered)
        check_records(answered)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: what was spent cannot be read from it, so this client cannot continue") from error
    if any(type(value) is not int or value < 0 for value in found.values()):
        raise ConfigError(f"{path}: what was spent cannot be {found}, so this client cannot continue")
    return found | answered
