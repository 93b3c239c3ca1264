"""Memory for frames under way: nobody waits for ever, whatever others begin and do not end."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from random import Random

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.net.grpc import pace as pace_module
from tacit.net.grpc import room as room_module
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.pace import Pace
from tacit.net.grpc.room import Room
from tacit.net.grpc.server import METHOD, OPTIONS, Server
from tacit.net.handshake import Hello, Welcome
from tacit.net.link import PIECE_BYTES
from tacit.net.transport import Conversation
from tacit.sections import Network
from tacit.wire import decode, encode
from tests.net.loopback import quickly
from tests.subprocesses import HANGS


@given(
    totals=st.lists(st.integers(1, 1000), min_size=1, max_size=12),
    size=st.integers(1, 6000),
    seed=st.integers(0, 2**32),
)
def test_frames_that_are_all_begun_are_all_completed(totals, size, seed):
    """Pieces come in any order. What is taken is never more than there is, and comes back."""
    random = Random(seed)

    async def scenario():
        room = Room(size, 1000, len(totals))
        whole, held = room.free, 0

        async def sent(total):
            nonlocal held
            frame = room.begin(total, lambda: None)
            left = total
            while left:
                piece = min(left, random.randint(1, 300))
                for _ in range(random.randint(0, 3)):
                    await asyncio.sleep(0)
                await room.take(frame, piece)
                left -= piece
                held += piece
                assert held <= room.size
                assert room.free >= 0
            await asyncio.sleep(0)
            held -= total
            room.end(frame)
            room.end(frame)

        await asyncio.gather(*map(sent, totals))
        assert room.free == whole

    quickly(scenario())


def test_frames_that_are_given_up_give_back_what_they_have_at_once():
    async def scenario():
        room = Room(2000, 1000, 3)  # shares of 166
        whole = room.free
        first = room.begin(1000, lambda: None)
        second = room.begin(1000, lambda: None)
        third = room.begin(1000, lambda: None)
        await room.take(first, 800)
        await room.take(second, 800)
        waiting = asyncio.create_task(room.take(third, 900))
        await asyncio.sleep(0)
        assert not waiting.done()
        room.end(first)
        await waiting
        room.end(second)
        cancelled = asyncio.create_task(room.take(room.begin(1000, lambda: None), 1000))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        room.end(third)
        return room.free, whole, room._waiting

    free, whole, waiting = quickly(scenario())
    assert not waiting
    assert free == whole


def test_a_message_within_its_partys_share_never_waits():
    async def scenario():
        room = Room(4000, 1000, 10)  # shares of 100
        for _ in range(4):
            frame = room.begin(1000, lambda: None)
            with suppress(TimeoutError):
                await asyncio.wait_for(room.take(frame, 999), 0.01)
        for _ in range(6):
            await room.take(room.begin(100, lambda: None), 100)

    quickly(scenario())


def test_the_frame_that_lacks_least_is_completed_first():
    """Equal frames must not all get a part of what only one of them can use."""

    async def scenario():
        room = Room(2400, 1000, 6)  # shares of 100, and 1800 for all
        frames = [room.begin(1000, lambda: None) for _ in range(6)]
        done = []

        async def sent(number):
            for _ in range(10):
                await room.take(frames[number], 100)
                await asyncio.sleep(0)
            done.append(number)
            room.end(frames[number])

        await asyncio.gather(*map(sent, range(6)))
        return done

    assert quickly(scenario()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("least_rate", "pieces", "enough"),
    [(16_384, 1, True), (16_384, 0, False), (1 << 20, 39, True), (1 << 20, 38, False)],
)
def test_in_each_window_all_but_a_piece_must_come(least_rate, pieces, enough):
    pace = Pace(least_rate)
    window = max(10.0, 2 * PIECE_BYTES / least_rate)
    assert pace.rest == window
    for _ in range(pieces):
        assert pace.add(PIECE_BYTES, 0.01)
    assert pace.add(0, window - pieces * 0.01 - 0.001)
    assert pace.add(0, 0.01) is enough


def test_a_burst_does_not_pay_for_the_trickle_after_it():
    pace = Pace(16_384)
    assert pace.add(1 << 30, pace.window)
    assert not pace.add(0, pace.window)


# --- over the network

FRAME = 4 << 20


class Taken:
    """A server's listener."""

    def __init__(self) -> None:
        self.frames: list[str] = []

    async def joined(self, name, hello, certificate, resumed): ...

    async def arrived(self, name, frame):
        self.frames.append(name)

    async def broke(self, name, reason): ...

    async def lost(self, name): ...


class Sender:
    """A connection's listener that sends a frame as soon as it can."""

    connection: Connection

    async def connected(self, resumed):
        if not resumed:
            self.connection.send(os.urandom(FRAME))

    async def arrived(self, frame): ...

    async def waiting(self, reason): ...


