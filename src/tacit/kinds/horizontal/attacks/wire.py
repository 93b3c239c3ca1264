"""A federation over loopback, each client through a wire that is tapped."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from tacit.audit.attacks.wire import ANYWHERE, PATIENCE, NetworkView, Tapped, certificates, kept_by
from tacit.audit.attacks.wiretap import Wiretap
from tacit.config.local import Local
from tacit.events import Kept
from tacit.kinds.horizontal.frames import FramedClient, FramedCoordinator
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task
from tacit.net.site import Site
from tacit.net.star import COORDINATOR, client_name
from tacit.net.star_guest import StarGuest
from tacit.net.star_host import StarHost
from tacit.wire import AnyFrame

_GRACE = 1.0  # seconds for clients to hear the end


class _Telling(StarGuest):
    """A client that keeps the frames that it sent and got."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.said: list[bytes] = []
        send = self.connection.send

        def telling(frame: AnyFrame) -> None:
            self.said.append(bytes(frame))
            send(frame)

        self.connection.send = telling  # type: ignore[method-assign]

    async def arrived(self, frame: bytes | memoryview) -> None:
        self.said.append(bytes(frame))
        await super().arrived(frame)


def tap_federation(settings: Settings, task: Task, *, secure: bool) -> Tapped:
    """All rounds of a federation. Each client has a wire of its own, so that it is known whose bytes they are."""
    return asyncio.run(_federation(settings, task, secure))


async def _over(serving: asyncio.Task[None], running: list[asyncio.Task[Any]]) -> None:
    """Until the coordinator is done. A client that fails ends it; one that came too late for the end is not waited for:
    it would wait for a coordinator to come back."""
    waiting = {serving, *running}
    while not serving.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    serving.result()
    await asyncio.wait(running, timeout=_GRACE)


async def _federation(settings: Settings, task: Task, secure: bool) -> Tapped:
    own = certificates(secure)
    kept = Kept()
    prepared = Prepared.of(settings, task)
    site = Site(ANYWHERE, ANYWHERE, own(COORDINATOR), Local(), network=settings.network)
    host = StarHost(FramedCoordinator(prepared, kept, time.perf_counter), site, kept)
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(host.serve(ready=listening.set_result))
    waited: set[asyncio.Future[Any]] = {serving, listening}
    await asyncio.wait(waited, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if not listening.done():
        serving.cancel()
        await serving  # raises what went wrong
    port = listening.result()
    clients: list[_Telling] = []
    leaves: list[FramedClient] = []
    with ExitStack() as open_now, ThreadPoolExecutor(1) as thread:
        taps = [open_now.enter_context(Wiretap(port, keep=True)) for _ in range(settings.clients)]
        for identity, tap in enumerate(taps):
            address, credentials = f"127.0.0.1:{tap.port}", own(client_name(identity))
            leaf = FramedClient(prepared, identity, credentials)
            leaves.append(leaf)
            clients.append(_Telling(leaf, Site(address, address, credentials, Local()), Kept(), thread=thread))
        running = [asyncio.create_task(client.run()) for client in clients]
        try:
            await asyncio.wait_for(_over(serving, running), PATIENCE)
        finally:
            for each in (serving, *running):
                each.cancel()
            await asyncio.gather(serving, *running, return_exceptions=True)
    names = [client_name(identity) for identity in range(settings.clients)]
    view = NetworkView({name: kept_by(tap) for name, tap in zip(names, taps, strict=True)})
    said = tuple(frame for client in clients for frame in client.said)
    return Tapped(view, said, {name: bool(leaf.rounds) for name, leaf in zip(names, leaves, strict=True)})
