"""Clients and coordinators that abuse restarts: farewells, claims, short connections and streams that stay open."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import grpc
import grpc.aio
import pytest

from tacit.errors import PeerAway, PeerError
from tacit.events import EndHeard, Noted
from tacit.net.grpc.server import METHOD, OPTIONS, _Handler
from tacit.net.handshake import Hello, Parting, Refused, Welcome
from tacit.net.link import PIECE_BYTES
from tacit.wire import decode, encode
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.net.loopback import Federation, file_of, quickly

MASKED = {"encrypt_type": "PW_ENCRYPT", "mode": "active"}


def federation(**keys):
    return Federation(settings_for(**({"clients": 4, "rounds": 2, "encrypt": MASKED} | keys)), Numbers())


def test_a_client_that_leaves_again_and_again_keeps_no_stream_open():
    """More often than streams may be open at once; each ends once its farewell is confirmed."""

    async def scenario():
        found = federation()
        async with found.serve(), grpc.aio.insecure_channel(found.address, options=OPTIONS) as channel:
            for _ in range(2 * 4 + 64 + 10):
                stream = channel.stream_stream(METHOD)()
                hello = Hello("client-3", os.urandom(16), b"", 0, file_of(found.settings), os.urandom(32))
                await stream.write(encode(hello))
                decode(await stream.read(), Welcome, PIECE_BYTES)
                frame = encode(Parting("stopped", "it was stopped"))
                await stream.write(b"F" + bytes(8) + len(frame).to_bytes(8, "big") + frame)
                while await stream.read() is not grpc.aio.EOF:  # it is confirmed, and then nothing comes
                    pass
                assert await stream.code() is grpc.StatusCode.OK
            assert "client-3" not in found.host.server.peers
            for identity in range(4):
                found.join(identity)
            await found.done()
        return found

    assert quickly(scenario()).survivors == [4, 4]


def test_no_client_keeps_a_coordinator_from_ending():
    async def scenario():
        found = federation(network={"lost_after": 5})
        async with found.serve():
            for identity in range(4):
                found.join(identity)

            async def lose_it_again():
                while not found.serving.done():
                    found.host._lost[3] = found.host._joined_at = found.host._clock()
                    await asyncio.sleep(0.001)

            _, partings = await asyncio.gather(lose_it_again(), found.done())
        return partings

    assert {parting.status for parting in quickly(scenario()).values()} == {"done"}


@pytest.mark.slow  # 6 s
def test_the_claim_of_one_client_ends_no_run_for_good():
    """All four are needed. One says that it is far ahead: it is named, and a restart is worth a try."""

    async def scenario():
        found = federation(round={"start_fl_job_time_window": 3000})
        async with found.serve():
            for identity in range(4):
                engine = found.join(identity)
                if identity == 2:
                    engine.connection._about = replace(engine.connection._about, answered=lambda: 2**62)
            await asyncio.wait([found.serving])
            assert not any(task.done() for task in found.running.values())
            return found.serving.exception()

    error = quickly(scenario())
    assert isinstance(error, PeerAway)
    assert "3 clients are there, a round needs 4" in str(error)
    assert "client 2 says that it is in another run" in str(error)


def test_short_connections_do_not_renew_the_patience_of_a_client():
    async def scenario():
        engine = federation().client(0, "127.0.0.1:1")
        now = asyncio.get_running_loop().time
        engine._missing()
        for _ in range(3):
            await engine.connected(False)
            await engine.waiting("the connection ended")
        assert engine._away(now() + 100) >= 100
        await engine.connected(False)
        await engine.arrived(encode(Parting("stopped", "back soon")))  # and it stays connected
        assert engine._away(now() + 100) >= 100
        await engine.connected(False)
        assert engine._away(now() + 100) == 0  # a connection that lasts

    quickly(scenario())


# --- what a coordinator says

MARK = "the end\x1b[2J\r\n\u202eof all"
SHOWN = "the end [2J   of all"


@pytest.mark.parametrize("way", ["refused", "details"])
def test_the_words_of_a_refusal_cannot_steer_a_terminal(way):
    async def refusing(_, context):
        await context.read()
        if way == "details":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, MARK + 5000 * "x")
        await context.write(encode(Refused(MARK.ljust(300, "x"))))

    async def scenario():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_Handler(refusing),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            await federation().client(0, f"127.0.0.1:{port}").run()
        finally:
            await server.stop(None)

    with pytest.raises(PeerError) as caught:
        quickly(scenario())
    assert str(caught.value) == f"coordinator refused: {SHOWN.ljust(300, 'x')}"


@pytest.mark.parametrize("status", ["stopped", "done", "budget reached", "failed", "\x1b[2J"])
def test_the_words_of_a_farewell_cannot_steer_a_terminal(status):
    async def scenario():
        engine = federation().client(0, "127.0.0.1:1")
        await engine.arrived(encode(Parting(status, MARK)))
        said = list(engine._sink.events)
        return said, None if status == "stopped" else await engine.run()

    said, parting = quickly(scenario())
    if status == "stopped":
        assert said == [Noted(f"waiting for the coordinator to come back: {SHOWN}")]
    else:
        shown = " [2J" if status == "\x1b[2J" else status
        assert said == [EndHeard(0, shown, SHOWN)]
        assert parting == Parting(shown, SHOWN)
