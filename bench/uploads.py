"""What stands before large uploads: the hop through the front, and parties that trickle.

- An upload over mutual TLS to a server behind its front, against the same server on whose TCP port gRPC listens itself.
- Six uploads at once, with room for two, while two certified parties hold memory: they begin a message of the same
  size, in full speed up to a third of it, or with nothing, and then send it at the least rate that is allowed. If they
  are dropped, they come back and do the same. Against the same six uploads without them.

Servers have a process of their own; all clients share another.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection as Pipe

import grpc.aio

from bench.measure import Options, Pair, Row, Side, interleave, time_row
from bench.network import Files, _told, files
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.credentials import channel_credentials, channel_options, server_credentials
from tacit.net.grpc.room import Room
from tacit.net.grpc.server import METHOD, OPTIONS, Server, _Handler
from tacit.net.handshake import Hello, Welcome
from tacit.net.identity import Authority, Credentials
from tacit.net.link import PIECE_BYTES
from tacit.net.star import COORDINATOR, client_name
from tacit.net.transport import Conversation
from tacit.sections import Network
from tacit.wire import decode, encode

UPLOADERS, TRICKLERS = 6, 2
_SETTINGS = b"{}"
_PAUSE = 0.1  # seconds between two pieces of a trickle


class _Direct(Server):
    """A server without a front: gRPC has the TCP port."""

    async def start(self, bind: str, parties: int) -> int:
        if self._about.credentials is None:
            raise ValueError("a server without a front is measured with TLS only")
        self._room = Room(self._about.network.memory, self._about.limit, parties)
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers((_Handler(self._converse),))
        port = self._server.add_secure_port(bind, server_credentials(self._about.credentials, print))
        await self._server.start()
        return int(port)


class _Confirming:
    """A server's listener that answers each upload with a byte."""

    server: Server

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None: ...

    async def arrived(self, name: str, frame: bytes) -> None:
        self.server.send(name, b"1")

    async def broke(self, name: str, reason: str) -> None: ...

    async def lost(self, name: str) -> None: ...


def serve(pipe: Pipe, kind: type[Server], size: int, own: Files, parties: int) -> None:
    """Tell the port, and take uploads until the other end of the pipe says something."""

    async def listen() -> None:
        confirming, network = _Confirming(), Network(memory=max(1 << 20, 2 * size))
        names = {client_name(identity) for identity in range(parties)}
        about = Conversation(COORDINATOR, _SETTINGS, size, Credentials.of(*own), network=network)
        server = kind(confirming, names.__contains__, about)
        confirming.server = server
        pipe.send(await server.start("127.0.0.1:0", parties))
        await asyncio.to_thread(pipe.recv)
        await server.stop()

    asyncio.run(listen())


