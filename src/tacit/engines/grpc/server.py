"""The side that parties connect to: one bidirectional stream each, over gRPC on asyncio.

Who a party is, its certificate says: a name that is not expected, or that claims to be another's, is refused before a
message of it is read. A party has one stream: a new one takes the place of the old one, and the conversation goes on
where it broke. What comes in is bounded: each frame by `limit`, all frames that are being put together by `room`; a
party that begins a frame and stalls loses its connection.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import grpc.aio

from tacit.engines.grpc.handshake import Hello, Refused, Welcome, difference
from tacit.engines.grpc.link import OVERHEAD_BYTES, PIECE_BYTES, Link
from tacit.engines.tls import Credentials, peer_name, server_credentials
from tacit.errors import PeerError
from tacit.wire import decode, encode

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
_HELLO_SECONDS = 10.0
_STALL_SECONDS = 30.0  # between two pieces of one frame, ...
_SLOWEST = 16_384  # ... and bytes a second for all of it: nobody holds room for ever with a trickle
Task = asyncio.Task[Any] | None


class Listener(Protocol):
    """What a server tells."""

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None: ...

    async def arrived(self, name: str, frame: bytes) -> None: ...

    async def broke(self, name: str, reason: str) -> None: ...

    async def lost(self, name: str) -> None: ...


@dataclass
class Peer:
    """A party as the server knows it."""

    session: bytes
    link: Link
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    stream: Task = None  # that serves it now
    ready: bool = False  # whether the listener knows of it
    bytes_in: int = 0
    bytes_out: int = 0


class Room:
    """Memory for frames that are being put together. Who finds none waits, and the network waits with him."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = asyncio.Condition()

    async def take(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= count)
            self._free -= count

    async def give(self, count: int) -> None:
        async with self._changed:
            self._free += count
            self._changed.notify_all()