@asynccontextmanager
async def stream_of(address, name):
    async with grpc.aio.insecure_channel(address, options=[*OPTIONS, ("grpc.use_local_subchannel_pool", 1)]) as channel:
        stream = channel.stream_stream(METHOD)()
        await stream.write(encode(Hello(name, os.urandom(16), b"", 0, b"{}", b"")))
        decode(await stream.read(), Welcome, PIECE_BYTES)
        yield stream
        stream.cancel()


async def trickle(stream, begun, pieces):
    """Begin a frame with a burst, and then send as good as nothing of it."""
    await stream.write(b"F" + bytes(8) + FRAME.to_bytes(8, "big") + bytes(PIECE_BYTES))
    for _ in range(pieces):
        await stream.write(b"C" + bytes(8) + bytes(PIECE_BYTES))
    begun.set()
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            await asyncio.sleep(0.05)
            await stream.write(b"C" + bytes(8) + b"x")


@pytest.mark.parametrize("pieces", [0, 12], ids=["announced only", "after a burst"])
def test_two_tricklers_do_not_block_the_uploads_of_others(pieces, monkeypatch):
    """The room is for two frames. With a burst, the tricklers hold most of it, and have to go; without one they hold
    little, and go or stay by how fast the others are."""
    monkeypatch.setattr(room_module, "_WAITED", 0.3)
    monkeypatch.setattr(room_module, "_BRIEF", 1.0)
    monkeypatch.setattr(room_module, "_MEAN", 0.3)

    async def scenario():
        taken = Taken()
        names = [f"client-{i}" for i in range(8)]
        network = Network(memory=2 * FRAME, least_rate=1)
        server = Server(taken, names.__contains__, Conversation("coordinator", b"{}", FRAME, network=network))
        port = await server.start("127.0.0.1:0", len(names))
        address = f"127.0.0.1:{port}"
        whole = server._room.free
        try:
            async with stream_of(address, names[0]) as one, stream_of(address, names[1]) as other:
                begun = [asyncio.Event(), asyncio.Event()]
                tricklers = [
                    asyncio.create_task(trickle(*each, pieces)) for each in zip((one, other), begun, strict=True)
                ]
                for event in begun:
                    await event.wait()
                if pieces:
                    while server._room.free > 0.25 * whole:
                        await asyncio.sleep(0.01)
                running = []
                for name in names[2:]:
                    sender = Sender()
                    about = Conversation(name, b"{}", FRAME)
                    sender.connection = Connection(sender, address, "coordinator", about)
                    running.append(asyncio.create_task(sender.connection.run()))
                while len(taken.frames) < 6:
                    await asyncio.sleep(0.01)
                dropped = server._watch.refused["memory"]
                for task in (*running, *tricklers):
                    task.cancel()
                await asyncio.gather(*running, *tricklers, return_exceptions=True)
            while server._room.free < whole:
                await asyncio.sleep(0.01)
        finally:
            await server.stop()
        return sorted(taken.frames), names, dropped

    frames, names, dropped = quickly(scenario())
    assert frames == names[2:]
    assert dropped >= 1 or not pieces


@pytest.mark.parametrize("last", ["silence", "a byte"])
def test_a_trickle_below_the_least_rate_costs_the_connection(last, monkeypatch):
    """The rate is judged after a time of silence, or when a byte comes at last. The trickle is written before: gRPC
    answers a client with INTERNAL, not with the server's code, if a write of its own fails first."""
    monkeypatch.setattr(pace_module, "_WINDOW", HANGS)  # nothing is judged while the trickle is written

    async def scenario():
        clock = asyncio.get_running_loop().time
        about = Conversation("coordinator", b"{}", FRAME, network=Network(least_rate=1 << 24))
        server = Server(Taken(), lambda name: True, about)
        port = await server.start("127.0.0.1:0", 1)
        try:
            async with stream_of(f"127.0.0.1:{port}", "client-0") as stream:
                begun = clock()
                await stream.write(b"F" + bytes(8) + FRAME.to_bytes(8, "big") + bytes(PIECE_BYTES))
                for _ in range(5):
                    await stream.write(b"C" + bytes(8) + b"x")
                await asyncio.sleep(0.2)
                window = 0.1 if last == "a byte" else clock() - begun + 0.3
                monkeypatch.setattr(pace_module, "_WINDOW", window)
                await stream.write(b"C" + bytes(8) + b"x")
                code = await stream.code()
        finally:
            await server.stop()
        return code, server._watch.refused["rate"], server._room.free

    code, slow, free = quickly(scenario())
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert slow == 1
    assert free > 0