@contextmanager
def served(kind: type[Server], size: int, authority: Authority, parties: int) -> Iterator[str]:
    """The address of a server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    arguments = (there, kind, size, files(authority, COORDINATOR), parties)
    process = context.Process(target=serve, args=arguments, daemon=True)
    process.start()
    there.close()
    try:
        yield f"127.0.0.1:{_told(here)}"
        here.send(None)
        process.join(10)
    finally:
        process.kill()


class Uploader:
    """A connected client whose uploads are waited for."""

    def __init__(self, address: str, identity: int, size: int, credentials: Credentials) -> None:
        self._connected, self._confirmed = asyncio.Event(), asyncio.Event()
        name = client_name(identity)
        about = Conversation(name, _SETTINGS, size, credentials)
        self._connection = Connection(self, address, COORDINATOR, about)
        self._running = asyncio.create_task(self._connection.run())

    async def connected(self, resumed: bool) -> None:
        self._connected.set()

    async def arrived(self, frame: bytes) -> None:
        self._confirmed.set()

    async def waiting(self, reason: str) -> None: ...

    async def upload(self, data: bytes) -> None:
        await self._connected.wait()
        self._confirmed.clear()
        self._connection.send(data)
        await self._confirmed.wait()

    async def close(self) -> None:
        await self._connection.close(1.0)
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


async def trickle(address: str, identity: int, size: int, burst: int, own: Credentials, begun: asyncio.Event) -> None:
    """Hold memory for as long as is allowed, again and again."""
    rate = int(1.2 * Network().least_rate * _PAUSE)
    options = [*OPTIONS, *channel_options(COORDINATOR), ("grpc.use_local_subchannel_pool", 1)]
    while True:
        async with grpc.aio.secure_channel(address, channel_credentials(own), options=options) as channel:
            stream = channel.stream_stream(METHOD)()
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await stream.write(encode(Hello(client_name(identity), os.urandom(16), b"", 0, _SETTINGS, b"")))
                decode(await stream.read(), Welcome, PIECE_BYTES)
                await stream.write(b"F" + bytes(8) + size.to_bytes(8, "big") + bytes(1))
                for _ in range(burst // PIECE_BYTES):
                    await stream.write(b"C" + bytes(8) + bytes(PIECE_BYTES))
                begun.set()
                while True:
                    await asyncio.sleep(_PAUSE)
                    await stream.write(b"C" + bytes(8) + bytes(rate))


def _hop(options: Options, loop: asyncio.Runner, authority: Authority) -> list[Row]:
    size = 20_000_000 if options.quick else 100_000_000
    own, data = Credentials.of(*files(authority, client_name(0))), bytes(size)

    async def connected(address: str) -> Uploader:
        return Uploader(address, 0, size, own)

    async def in_turn(uploader: Uploader, data: bytes, count: int) -> None:
        for _ in range(count):
            await uploader.upload(data)

    with served(Server, size, authority, 1) as fronted, served(_Direct, size, authority, 1) as direct:
        ours, peer = (loop.run(connected(address)) for address in (fronted, direct))

        def measured(sent: bytes, count: int) -> Pair:
            return interleave(
                Side(lambda: loop.run(in_turn(ours, sent, count)), count),
                Side(lambda: loop.run(in_turn(peer, sent, count)), count),
                options.budget.share(4),
                rounds=9,
            )

        small, large = measured(bytes(64), 200), measured(data, 1)
        for uploader in (ours, peer):
            loop.run(uploader.close())
    # Guards against getting worse, for a busy machine too: with a load of 8 the ratio was between 0.65 and 1.
    return [
        time_row("64 bytes up and a byte down, mutual TLS: through the front / direct", small, floor=0.4),
        time_row(f"{size // 10**6} MB up and a byte down, mutual TLS: through the front / direct", large, floor=0.4),
    ]


def _tricklers(options: Options, loop: asyncio.Runner, authority: Authority, size: int, burst: int) -> Row:
    own = [Credentials.of(*files(authority, client_name(i))) for i in range(UPLOADERS + TRICKLERS)]
    data = bytes(size)

    async def uploads(address: str, burst: int | None) -> None:
        uploaders = [Uploader(address, identity, size, own[identity]) for identity in range(UPLOADERS)]
        begun = [asyncio.Event() for _ in range(0 if burst is None else TRICKLERS)]
        slow = [
            asyncio.create_task(trickle(address, UPLOADERS + i, size, burst or 0, own[UPLOADERS + i], event))
            for i, event in enumerate(begun)
        ]
        for event in begun:
            await event.wait()
        await asyncio.gather(*(uploader.upload(data) for uploader in uploaders))
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, *(uploader.close() for uploader in uploaders), return_exceptions=True)

    with served(Server, size, authority, UPLOADERS + TRICKLERS) as address:
        pair = interleave(
            Side(lambda: loop.run(uploads(address, burst))),
            Side(lambda: loop.run(uploads(address, None))),
            options.budget.share(2),
            rounds=3,
            warm_up=0,
        )
    held = f"{burst // 10**6} MB each" if burst else "nothing"
    return time_row(f"{UPLOADERS} uploads of {size // 10**6} MB beside 2 that trickle and hold {held} / alone", pair)


def run(options: Options) -> list[Row]:
    authority = Authority.create()
    size = 20_000_000 if options.quick else 100_000_000
    with asyncio.Runner() as loop:
        rows = [*_hop(options, loop, authority), _tricklers(options, loop, authority, size, 0)]
        if not options.quick:
            rows.append(_tricklers(options, loop, authority, size, size // 3))
    return rows
