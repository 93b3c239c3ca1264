"""The side that parties connect to: one bidirectional stream each, over gRPC on asyncio.

Who a party is, its certificate says: a name that is not expected, that claims to be another's, or that has other keys
than before in this run (see `pins`) is refused before a message of it is read. A party has one stream: a new one takes
the place of the old one, and the conversation resumes where it broke. What comes in is bounded: connections by the
`front`, each frame by `limit`, all frames that are being put together by the `room`; a party that begins a frame and is
too slow (`pace`) loses its connection.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio

from tacit.errors import PeerError
from tacit.net.grpc import descriptors
from tacit.net.grpc.credentials import peer_identity, peer_name, server_credentials
from tacit.net.grpc.front import Front
from tacit.net.grpc.guests import Bounds
from tacit.net.grpc.pace import Pace
from tacit.net.grpc.room import Frame, Room
from tacit.net.grpc.watch import Watch
from tacit.net.handshake import (
    NONCE_BYTES,
    Hello,
    Refused,
    answer_to,
    check_hello,
    differing_version,
    known,
    proven,
)
from tacit.net.identity import Identity
from tacit.net.link import OVERHEAD_BYTES, PIECE_BYTES, Link
from tacit.net.loopback import check_guarded
from tacit.net.transport import Conversation, Listener
from tacit.net.vitals import Traffic
from tacit.version import __version__
from tacit.wire import AnyFrame, decode, encode

METHOD = "/tacit.Party/Converse"
OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", PIECE_BYTES + OVERHEAD_BYTES),
    ("grpc.max_send_message_length", PIECE_BYTES + OVERHEAD_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
]
_STREAMS = 4  # of a connection with a certificate, which is of one party
_SLOW = "a message was begun, and then less came than {} bytes a second (network.least_rate)"
_SLOWER = "a message came much more slowly than before, or than others that waited for its memory (network.memory)"
Task = asyncio.Task[Any] | None


@dataclass
class Peer:
    """A party as the server knows it."""

    session: bytes
    link: Link
    identity: Identity | None = None  # as its certificate says
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    stream: Task = None  # that serves it now
    ready: bool = False  # whether the listener knows of it
    left: bool = False  # it said that it goes: its stream ends once that is confirmed
    knows: frozenset[str] = frozenset()

    @property
    def pending(self) -> int:
        return self.link.pending


class Server:
    """A server of `Transport`, over gRPC. Everything runs in one event loop."""

    def __init__(self, told: Listener, expected: Callable[[str], bool], about: Conversation) -> None:
        self.peers: dict[str, Peer] = {}
        self.traffic = Traffic()
        self.epoch = os.urandom(16)
        self._told = told
        self._expected = expected
        self._about = about
        self._room: Room  # once the number of parties is known
        self._watch = Watch(about.sink)
        self._front = Front(about.credentials is not None, self._watch)
        self._server: grpc.aio.Server | None = None
        self._versions: set[str] = set()  # other releases that parties run
        self._greeting: dict[str, Task] = {}  # streams that are open and have not said hello
        self._replaced: dict[Task, tuple[grpc.StatusCode, str]] = {}  # streams that are to end, and what they are told

    async def start(self, bind: str, parties: int) -> int:
        """Listen on `bind`; returns the port. ValueError: it is taken, open to others without certificates, or
        not all parties can be served here."""
        about, network = self._about, self._about.network
        check_guarded(bind, about.credentials)
        connections, note = descriptors.provide(parties, network.connections, network.unauthenticated)
        if note:
            about.say(note)
        self._room = Room(network.memory, about.limit, parties)
        try:
            port = self._front.listen(bind)
        except OSError as error:
            await self._front.close()
            why = f"{bind}: this address cannot be listened on ({error.strerror})"
            raise ValueError(f"{why}: choose another, or stop who uses it") from None
        options = [*OPTIONS, ("grpc.server_handshake_timeout_ms", int(1000 * network.handshake) + 1000)]
        if about.credentials is not None:
            options.append(("grpc.max_concurrent_streams", _STREAMS))
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=2 * parties + 64)
        self._server.add_generic_rpc_handlers((_Handler(self._converse),))
        target = f"unix:{self._front.target}"
        if about.credentials is None:
            self._server.add_insecure_port(target)
        else:
            self._server.add_secure_port(target, server_credentials(about.credentials, self._said_by_thread()))
        await self._server.start()
        self._front.open(Bounds(connections, network.unauthenticated, network.handshake))
        return port

    def _said_by_thread(self) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()

        def say(text: str) -> None:
            loop.call_soon_threadsafe(self._about.say, text)

        return say

    async def stop(self) -> None:
        """End all streams, from here: gRPC would leave their tasks to be cancelled with the event loop."""
        if self._server is not None:
            for peer in self.peers.values():
                self._replace(peer.stream, grpc.StatusCode.UNAVAILABLE, "the server stops")
            await self._server.stop(grace=0.5)
            await asyncio.sleep(0.05)
            await self._front.close()
            self._watch.close()

    def connected(self, name: str) -> bool:
        peer = self.peers.get(name)
        return peer is not None and peer.stream is not None and peer.ready

    def end_expired(self, now: datetime | None = None) -> dict[str, str]:
        """End the streams of parties whose certificate is over, each with the reason, by name.

        They come back with a renewed one. Others would refuse what such a party signs.
        """
        now = now or datetime.now(UTC)
        return {
            name: self._turn_away(
                peer, grpc.StatusCode.UNAUTHENTICATED, f"the certificate of {name} expired on {found.expires:%Y-%m-%d}"
            )
            for name, peer, found in self._identified_peers()
            if peer.ready and found.expires < now
        }

    def end_revoked(self) -> dict[str, str]:
        """End the streams of parties whose certificate is revoked, each with the reason, by name.

        Also of those that are about to join. One that has not said hello is judged again when it does.
        """
        revocations = None if self._about.credentials is None else self._about.credentials.revocations
        return {
            name: self._turn_away(peer, grpc.StatusCode.PERMISSION_DENIED, reason)
            for name, peer, found in self._identified_peers()
            if revocations is not None and (reason := revocations.reason_against(found))
        }

    def _identified_peers(self) -> list[tuple[str, Peer, Identity]]:
        """The parties that have a stream, with a certificate."""
        found = [(name, peer, peer.identity) for name, peer in self.peers.items() if peer.stream is not None]
        return [(name, peer, identity) for name, peer, identity in found if identity is not None]

    def _turn_away(self, peer: Peer, code: grpc.StatusCode, reason: str) -> str:
        peer.ready = False
        self._replace(peer.stream, code, reason)
        return reason

    def forget(self, name: str) -> None:
        """A party has left: its stream ends, and nothing is queued for it until it joins anew."""
        peer = self.peers.pop(name, None)
        if peer is not None:
            peer.left = True
            peer.wake.set()

    def send(self, name: str, frame: AnyFrame) -> None:
        """Queue a frame for a party that has joined; for one that never did there is nowhere to."""
        peer = self.peers.get(name)
        if peer is not None:
            peer.link.send(frame)
            peer.wake.set()

    # --- one stream

    async def _converse(self, _: Any, context: Any) -> None:
        task = asyncio.current_task()
        try:
            await self._greeted(context, task)
        except asyncio.CancelledError:
            if task not in self._replaced:
                raise
            await context.abort(*self._replaced[task])  # gRPC ends no stream because its handler was cancelled
        finally:
            self._replaced.pop(task, None)

    def _replace(self, stream: Task, code: grpc.StatusCode, reason: str) -> None:
        """End a stream because there is a newer one of the same party."""
        if stream is not None:
            self._replaced[stream] = (code, reason)
            stream.cancel()

    async def _greeted(self, context: Any, task: Task) -> None:
        identity, certificate = await self._identified(context)
        name = None if identity is None else identity.name
        if name is not None:  # a party that opens streams and says nothing must not take all there are
            self._replace(self._greeting.get(name), grpc.StatusCode.ABORTED, "there is a newer connection")
            self._greeting[name] = task
        try:
            async with asyncio.timeout(self._about.network.handshake):
                first = await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "nothing was said")
        finally:
            if name is not None and self._greeting.get(name) is task:
                del self._greeting[name]
        if first is grpc.aio.EOF:
            return
        try:
            hello = decode(first, Hello, PIECE_BYTES)
            check_hello(hello, name, self._expected, self._about.shared)
            if identity is not None and self._about.credentials is not None:
                self._about.credentials.revocations.check(identity)  # a list may have come since the handshake
                self._about.pins.meet(identity, self._about.credentials.revocations)
        except PeerError as error:
            self._refused(context, error)
            await context.write(encode(Refused(str(error)[:300])))
            return
        self._front.admitted(context.peer())
        self._say_version(hello)
        try:
            await self._serve(hello, identity, certificate, context, task)
        finally:
            self._front.left(context.peer())

    async def _identified(self, context: Any) -> tuple[Identity | None, bytes]:
        """Whose certificate it is, before anything is read; None where there are no certificates.

        It is verified once more: a TLS session that is resumed shows none.
        """
        if self._about.credentials is None:
            return None, b""
        seen = context.auth_context()
        code, told = grpc.StatusCode.PERMISSION_DENIED, False
        try:
            name = peer_name(seen)
            if not self._expected(name):
                raise PeerError(f"{name} is not a party of this federation")
            code = grpc.StatusCode.UNAUTHENTICATED  # it may come back with a renewed certificate
            identity = peer_identity(seen, self._about.credentials.authority)
            code, told = grpc.StatusCode.PERMISSION_DENIED, True
            self._about.credentials.revocations.check(identity)
            told = False
            self._about.pins.check(identity, self._about.credentials.revocations)
        except PeerError as error:
            self._refused(context, error)
            if told or code is grpc.StatusCode.UNAUTHENTICATED:
                await _to_its_end(self._told.refused(name, str(error)))
            await context.abort(code, str(error)[:300])
            raise
        return identity, next(iter(seen.get("x509_pem_cert", ())), b"")

    def _say_version(self, hello: Hello) -> None:
        """Say once of each other release that a party runs it."""
        version = differing_version(hello.version)
        if version is not None and version not in self._versions:
            self._versions.add(version)
            self._about.say(f"{hello.party} runs Tacit {version}, this side {__version__}: what both know is used")

    def _refused(self, context: Any, error: PeerError) -> None:
        self._front.refused(context.peer())
        self._watch.hello_refused(str(error))

    async def _serve(
        self, hello: Hello, identity: Identity | None, certificate: bytes, context: Any, task: Task
    ) -> None:
        peer, resumed = self._peer(hello)
        peer.stream, peer.identity = task, identity
        peer.knows = known(hello)
        writer: asyncio.Task[None] | None = None
        try:
            if resumed:
                peer.link.reconnected(hello.received)
            if (own := self._about.credentials) is not None and len(hello.nonce) == NONCE_BYTES:
                await context.write(encode(proven(own.renewed(self._about.say), hello.party, hello.nonce)))
            await context.write(answer_to(hello, self.epoch, peer.link.received, resumed))
            await _to_its_end(self._told.joined(hello.party, hello, certificate, resumed))
            peer.ready = True
            writer = asyncio.create_task(self._write(peer, context))
            await self._read(hello.party, peer, context)
            if peer.left:
                await asyncio.wait([writer], timeout=self._about.network.handshake)
        except PeerError as error:
            if self.peers.get(hello.party) is peer:
                del self.peers[hello.party]  # what it says from now on would make no sense
                await _to_its_end(self._told.broke(hello.party, str(error)))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:300])
        finally:
            if writer is not None:
                writer.cancel()
            if peer.stream is task:
                peer.stream = None
                peer.link.disconnected()
                await _to_its_end(self._told.lost(hello.party))

    def _peer(self, hello: Hello) -> tuple[Peer, bool]:
        """The party that says hello, and whether its conversation is resumed. It has one stream, the newest."""
        peer = self.peers.get(hello.party)
        if peer is not None:
            if peer.session == hello.session:
                self._replace(peer.stream, grpc.StatusCode.ABORTED, "there is a newer connection")
            else:  # the older one must not come back, or they would take turns for ever
                taken = f"another process has joined as {hello.party}"
                self._replace(peer.stream, grpc.StatusCode.PERMISSION_DENIED, taken)
            peer.stream = None
            if peer.session == hello.session and hello.epoch == self.epoch:
                return peer, True
        peer = self.peers[hello.party] = Peer(hello.session, Link(self._about.limit))
        return peer, False

    async def _read(self, name: str, peer: Peer, context: Any) -> None:
        task = peer.stream
        frame: Frame | None = None
        pace = Pace(self._about.network.least_rate)
        try:
            while True:
                piece = await (context.read() if frame is None else self._paced(name, frame, pace, context))
                if piece is grpc.aio.EOF:
                    return
                self.traffic += Traffic(received=len(piece))
                if announced := peer.link.announced(piece):
                    pace = Pace(self._about.network.least_rate)
                    frame = self._room.begin(announced, functools.partial(self._slower, name, task))
                if frame is not None:
                    await self._room.take(frame, len(piece))
                if peer.stream is not task:  # it has a newer one, whose pieces these are not
                    return
                for whole in peer.link.receive(piece):
                    peer.wake.set()  # to confirm it
                    await _to_its_end(self._told.arrived(name, whole))
                    del whole  # of each party it would be in memory until the next one
                    if frame is not None:
                        self._room.end(frame)
                    frame = None
                    if peer.left:
                        return
        finally:
            if frame is not None:
                self._room.end(frame)

    async def _paced(self, name: str, frame: Frame, pace: Pace, context: Any) -> Any:
        """The next piece of a frame, unless it comes too slowly: then the party may come back, and begin it anew."""
        clock = asyncio.get_running_loop().time
        reading = asyncio.ensure_future(context.read())
        start = judged = clock()
        try:
            while not (await asyncio.wait([reading], timeout=pace.rest))[0]:
                judged, before = clock(), judged
                if not pace.add(0, judged - before):
                    await self._too_slow(name, context)
        finally:
            reading.cancel()
        piece, now = reading.result(), clock()
        if piece is not grpc.aio.EOF:
            frame.read(len(piece), now - start)
            if not pace.add(len(piece), now - judged):
                await self._too_slow(name, context)
        return piece

    async def _too_slow(self, name: str, context: Any) -> None:
        self._watch.refuse("rate", name)
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, _SLOW.format(self._about.network.least_rate))

    def _slower(self, name: str, stream: Task) -> None:
        self._watch.refuse("memory", name)
        self._replace(stream, grpc.StatusCode.DEADLINE_EXCEEDED, _SLOWER)

    async def _write(self, peer: Peer, context: Any) -> None:
        task = peer.stream
        while peer.stream is task:
            piece = peer.link.next()
            if piece is not None:
                self.traffic += Traffic(sent=len(piece))
                await context.write(piece)
            elif peer.left:
                return
            else:
                peer.wake.clear()
                await peer.wake.wait()


async def _to_its_end(what: Coroutine[Any, Any, None]) -> None:
    """Await something that is completed even if the stream breaks meanwhile: a frame is confirmed only once."""
    await asyncio.shield(asyncio.ensure_future(what))


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """One method, whose messages are bytes."""

    def __init__(self, converse: Callable[[Any, Any], Awaitable[None]]) -> None:
        self._method = grpc.stream_stream_rpc_method_handler(converse)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self._method if details.method == METHOD else None
