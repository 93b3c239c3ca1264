"""Many clients, each with a TLS connection of its own, hold a masked round: the coordinator is one process, the clients
are tasks in two others.

All three share this machine's processors: what takes time is mostly the clients' work, which real clients do on
machines of their own. `python -m bench fleet` has 1000 clients in semi-honest mode, whose graph is sparse, and 100 in
active mode, where each client verifies every other one; `--quick` has 100 and 20.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection as Pipe
from typing import Literal

from bench.measure import Options, Row, peak_memory
from bench.network import Files, _told, files, guest_of, host_of
from bench.simulation import Still
from tacit.events import Kept, RoundFinished, RoundStarted
from tacit.kinds.horizontal.encrypt import Encrypt, PairwiseMasks
from tacit.kinds.horizontal.settings import Round, Settings
from tacit.net.identity import Authority, Credentials
from tacit.net.star import COORDINATOR, client_name
from tacit.sections import Network

WORDS = 10_000
PROCESSES = 2
_WINDOW = 590_000  # milliseconds: no client is late because all share two processors
PATIENT = Network(lost_after=_WINDOW / 1000)  # and none is given up
Mode = Literal["semi_honest", "active"]


def fleet(clients: int, mode: Mode) -> Settings:
    masks = PairwiseMasks(mode=mode, cipher_time_window=_WINDOW)
    return Settings(
        task="still",
        rounds=1,
        clients=clients,
        encrypt=Encrypt(encrypt_type="PW_ENCRYPT", pw_encrypt=masks),
        round=Round(start_fl_job_time_window=_WINDOW, update_model_time_window=_WINDOW),
    )


class Stamped(Kept):
    """Events, when the round began, and the most connections and descriptors that there were."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0.0
        self.descriptors = 0

    def emit(self, event: object) -> None:
        super().emit(event)  # type: ignore[arg-type]
        self.descriptors = max(self.descriptors, len(os.listdir("/proc/self/fd")))
        if isinstance(event, RoundStarted):
            self.begun = time.monotonic()


def coordinator(pipe: Pipe, settings: Settings, own: Files, network: Network) -> None:
    """Serve one run: tell the port, then when the round began, how long it took, and what this process used."""
    kept = Stamped()
    host = host_of(settings, Still(WORDS), kept, Credentials.of(*own), network)
    asyncio.run(host.serve(ready=pipe.send))
    (finished,) = (event for event in kept.events if isinstance(event, RoundFinished))
    if finished.survivors != settings.clients:
        raise RuntimeError(f"{finished.survivors} survivors of {settings.clients}")
    pipe.send((kept.begun, finished.seconds, peak_memory(), kept.descriptors))


def clients(pipe: Pipe, settings: Settings, own: list[tuple[int, Files]], port: int) -> None:
    """Be so many clients, each with credentials and so with a connection of its own."""

    async def take_part() -> None:
        with ThreadPoolExecutor(1) as thread:
            guests = [
                guest_of(settings, identity, Still(WORDS), port, Credentials.of(*made), thread)
                for identity, made in own
            ]
            await asyncio.gather(*(guest.run() for guest in guests))

    asyncio.run(take_part())
    pipe.send(None)


def measured(count: int, mode: Mode, network: Network) -> tuple[float, float, int, int]:
    """Seconds until all are connected, seconds of the round, the coordinator's peak memory and descriptors."""
    settings, authority = fleet(count, mode), Authority.create()
    context = multiprocessing.get_context("spawn")
    running = []

    def started(what: Callable[..., None], *arguments: object) -> Pipe:
        here, there = context.Pipe()
        process = context.Process(target=what, args=(there, settings, *arguments), daemon=True)
        process.start()
        running.append(process)
        there.close()
        return here

    try:
        serving = started(coordinator, files(authority, COORDINATOR), network)
        made = [(identity, files(authority, client_name(identity))) for identity in range(count)]
        port = _told(serving)
        start = time.monotonic()
        sites = [started(clients, made[part::PROCESSES], port) for part in range(PROCESSES)]
        begun, seconds, memory, descriptors = _told(serving)
        for site in sites:
            _told(site)
    finally:
        for process in running:
            process.join(5)
            process.kill()
    return begun - start, seconds, memory, descriptors


def run(options: Options) -> list[Row]:
    rows = []
    sizes: dict[Mode, int] = (
        {"semi_honest": 100, "active": 20} if options.quick else {"semi_honest": 1000, "active": 100}
    )
    for mode, count in sizes.items():
        joined, seconds, memory, descriptors = measured(count, mode, PATIENT)
        title = f"{count} clients with a TLS connection each, {mode}"
        rows += [
            Row(f"{title}: until all are connected", joined, None, "s", "lower"),
            Row(f"{title}: masked round of {WORDS:,} words", seconds, None, "s", "lower"),
            Row(f"{title}: peak memory of the coordinator", memory / 1e6, None, "MB", "lower"),
            Row(f"{title}: most descriptors of the coordinator", descriptors, None, "open", "lower"),
        ]
    return rows
