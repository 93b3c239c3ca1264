"""A transport whose parties all live in one event loop: frames go from queue to queue, and connections break on demand.

It keeps every promise of `tacit.net.transport`, so that whatever works over it depends on nothing but the seam.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tacit.channel import sentence
from tacit.errors import PeerError
from tacit.net.handshake import Hello, check_hello, known
from tacit.net.identity import Identity
from tacit.net.loopback import check_guarded
from tacit.net.transport import Conversation, Guest, Listener
from tacit.net.vitals import Traffic
from tacit.wire import AnyFrame

_PAUSE = 0.01  # seconds before a connection that broke comes back


class Way:
    """Frames in one direction. They outlive a connection, as those of a `Link` do."""

    def __init__(self) -> None:
        self.pending = 0
        self.changed = asyncio.Event()
        self._frames: deque[bytes] = deque()

    def send(self, frame: AnyFrame) -> None:
        self._frames.append(bytes(frame))
        self.pending += len(frame)
        self.changed.set()

    async def next(self, stream: Stream, limit: int) -> bytes | None:
        """The next frame; None once the stream is over."""
        while not stream.over:
            if self._frames:
                frame = self._frames.popleft()
                self.pending -= len(frame)
                if len(frame) > limit:
                    raise PeerError(f"a frame of {len(frame)} bytes, at most {limit} are allowed here")
                return frame
            self.changed.clear()
            await self.changed.wait()
        return None


@dataclass
class Stream:
    """One connection, until either side or the network ends it."""

    ways: tuple[Way, Way]
    over: bool = False
    refusal: str = ""  # why the server ended it, if the party must not come back

    def end(self, refusal: str = "") -> None:
        if not self.over:
            self.over, self.refusal = True, refusal
            for way in self.ways:
                way.changed.set()


@dataclass
class Peer:
    """A party as the server knows it."""

    session: bytes
    identity: Identity | None = None
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)
    stream: Stream | None = None
    ready: bool = False
    left: bool = False
    knows: frozenset[str] = frozenset()

    @property
    def pending(self) -> int:
        return self.down.pending


class MemoryServer:
    def __init__(
        self, transport: MemoryTransport, told: Listener, expected: Callable[[str], bool], about: Conversation
    ) -> None:
        self.peers: dict[str, Peer] = {}
        self.traffic = Traffic()
        self.epoch = os.urandom(16)
        self._transport, self._told, self._expected, self._about = transport, told, expected, about
        self._port = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, bind: str, parties: int) -> int:
        check_guarded(bind, self._about.credentials)
        self._port = self._transport.listen(self, int(bind.rpartition(":")[2]))
        return self._port

    async def stop(self) -> None:
        self._transport.servers.pop(self._port, None)
        for peer in self.peers.values():
            self._end(peer)
        await asyncio.gather(*self._serving, return_exceptions=True)

    def connected(self, name: str) -> bool:
        peer = self.peers.get(name)
        return peer is not None and peer.stream is not None and peer.ready

    def end_expired(self, now: datetime | None = None) -> dict[str, str]:
        now, found = now or datetime.now(UTC), {}
        for name, peer in self.peers.items():
            if self.connected(name) and peer.identity is not None and peer.identity.expires < now:
                found[name] = f"the certificate of {name} expired on {peer.identity.expires:%Y-%m-%d}"
                peer.ready = False
                self._end(peer)
        return found

    def end_revoked(self) -> dict[str, str]:
        found = {}
        for name, peer in self.peers.items():
            own, identity = self._about.credentials, peer.identity
            if self.connected(name) and own is not None and identity is not None:
                reason = own.revocations.reason_against(identity)
                if reason is not None:
                    found[name], peer.ready = reason, False
                    self._end(peer, reason)
        return found

    def forget(self, name: str) -> None:
        if (peer := self.peers.pop(name, None)) is not None:
            peer.left = True

    def send(self, name: str, frame: AnyFrame) -> None:
        if (peer := self.peers.get(name)) is not None:
            self.traffic += Traffic(sent=len(frame))
            peer.down.send(frame)

    def admit(self, hello: Hello, theirs: Conversation) -> tuple[Peer, bool, Stream]:
        """A party that says hello, and whether its conversation goes on; PeerError if it is refused."""
        identity, certificate = None, b""
        if self._about.credentials is not None and theirs.credentials is not None:
            certificate = theirs.credentials.renewed().certificate
            identity = self._about.credentials.identify(certificate)
            self._about.pins.check(identity, self._about.credentials.revocations)
        check_hello(hello, identity.name if identity else None, self._expected, self._about.shared)
        if identity is not None and self._about.credentials is not None:
            self._about.pins.meet(identity, self._about.credentials.revocations)
        peer, resumed = self._peer(hello)
        peer.knows = known(hello)
        peer.identity, peer.stream = identity, Stream((peer.up, peer.down))
        task = asyncio.create_task(self._serve(peer, peer.stream, hello, certificate, resumed))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return peer, resumed, peer.stream

    def _peer(self, hello: Hello) -> tuple[Peer, bool]:
        peer = self.peers.get(hello.party)
        if peer is not None:
            same = peer.session == hello.session
            self._end(peer, "" if same else f"another process has joined as {hello.party}")
            if same and hello.epoch == self.epoch:
                return peer, True
        peer = self.peers[hello.party] = Peer(hello.session)
        return peer, False

    def _end(self, peer: Peer, refusal: str = "") -> None:
        if peer.stream is not None:
            peer.stream.end(refusal)

    async def _serve(self, peer: Peer, stream: Stream, hello: Hello, certificate: bytes, resumed: bool) -> None:
        name = hello.party
        try:
            await self._told.joined(name, hello, certificate, resumed)
            peer.ready = True
            while not peer.left and (frame := await peer.up.next(stream, self._about.limit)) is not None:
                self.traffic += Traffic(received=len(frame))
                await self._told.arrived(name, frame)
        except PeerError as error:
            if self.peers.get(name) is peer:
                del self.peers[name]
                await self._told.broke(name, str(error))
            stream.end(str(error))
        finally:
            stream.end()
            if peer.stream is stream:
                peer.stream = None
                await self._told.lost(name)


class MemoryConnection:
    def __init__(self, transport: MemoryTransport, told: Guest, address: str, server: str, about: Conversation) -> None:
        check_guarded(address, about.credentials)
        self._transport, self._told, self._address = transport, told, address
        self._server, self._about = server, about
        self._session, self._epoch = os.urandom(16), b""
        self._up = Way()
        self.traffic = Traffic()
        self._stream: Stream | None = None
        self._leaving = False
        self._there: Identity | None = None

    @property
    def pending(self) -> int:
        return self._up.pending

    def send(self, frame: AnyFrame) -> None:
        self.traffic += Traffic(sent=len(frame))
        self._up.send(frame)

    def check_server(self) -> None:
        own = self._about.credentials
        if own is None or self._there is None or self._stream is None:
            return
        if own.revocations.reason_against(self._there):
            self._stream.end()

    async def run(self) -> None:
        while not self._leaving:
            reason = await self._once()
            if not self._leaving:
                await self._told.waiting(reason)
                await asyncio.sleep(_PAUSE)

    async def close(self, seconds: float = 5.0) -> None:
        self._leaving = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._up.pending and self._stream is not None:
                    await asyncio.sleep(0.001)
        if self._stream is not None:
            self._stream.end()

    async def _once(self) -> str:
        """One connection, from the handshake to its end; why it ended."""
        found = self._transport.servers.get(int(self._address.rpartition(":")[2]))
        if found is None:
            return f"{self._address} does not answer"
        self._check(found)
        about = self._about
        hello = about.hello(self._session, self._epoch, 0)
        try:
            peer, resumed, stream = found.admit(hello, about)
        except PeerError as error:
            raise PeerError(f"{self._server} refused: {sentence(str(error))}") from None
        self._epoch, self._up, self._stream = found.epoch, peer.up, stream
        self._transport.streams[about.party] = stream
        try:
            await self._told.connected(resumed)
            while (frame := await peer.down.next(stream, about.limit)) is not None:
                self.traffic += Traffic(received=len(frame))
                await self._told.arrived(frame)
        finally:
            stream.end()
            self._stream = None
        if stream.refusal:
            raise PeerError(f"{self._server} refused: {stream.refusal}")
        return "the connection ended"

    def _check(self, found: MemoryServer) -> None:
        """That the party is there which must be met."""
        own, theirs = self._about.credentials, found._about.credentials
        if own is not None and theirs is not None:
            self._there = own.identify(theirs.renewed().certificate)
            if self._there.name != self._server:
                raise PeerError(
                    f"{self._address}: {self._there.name} is there, not {self._server}: is the address right?"
                )


class MemoryTransport:
    def __init__(self) -> None:
        self.servers: dict[int, MemoryServer] = {}  # by port
        self.streams: dict[str, Stream] = {}  # the newest of a party that connects
        self._ports = itertools.count(1)

    def server(self, told: Listener, expected: Callable[[str], bool], about: Conversation) -> MemoryServer:
        return MemoryServer(self, told, expected, about)

    def connection(self, told: Guest, address: str, server: str, about: Conversation) -> MemoryConnection:
        return MemoryConnection(self, told, address, server, about)

    def listen(self, server: MemoryServer, port: int) -> int:
        """The port that a server takes: a free one where it is 0."""
        taken = port or next(free for free in self._ports if free not in self.servers)
        if taken in self.servers:
            raise ValueError(
                f"port {taken}: this address cannot be listened on: choose another, or stop those that use it"
            )
        self.servers[taken] = server
        return taken

    def cut(self, party: str) -> None:
        """Break the connection of a party. Both ends notice, and it comes back."""
        if party in self.streams:
            self.streams[party].end()
