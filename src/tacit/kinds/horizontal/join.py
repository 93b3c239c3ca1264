"""Being one party of a file, over a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.errors import BudgetError, PeerError, comes_back, loggable
from tacit.events import Noted, RunFinished, RunStarted, Sink
from tacit.kinds.horizontal.answered import check_state
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.frames import FramedClient, FramedCoordinator
from tacit.kinds.horizontal.last_model import LastModel
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.run import execute
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.net.loopback import on_loopback
from tacit.net.peers import pins_in
from tacit.net.pins import Pins
from tacit.net.site import Site, manner, own_credentials
from tacit.net.star import client_name
from tacit.net.star_guest import StarGuest
from tacit.net.star_host import StarHost
from tacit.runs.outcome import Outcome, Status, stop_signals, write_page
from tacit.sections import Network
from tacit.store.directory import RunDirectory
from tacit.store.files import write_twice
from tacit.store.party_folder import CLIENT, read_intact


def site_of(settings: Any, local: Local, folder: Path, party: str, *, insecure: bool, noise: bool = False) -> Site:
    """Check that a party may take part like this. `noise`: tests may fix it."""
    if getattr(settings, "insecure", False) and not noise:
        raise ConfigError("simulation.insecure_noise_seed fixes the noise of real parties: leave it out of the file")
    address = local.coordinator or _address(settings, party)
    bind = local.bind or address
    network = getattr(settings, "network", Network()).adjusted(local.network)
    if insecure:
        for where in {address, bind}:
            if not on_loopback(where):
                raise ConfigError(f"--insecure is for this machine only, and {where} is not 127.0.0.1: give keys")
        return Site(address, bind, None, local, folder, network)
    return Site(address, bind, own_credentials(local, folder, party), local, folder, network)


def _address(settings: Any, party: str) -> str:
    """Where the party is that all others connect to."""
    if isinstance(settings, Settings):
        if settings.network.coordinator is None:
            raise ConfigError("the file does not say where the coordinator is: add network: {coordinator: HOST:PORT}")
        return settings.network.coordinator
    parties = getattr(settings, "parties", None)
    if parties is None:
        raise ConfigError(f"kind {settings.kind} has one party: run it with tacit run")
    if party not in parties:
        raise ConfigError(f"--party is {party!r}: give {' or '.join(parties)}")
    address: str | None = parties[settings.hub].address
    if address is None:
        raise ConfigError(f"the file does not say where {settings.hub} is: add its address: HOST:PORT under parties")
    return address


class NetworkEngine:
    """A coordinator on a server; see `run.Engine`."""

    def __init__(self, prepared: Prepared, site: Site, sink: Sink, pins: Pins | None = None) -> None:
        star = FramedCoordinator(prepared, sink, time.perf_counter)
        self.coordinator = star.coordinator
        self._host = StarHost(
            star,
            site,
            sink,
            pins=pins,
            listening=lambda: sink.emit(Noted(f"listening on {site.bind} {manner(site)}")),
        )

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        self.coordinator.restore(state, model)

    def run(self, store: Callable[[Coordinator], None], should_stop: Callable[[], bool]) -> None:
        self._host.run(lambda: store(self.coordinator), should_stop)


def join_coordinator(settings: Settings, site: Site, sink: Sink, directory: RunDirectory) -> Outcome:
    """Be the coordinator until all rounds are done."""

    def engine(settings: Settings, task: Task, sink: Sink) -> NetworkEngine:
        return NetworkEngine(Prepared.of(settings, task), site, sink, pins_in(directory.path))

    return execute(settings, sink=sink, directory=directory, engine_of=engine, task_options=site.local.task_options)


def join_clients(
    settings: Settings, identities: Sequence[int], site: Site, sink: Sink, directory: RunDirectory
) -> tuple[Status, str]:
    """Be a client, or several of one site, until the coordinator says that it is over: how it ended, and why."""
    task = tasks.make(
        settings.task, settings.clients, settings.seed, {**settings.task_options, **site.local.task_options}
    )
    prepared = Prepared.of(settings, task)
    sink.emit(_started(settings, prepared.layout))
    sink.emit(Noted(f"connecting to {site.address} {manner(site)}"))
    start = time.perf_counter()
    status: Status = "failed"
    reason = ""
    leaves: list[FramedClient] = []
    last_model = LastModel(directory.path, prepared.layout) if settings.share_model else None
    try:
        with stop_signals() as asked:
            status, reason = asyncio.run(
                _take_part(prepared, identities, site, sink, directory, asked, leaves, last_model)
            )
    except KeyboardInterrupt:
        status, reason = "stopped", "by hand"
        raise
    except BaseException as error:
        status = "budget reached" if isinstance(error, BudgetError) else "stopped" if comes_back(error) else "failed"
        reason = loggable(error)
        raise
    finally:
        if last_model is not None and (failed := last_model.close()):
            sink.emit(Noted(f"the last model was not kept: {failed}"))
        rounds = max((len(leaf.rounds) for leaf in leaves), default=0)
        sink.emit(RunFinished(status, rounds, time.perf_counter() - start, reason))
        if rounds or any(directory.path.glob("client-*.json")):  # now, or before it was resumed
            write_page(directory, sink)
    return status, reason


def _started(settings: Settings, layout: Layout) -> RunStarted:
    protection = settings.encrypt.encrypt_type
    return RunStarted(settings.name, settings.kind, settings.clients, settings.rounds, protection, layout.size)


async def _take_part(
    prepared: Prepared,
    identities: Sequence[int],
    site: Site,
    sink: Sink,
    directory: RunDirectory,
    should_stop: Callable[[], bool],
    leaves: list[FramedClient],
    last_model: LastModel | None,
) -> tuple[Status, str]:
    """Fills `leaves`, which know how far they came however it ends."""
    settings = prepared.settings
    thread = ThreadPoolExecutor(1, "clients")
    running = []
    keep = last_model.keep if last_model is not None else lambda round, model: None
    if settings.spends and _stored(directory, identities[0]) is None:
        sink.emit(
            Noted(
                "the ledger begins at nothing: a client that took part before resumes with --resume RUN, or --state DIR"
            )
        )
    for identity in identities:
        store = _storer(directory, identity, Costs(settings, prepared.layout.size))
        leaf = FramedClient(prepared, identity, site.credentials, store, keep)
        if (stored := _stored(directory, identity)) is not None:
            leaf.client.restore(stored)
        leaves.append(leaf)
        guest = StarGuest(leaf, site, sink, thread=thread, pins=pins_in(directory.path))
        running.append(asyncio.create_task(guest.run(should_stop)))
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
            return status, last.reason
        case _:
            raise PeerError(f"the coordinator ended the run: {last.reason or 'it did not say why'}")


def _storer(directory: RunDirectory, identity: int, costs: Costs) -> Callable[[Client], None]:
    stored: dict[str, Any] = {}

    def store(client: Client) -> None:
        state = client.state()
        if state == stored:  # not every answer costs something, and a file that must reach the disk takes its time
            return
        ledgers = [spent.to_json() for spent in costs.spent(state["uploads"], state["sums"])]
        data = {"state": state, "ledger": {"version": 1, "ledgers": ledgers}}
        write_twice(directory.path / f"{client_name(identity)}.json", data)
        stored.update(state)

    return store


def _stored(directory: RunDirectory, identity: int) -> dict[str, Any] | None:
    path = directory.path / f"{client_name(identity)}.json"
    if (stored := read_intact(path, CLIENT)) is None:
        return None
    try:
        state = stored["state"]
        found = {name: state[name] for name in ("attempts", "uploads", "sums")}
        answered = {name: state[name] for name in ("models", "repeats", "opened") if name in state}
        check_state(answered)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: what was spent cannot be read from it, so this client cannot go on") from error
    if any(type(value) is not int or value < 0 for value in found.values()):
        raise ConfigError(f"{path}: what was spent cannot be {found}, so this client cannot go on")
    return found | answered
