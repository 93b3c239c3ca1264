"""Federations inside one event loop, for tests: real streams over loopback, or queues; no other process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import pytest

from tacit.config.local import Local
from tacit.events import ClientRefused, Event, Kept, RoundAborted, RoundFinished
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.frames import FramedClient, FramedCoordinator, common, to_client
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.net.grpc import Grpc
from tacit.net.handshake import Parting, shared
from tacit.net.identity import Authority, Credentials, request
from tacit.net.pins import Pins
from tacit.net.site import Site
from tacit.net.star import client_name
from tacit.net.star_guest import StarGuest
from tacit.net.star_host import StarHost
from tacit.net.transport import Transport
from tests.inside import inside
from tests.net.memory_transport import MemoryTransport
from tests.subprocesses import HANGS

over_each_transport = pytest.mark.parametrize("transport", [Grpc, MemoryTransport], ids=["grpc", "memory"])

T = TypeVar("T")
_FASTER = 5.0  # seconds of the coordinator's in a second of idle waiting


def quickly(what: Awaitable[T]) -> T:
    """Run it; a test that hangs fails instead."""

    async def limited() -> T:
        return await asyncio.wait_for(what, HANGS)

    return asyncio.run(limited())


async def until(holds: Callable[[], Any]) -> None:
    """Wait for something that happens in this event loop."""
    while not holds():
        await asyncio.sleep(0.005)


def file_of(settings: Settings) -> bytes:
    return shared(common(settings))


def made(settings: Settings) -> Task:
    return tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)


def certified(authority: Authority, name: str, *, days: int = 100, now: datetime | None = None) -> Credentials:
    private, asked = request(name)
    return Credentials.of(private, authority.sign(asked, days, now), authority.certificate_pem, now)


class Federation:
    """A coordinator that listens, and clients that join it when they are told to.

    The coordinator's clock stands still as long as a client that lives has something to do. So windows close on clients
    that are away or silent, and on nobody else, however slow the machine is.
    """

    def __init__(
        self,
        settings: Settings,
        task: Task | None = None,
        authority: Authority | None = None,
        pins: Callable[[str], Pins] = lambda name: Pins(),
        transport: Transport | None = None,
    ) -> None:
        self.settings = settings
        self.transport = transport or Grpc()
        self.task = task or made(settings)
        self.kept = Kept()
        self._authority = authority
        self._pins = pins  # of a party, by its name
        own = certified(authority, "coordinator") if authority else None
        self.star = FramedCoordinator(Prepared.of(settings, self.task), self.kept, time.perf_counter)
        self.coordinator = self.star.coordinator
        site = self._site("127.0.0.1:0", own)
        self.host = StarHost(self.star, site, self.kept, clock=self._clock, pins=pins("coordinator"))
        self.address = ""
        self.certified: dict[int, Credentials] = {}
        self.clients: dict[int, StarGuest] = {}
        self._answering: set[StarGuest] = set()
        self.running: dict[int, asyncio.Task[Parting]] = {}
        self.stopping = False
        self.frozen: Callable[[], bool] = lambda: False  # whether the clock stands for another reason
        self._time, self._seen = 0.0, time.monotonic()
        self._thread = ThreadPoolExecutor(1)

    def _site(self, address: str, own: Credentials | None) -> Site:
        return Site(address, address, own, Local(), network=self.settings.network, transport=self.transport)

    def _clock(self) -> float:
        now = time.monotonic()
        if not (self._working() or self.frozen()):
            self._time += min(0.1, _FASTER * (now - self._seen))
        self._seen = now
        return self._time

    def _working(self) -> bool:
        """Whether a client that lives is about to join, to answer, or to hear that it is over."""
        living = (client for client, task in self.running.items() if not task.done())
        return any(self._busy(client) for client in living if not hasattr(self.clients[client], "halted"))

    def _busy(self, client: int) -> bool:
        peer, guest = self.host.server.peers.get(client_name(client)), self.clients[client]
        unread = (peer is not None and peer.pending > 0) or guest in self._answering
        if self.host._over is not None:
            return unread
        if self.star.collecting:
            # One that was started again in this round has nothing to answer.
            return client in self.awaited and (unread or not inside(guest.leaf)._idle)
        return not self.host.server.connected(client_name(client))

    @property
    def awaited(self) -> set[int]:
        """From whom the coordinator wants an answer."""
        gathering: Any = self.coordinator.gathering
        return set() if gathering is None else set(getattr(gathering, "_server", gathering)._waiting)

    def credentials(self, identity: int) -> Credentials | None:
        """Those of a client, the same ones each time: it keeps its keys for the run."""
        if self._authority is not None and identity not in self.certified:
            self.certified[identity] = certified(self._authority, f"client-{identity}")
        return self.certified.get(identity)

    def client(
        self, identity: int, address: str | None = None, store: Callable[[Client], None] = lambda client: None
    ) -> StarGuest:
        own = self.credentials(identity)
        leaf = FramedClient(Prepared.of(self.settings, self.task), identity, own, store)
        site = self._site(address or self.address, own)
        guest = StarGuest(leaf, site, Kept(), thread=self._thread, pins=self._pins(client_name(identity)))
        answer = guest._answer

        async def answering(frame: bytes) -> None:
            self._answering.add(guest)
            try:
                await answer(frame)
            finally:
                self._answering.discard(guest)

        guest._answer = answering
        return guest

    def join(
        self, identity: int, address: str | None = None, store: Callable[[Client], None] = lambda client: None
    ) -> StarGuest:
        guest = self.clients[identity] = self.client(identity, address, store)
        self.running[identity] = asyncio.create_task(guest.run())
        return guest

    def told(self, identity: int) -> list[Event]:
        """What a client told."""
        sink = self.clients[identity]._sink
        assert isinstance(sink, Kept)
        return sink.events

    def kill(self, identity: int) -> None:
        """As a process that is killed: its connection breaks, without a word."""
        self.running.pop(identity).cancel()

    async def done(self) -> dict[int, Parting]:
        """Wait for the end: how it ended for each client."""
        await self.serving
        return dict(zip(self.running, await asyncio.gather(*self.running.values()), strict=True))

    def finished(self) -> list[RoundFinished]:
        return [event for event in self.kept.events if isinstance(event, RoundFinished)]

    def aborted(self) -> list[RoundAborted]:
        return [event for event in self.kept.events if isinstance(event, RoundAborted)]

    def refused(self) -> Mapping[int, str]:
        return {event.client: event.reason for event in self.kept.events if isinstance(event, ClientRefused)}

    @property
    def survivors(self) -> list[int]:
        return [event.survivors for event in self.finished()]

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[Federation]:
        port: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.serving = asyncio.create_task(self.host.serve(should_stop=lambda: self.stopping, ready=port.set_result))
        await asyncio.wait([self.serving, port], return_when=asyncio.FIRST_COMPLETED)
        self.address = f"127.0.0.1:{port.result()}"
        try:
            yield self
        finally:
            for task in (self.serving, *self.running.values()):
                task.cancel()
            await asyncio.gather(self.serving, *self.running.values(), return_exceptions=True)
            self._thread.shutdown(wait=False)


async def whole(federation: Federation, address: str | None = None) -> dict[int, Parting]:
    """All clients join, and stay to the end."""
    async with federation.serve():
        for identity in range(federation.settings.clients):
            federation.join(identity, address)
        return await federation.done()


def halting(guest: StarGuest, message: type, reached: asyncio.Event) -> None:
    """Let a client stop, and say nothing more, when it is sent a `message` in round 2."""
    answer = guest._answer
    works = 0

    async def halted(frame: bytes) -> None:
        nonlocal works
        received = to_client(frame, inside(guest.leaf)._layout, guest.leaf.terms.limits[1])
        works += type(received).__name__ == "Work"
        if works >= 2 and isinstance(received, message):
            guest.halted = True  # type: ignore[attr-defined]  # which the clock of its federation looks at
            reached.set()
            await asyncio.Event().wait()
        await answer(frame)

    guest._answer = halted


class Proxy:
    """A TCP proxy whose `pump(index, direction, bytes)` may change, delay or refuse what passes: None cuts."""

    def __init__(self, target: str, pump: Callable[[int, str, bytes], Awaitable[bytes | None]]) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._pump = pump
        self.connections = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        index = self.connections
        self.connections += 1
        try:
            beyond, target = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.create_task(self._carry(index, "up", reader, target)),
            asyncio.create_task(self._carry(index, "down", beyond, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, target):
                end.transport.abort()

    async def _carry(self, index: int, way: str, reader: Any, writer: Any) -> None:
        with suppress(OSError):
            while data := await reader.read(4096):
                passed = await self._pump(index, way, data)
                if passed is None:
                    return
                writer.write(passed)
                await writer.drain()
