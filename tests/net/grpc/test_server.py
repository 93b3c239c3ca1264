"""A server's streams: what is being handled when one breaks is handled to its end, and once."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress

import grpc
import grpc.aio
import pytest

from tacit.errors import PeerError
from tacit.events import Kept, Noted
from tacit.net.grpc import pace
from tacit.net.grpc import server as server_module
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.server import METHOD, OPTIONS, Server
from tacit.net.handshake import Hello, Welcome
from tacit.net.link import PIECE_BYTES, Link
from tacit.net.transport import Conversation
from tacit.sections import Network
from tacit.version import __version__
from tacit.wire import decode, encode
from tests.net.loopback import quickly


class Slow:
    """A listener that takes its time."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.handled: list[bytes] = []
        self.told: list[str] = []

    async def joined(self, name, hello, certificate, resumed):
        await asyncio.sleep(0.05)
        self.told.append("came back" if resumed else "joined")

    async def arrived(self, name, frame):
        self.begun.append(frame)
        await asyncio.sleep(0.05)
        self.handled.append(frame)
        if frame == b"wrong":
            raise PeerError("a wrong frame")

    async def broke(self, name, reason):
        self.told.append(f"broke: {reason}")

    async def lost(self, name):
        self.told.append("lost")


@asynccontextmanager
async def serving(listener, limit=1000, **network):
    about = Conversation("coordinator", b"{}", limit, network=Network(**network))
    server = Server(listener, lambda name: name == "client-1", about)
    port = await server.start("127.0.0.1:0", 1)
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.stop()


class Party:
    """A party that connects by hand."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._session = os.urandom(16)
        self._epoch = b""
        self.link = Link(1000)

    @asynccontextmanager
    async def stream(self):
        async with grpc.aio.insecure_channel(self._address, options=OPTIONS) as channel:
            stream = channel.stream_stream(METHOD)()
            hello = Hello("client-1", self._session, self._epoch, self.link.received, b"{}", b"")
            await stream.write(encode(hello))
            welcome = decode(await stream.read(), Welcome, PIECE_BYTES)
            if welcome.resumed:
                self.link.reconnected(welcome.received)
            self._epoch = welcome.epoch
            yield stream
            stream.cancel()

    async def write(self, stream) -> None:
        while (piece := self.link.next()) is not None:
            await stream.write(piece)


async def until(holds) -> None:
    while not holds():
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("wait", [0.0, 0.06, 0.08, 0.1, 0.12])
def test_what_arrives_as_the_stream_breaks_is_handled_once(wait):
    async def scenario():
        listener = Slow()
        sent = [b"%d" % number for number in range(12)]
        async with serving(listener) as (_, address):
            party = Party(address)
            for first in range(0, 12, 3):
                async with party.stream() as stream:
                    for frame in sent[first : first + 3]:
                        party.link.send(frame)
                    await party.write(stream)
                    await asyncio.sleep(wait)
            async with party.stream() as stream:
                await party.write(stream)
                await until(lambda: len(listener.handled) >= len(sent))
        return listener, sent

    listener, sent = quickly(scenario())
    assert listener.begun == sent
    assert listener.handled == sent


def test_a_new_stream_takes_the_place_of_the_old_one_while_a_frame_is_handled():
    async def scenario():
        listener = Slow()
        async with serving(listener) as (server, address):
            party = Party(address)
            async with party.stream() as old:
                for frame in (b"a", b"b"):
                    party.link.send(frame)
                await party.write(old)
                await until(lambda: listener.begun)
                async with party.stream() as new:
                    server.send("client-1", b"for the new one")
                    await party.write(new)
                    got = []
                    while not got:
                        got = party.link.receive(await new.read())
                    await until(lambda: len(listener.handled) == 2)
                    with suppress(grpc.aio.AioRpcError):
                        while await old.read() is not grpc.aio.EOF:
                            pass
                    code = await old.code()
        return listener, got, code

    listener, got, code = quickly(scenario())
    assert listener.handled == [b"a", b"b"]
    assert got == [b"for the new one"]
    assert code is grpc.StatusCode.ABORTED


def test_the_fault_of_an_old_stream_is_not_the_new_ones():
    """A client that joins anew keeps its place while the last frame of its old process turns out to be wrong."""

    async def scenario():
        listener = Slow()
        async with serving(listener) as (server, address):
            old, new = Party(address), Party(address)
            async with old.stream() as stream:
                old.link.send(b"wrong")
                await old.write(stream)
                await until(lambda: listener.begun)
                async with new.stream():
                    await until(lambda: listener.handled and server.connected("client-1"))
                    await asyncio.sleep(0.1)
                    return listener, server.connected("client-1")

    listener, connected = quickly(scenario())
    assert connected
    assert not any(told.startswith("broke") for told in listener.told)


def test_a_frame_that_stalls_costs_the_connection_and_no_more(monkeypatch):
    monkeypatch.setattr(pace, "_WINDOW", 0.2)

    async def scenario():
        listener = Slow()
        async with serving(listener, least_rate=1 << 24) as (server, address):
            party = Party(address)
            async with party.stream() as stream:
                await stream.write(b"F" + bytes(8) + (10).to_bytes(8, "big") + b"half")
                code = await stream.code()
            await until(lambda: listener.told == ["joined", "lost"])
            assert server.peers["client-1"].link._parts == b""
            party.link.send(b"whole")
            async with party.stream() as stream:
                await party.write(stream)
                await until(lambda: listener.handled)
            await until(lambda: listener.told.count("lost") == 2)
        return listener, code

    listener, code = quickly(scenario())
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert listener.handled == [b"whole"]
    assert listener.told == ["joined", "lost", "came back", "lost"]


def test_a_party_that_never_says_hello_is_sent_away():
    async def scenario():
        async with serving(Slow(), handshake=0.3) as (_, address), grpc.aio.insecure_channel(address) as channel:
            return await channel.stream_stream(METHOD)().code()

    assert quickly(scenario()) in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize(("version", "said"), [("0.4.1", 1), (__version__, 0)])
def test_a_client_says_once_that_the_server_runs_another_release(monkeypatch, version, said):
    def answer(hello, epoch, received, resumed):
        return encode(Welcome(epoch, received, resumed, version, ("what this release does not know",)))

    monkeypatch.setattr(server_module, "answer_to", answer)
    kept = Kept()

    class Guest:
        connections = 0

        async def connected(self, resumed):
            self.connections += 1

        async def waiting(self, reason): ...

    async def scenario():
        guest = Guest()
        async with serving(Slow()) as (server, address):
            connection = Connection(guest, address, "coordinator", Conversation("client-1", b"{}", 1000, sink=kept))
            running = asyncio.create_task(connection.run())
            for number in (1, 2):
                await until(lambda number=number: guest.connections == number and server.connected("client-1"))
                server._replace(server.peers["client-1"].stream, grpc.StatusCode.UNAVAILABLE, "cut")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    quickly(scenario())
    told = [event.text for event in kept.events if isinstance(event, Noted)]
    assert told == said * [f"coordinator runs Tacit {version}, this side {__version__}: what both know is used"]