class Server:
    """Accepts the parties that `expected` names.

    Args:
        settings: the shared file in one form; a party with another is told the first key that differs.
        limit: bytes of the largest frame that a party may send.
        credentials: None on loopback, where a party is who it says it is.
    """

    def __init__(
        self,
        listener: Listener,
        expected: Callable[[str], bool],
        settings: bytes,
        limit: int,
        credentials: Credentials | None,
        room: int = 1 << 30,
    ) -> None:
        self.peers: dict[str, Peer] = {}
        self.epoch = os.urandom(16)
        self._listener = listener
        self._expected = expected
        self._settings = settings
        self._limit = limit
        self._credentials = credentials
        self._room = Room(max(room, 2 * limit))
        self._server: grpc.aio.Server | None = None
        self._greeting: dict[str, Task] = {}  # streams that are open and have not said hello
        self._replaced: dict[Task, tuple[grpc.StatusCode, str]] = {}  # streams that are to end, and what they are told

    async def start(self, bind: str, parties: int) -> int:
        """Listen on `bind`; returns the port."""
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=2 * parties + 64)
        self._server.add_generic_rpc_handlers((_Handler(self._converse),))
        try:
            if self._credentials is None:
                port = int(self._server.add_insecure_port(bind))
            else:
                port = int(self._server.add_secure_port(bind, server_credentials(self._credentials)))
        except RuntimeError:
            port = 0
        if not port:
            raise ValueError(f"{bind}: this address cannot be listened on: choose another, or stop who uses it")
        await self._server.start()
        return port

    async def stop(self) -> None:
        """End all streams, from here: gRPC would leave their tasks to be cancelled with the event loop."""
        if self._server is not None:
            for peer in self.peers.values():
                self._replace(peer.stream, grpc.StatusCode.UNAVAILABLE, "the server stops")
            await self._server.stop(grace=0.5)
            await asyncio.sleep(0.05)

    def connected(self, name: str) -> bool:
        peer = self.peers.get(name)
        return peer is not None and peer.stream is not None and peer.ready

    def forget(self, name: str) -> None:
        """A party has left: nothing is queued for it until it joins anew."""
        self.peers.pop(name, None)

    def send(self, name: str, frame: bytes) -> None:
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
        name, certificate = await self._identified(context)
        if name is not None:  # a party that opens streams and says nothing must not take all there are
            self._replace(self._greeting.get(name), grpc.StatusCode.ABORTED, "there is a newer connection")
            self._greeting[name] = task
        try:
            first = await asyncio.wait_for(context.read(), _HELLO_SECONDS)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "nothing was said")
        finally:
            if name is not None and self._greeting.get(name) is task:
                del self._greeting[name]
        if first is grpc.aio.EOF:
            return
        try:
            hello = decode(first, Hello, PIECE_BYTES)
            self._check(hello, name)
        except PeerError as error:
            await context.write(encode(Refused(str(error)[:300])))
            return
        await self._serve(hello, certificate, context, task)

    async def _identified(self, context: Any) -> tuple[str | None, bytes]:
        """The name in the certificate, before anything is read; None where there are no certificates."""
        if self._credentials is None:
            return None, b""
        seen = context.auth_context()
        try:
            name = peer_name(seen)
            if not self._expected(name):
                raise PeerError(f"{name} is not a party of this federation")
        except PeerError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error)[:300])
            raise
        return name, next(iter(seen.get("x509_pem_cert", ())), b"")

    def _check(self, hello: Hello, name: str | None) -> None:
        if name is not None and hello.party != name:
            raise PeerError(f"the certificate is of {name}, who claims to be {hello.party}")
        if not self._expected(hello.party):
            raise PeerError(f"{hello.party} is not a party of this federation")
        differs = difference(self._settings, hello.settings)
        if differs is not None:
            raise PeerError(differs)

    async def _serve(self, hello: Hello, certificate: bytes, context: Any, task: Task) -> None:
        peer, resumed = self._peer(hello)
        peer.stream = task
        writer: asyncio.Task[None] | None = None
        try:
            if resumed:
                peer.link.reconnected(hello.received)
            await context.write(encode(Welcome(self.epoch, peer.link.received, resumed)))
            await _to_its_end(self._listener.joined(hello.party, hello, certificate, resumed))
            peer.ready = True
            writer = asyncio.create_task(self._write(peer, context))
            await self._read(hello.party, peer, context)
        except PeerError as error:
            if self.peers.get(hello.party) is peer:
                del self.peers[hello.party]  # what it says from now on would make no sense
                await _to_its_end(self._listener.broke(hello.party, str(error)))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:300])
        finally:
            if writer is not None:
                writer.cancel()
            if peer.stream is task:
                peer.stream = None
                peer.link.disconnected()
                await _to_its_end(self._listener.lost(hello.party))

    def _peer(self, hello: Hello) -> tuple[Peer, bool]:
        """The party that says hello, and whether its conversation goes on. It has one stream, the newest."""
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
        peer = self.peers[hello.party] = Peer(hello.session, Link(self._limit))
        return peer, False

    async def _read(self, name: str, peer: Peer, context: Any) -> None:
        task = peer.stream
        taken, due = 0, 0.0
        clock = asyncio.get_running_loop().time
        try:
            while True:
                wait = max(0.0, min(_STALL_SECONDS, due - clock())) if taken else None
                try:
                    piece = await asyncio.wait_for(context.read(), wait)
                except TimeoutError:  # it may come back: its uplink may be at fault
                    said = f"a message was begun, and then nothing was sent for {_STALL_SECONDS:.0f} s, or too little"
                    await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, said)
                if piece is grpc.aio.EOF:
                    return
                peer.bytes_in += len(piece)
                if announced := peer.link.announced(piece):
                    await self._room.take(announced)
                    taken = announced
                    due = clock() + _STALL_SECONDS + announced / _SLOWEST
                if peer.stream is not task:  # it has a newer one, whose pieces these are not
                    return
                for frame in peer.link.receive(piece):
                    peer.wake.set()  # to confirm it
                    await _to_its_end(self._listener.arrived(name, frame))
                    await self._room.give(taken)
                    taken = 0
        finally:
            if taken:
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(self._room.give(taken))

    async def _write(self, peer: Peer, context: Any) -> None:
        task = peer.stream
        while peer.stream is task:
            piece = peer.link.next()
            if piece is None:
                peer.wake.clear()
                await peer.wake.wait()
                continue
            await context.write(piece)
            peer.bytes_out += len(piece)


async def _to_its_end(what: Coroutine[Any, Any, None]) -> None:
    """Await something that goes on to its end even if the stream breaks meanwhile: a frame is confirmed only once."""
    await asyncio.shield(asyncio.ensure_future(what))


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """One method, whose messages are bytes."""

    def __init__(self, converse: Callable[[Any, Any], Awaitable[None]]) -> None:
        self._method = grpc.stream_stream_rpc_method_handler(converse)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self._method if details.method == METHOD else None
