"""Parties that die, stall, lie and flood, and networks that cut and corrupt: nobody hangs, and the next round runs."""

from __future__ import annotations

import asyncio
import os
import re
import tracemalloc
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import grpc.aio
import numpy as np
import pytest

from tacit.config.local import Local
from tacit.errors import PeerAway, PeerError
from tacit.events import Kept, Noted
from tacit.kinds.horizontal.frames import FramedClient
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.net import star_host
from tacit.net.grpc import Grpc, connection, pace
from tacit.net.grpc.credentials import channel_credentials, channel_options
from tacit.net.grpc.server import METHOD, OPTIONS
from tacit.net.handshake import Hello, Parting, Refused, Welcome
from tacit.net.identity import Authority, Credentials
from tacit.net.link import PIECE_BYTES
from tacit.net.site import Site
from tacit.net.star_guest import StarGuest
from tacit.secagg.messages import Agreements, Inbox, Roster, Survivors
from tacit.sections import Network
from tacit.wire import decode, encode
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, run, settings_for
from tests.net.loopback import Federation, Proxy, certified, file_of, halting, over_each_transport, quickly, until
from tests.net.memory_transport import MemoryTransport
from tests.subprocesses import HANGS, free_port

AUTHORITY = Authority.create()


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Seconds that are for slow networks, in tests of loopback."""
    monkeypatch.setattr(connection, "_LONGEST_PAUSE", 0.5)
    monkeypatch.setattr(star_host, "_FAREWELL", 1.5)  # by the clock of these federations, which waits for the living


def federation(
    encrypt_type="PW_ENCRYPT", mode="active", clients=6, rounds=3, window=1000, gather=4000, lost_after=0.5, **keys
):
    encrypt = {"encrypt_type": encrypt_type, "mode": mode, "cipher_time_window": window}
    times = {"start_fl_job_time_window": gather, "update_model_time_window": 2 * window}
    network = {"lost_after": lost_after}
    return settings_for(clients=clients, rounds=rounds, encrypt=encrypt, round=times, network=network, **keys)


# --- clients that die


async def dying(found: Federation, stage: type) -> dict[int, Parting]:
    """A whole federation, of which client 3 is killed in round 2 when it is sent a message of `stage`."""
    async with found.serve():
        reached = asyncio.Event()
        for identity in range(6):
            engine = found.join(identity)
            if identity == 3:
                halting(engine, stage, reached)
        await reached.wait()
        found.kill(3)
        return await found.done()


STAGES = {"work": Work, "roster": Roster, "inbox": Inbox, "survivors": Survivors, "agreements": Agreements}


@pytest.mark.parametrize(
    "stage",
    [name if name in ("inbox", "agreements") else pytest.param(name, marks=pytest.mark.slow) for name in STAGES],
)
@over_each_transport
def test_a_client_that_dies_at_any_stage_costs_its_own_update_only(transport, stage):
    async def scenario():
        found = Federation(federation(), Numbers(), transport=transport())
        return found, await dying(found, STAGES[stage])

    found, partings = quickly(scenario())
    uploaded = stage in ("survivors", "agreements")
    assert found.survivors == [6, 6 if uploaded else 5, 5]
    assert {parting.status for parting in partings.values()} == {"done"}


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", pytest.param("DP_ENCRYPT", marks=pytest.mark.slow)])
@over_each_transport
def test_a_client_that_dies_while_it_trains_is_waited_for_once(transport, encrypt_type):
    async def scenario():
        found = Federation(federation(encrypt_type, window=500), Numbers(), transport=transport())
        await dying(found, Work)
        return found

    assert quickly(scenario()).survivors == [6, 5, 5]


@pytest.mark.parametrize("encrypt_type", [pytest.param("NOT_ENCRYPT", marks=pytest.mark.slow), "PW_ENCRYPT"])
def test_a_client_without_a_connection_does_not_hold_up_the_round(encrypt_type):
    async def scenario():
        found = Federation(federation(encrypt_type, window=10**9, lost_after=15), Numbers())
        await dying(found, Work)
        return found

    found = quickly(scenario())
    assert found.survivors == [6, 5, 5]
    assert found._time < 60  # seconds of the coordinator's own clock, of a window of 10^6
    assert any("no connection to client 3 for 15 s" in getattr(event, "text", "") for event in found.kept.events)


@over_each_transport
def test_a_client_that_comes_back_as_another_process_takes_part_in_the_next_round(transport):
    """In the round that its old process began it gets messages that it cannot know: they are no reason to leave."""

    async def scenario():
        settings = federation(lost_after=HANGS)  # the next round waits for client 4
        found = Federation(settings, Numbers(), transport=transport())
        async with found.serve():
            reached = asyncio.Event()
            for identity in range(6):
                engine = found.join(identity)
                if identity == 4:
                    halting(engine, Roster, reached)  # it keeps the stage open, in which client 3 has shared already
            await reached.wait()
            await until(lambda: found.awaited == {4})
            for identity in (3, 4):
                found.kill(identity)
            found.join(3)
            await until(lambda: found.awaited != {4})  # its window is over
            found.join(4)
            partings = await found.done()
        return found, partings

    found, partings = quickly(scenario())
    assert found.survivors == [6, 4, 6]
    assert {parting.status for parting in partings.values()} == {"done"}


@over_each_transport
def test_too_few_survivors_abort_the_round_and_the_next_one_runs(transport):
    async def scenario():
        found = Federation(federation(), Numbers(), transport=transport())
        async with found.serve():
            reached = [asyncio.Event() for _ in range(3)]
            for identity in range(6):
                engine = found.join(identity)
                if identity < 3:
                    halting(engine, Inbox, reached[identity])
            for event in reached:
                await event.wait()
            for identity in range(3):
                found.kill(identity)
            for identity in range(3):
                found.join(identity)
            await found.done()
        return found

    found = quickly(scenario())
    assert found.survivors == [6, 6]
    (aborted,) = found.aborted()
    assert aborted.round == 1
    assert "uploaded" in aborted.reason


@over_each_transport
def test_with_too_few_clients_it_ends_and_those_that_are_there_wait_for_the_next_start(transport):
    async def scenario():
        found = Federation(federation(gather=500), Numbers(), transport=transport())
        async with found.serve():
            for identity in range(4):
                found.join(identity)
            await asyncio.wait([found.serving])
            assert not any(task.done() for task in found.running.values())
            return found.serving.exception(), [found.told(identity) for identity in range(4)]

    error, told = quickly(scenario())
    assert isinstance(error, PeerAway)
    assert "4 clients are there, a round needs 5" in str(error)
    assert all(any(str(error) in event.text for event in events) for events in told)


# --- peers that speak the protocol badly


@asynccontextmanager
async def stream_to(address: str, credentials: Credentials | None = None, party: str = "coordinator"):
    if credentials is None:
        channel = grpc.aio.insecure_channel(address, options=OPTIONS)
    else:
        options = [*OPTIONS, *channel_options(party)]
        channel = grpc.aio.secure_channel(address, channel_credentials(credentials), options=options)
    async with channel:
        yield channel.stream_stream(METHOD)()


def hello(found: Federation, identity: int, **keys) -> Hello:
    given = {
        "party": f"client-{identity}",
        "session": os.urandom(16),
        "epoch": b"",
        "received": 0,
        "settings": file_of(found.settings),
        "signing_key": os.urandom(32),
    }
    return Hello(**(given | keys))


async def greet(stream, message: Hello) -> Welcome | Refused:
    await stream.write(encode(message))
    return decode(await stream.read(), Welcome | Refused, PIECE_BYTES)


def first(number: int, total: int, data: bytes) -> bytes:
    return b"F" + number.to_bytes(8, "big") + total.to_bytes(8, "big") + data


async def ended(stream) -> grpc.StatusCode:
    with suppress(grpc.aio.AioRpcError):
        while await stream.read() is not grpc.aio.EOF:
            pass
    return await stream.code()


def beside_five(behaviour, settings=None, stalls=False):
    """Five clients, and in the place of the sixth a stranger who behaves in some way, to the end unless it `stalls`."""

    async def scenario():
        found = Federation(settings or federation(rounds=2), Numbers())
        async with found.serve():
            strange = asyncio.create_task(behaviour(found))
            found.frozen = lambda: not (stalls or strange.done())
            for identity in range(5):
                found.join(identity)
            partings = await found.done()
            if stalls:
                strange.cancel()
            await asyncio.wait([strange])
        if not stalls:
            strange.result()
        return found, partings

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    return found


async def silent(found):
    async with stream_to(found.address) as stream:
        await greet(stream, hello(found, 5))
        await asyncio.Event().wait()


async def speechless(found):
    async with stream_to(found.address):
        await asyncio.Event().wait()


async def half_a_frame(found):
    async with stream_to(found.address) as stream:
        await greet(stream, hello(found, 5))
        await stream.write(first(0, 1000, b"x"))
        await asyncio.Event().wait()


@pytest.mark.parametrize("behaviour", [silent, pytest.param(speechless, marks=pytest.mark.slow), half_a_frame])
def test_whoever_stalls_is_not_waited_for_beyond_the_windows(behaviour):
    assert beside_five(behaviour, stalls=True).survivors == [5, 5]


@pytest.mark.parametrize(
    "piece",
    [b"", b"garbage that is no piece", first(7, 10, b"x"), first(0, 10 * 2**30, b"x"), b"A" + bytes(7) + b"\x63"],
    ids=["nothing", "garbage", "out of order", "10 GB", "confirms what was never sent"],
)
def test_whoever_sends_what_is_no_piece_loses_its_place(piece):
    async def behaviour(found):
        async with stream_to(found.address) as stream:
            await greet(stream, hello(found, 5))
            await stream.write(piece)
            assert await ended(stream) is grpc.StatusCode.INVALID_ARGUMENT

    found = beside_five(behaviour)
    assert found.survivors == [5, 5]


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x01\x93\x01\x02\x03", b"\x07" * 100, os.urandom(1000)])
def test_a_whole_frame_that_is_no_message_is_refused(frame):
    async def behaviour(found):
        async with stream_to(found.address) as stream:
            await greet(stream, hello(found, 5))
            await stream.write(first(0, len(frame), frame))
            assert await ended(stream) is grpc.StatusCode.INVALID_ARGUMENT

    assert beside_five(behaviour).survivors == [5, 5]


def test_a_message_larger_than_a_piece_is_refused_by_the_transport():
    async def behaviour(found):
        async with stream_to(found.address) as stream:
            await greet(stream, hello(found, 5))
        options = [("grpc.max_send_message_length", -1)]  # what this side allows itself
        async with grpc.aio.insecure_channel(found.address, options=options) as channel:
            stream = channel.stream_stream(METHOD)()
            with suppress(grpc.aio.AioRpcError):
                await stream.write(bytes(50 * PIECE_BYTES))
            assert await ended(stream) is grpc.StatusCode.RESOURCE_EXHAUSTED

    assert beside_five(behaviour).survivors == [5, 5]


def test_reconnecting_over_and_over_does_not_block_other_clients():
    """In all these streams are more than may be open at once: those that are replaced must end."""

    async def scenario():
        found = Federation(federation(rounds=2), Numbers())
        found.frozen = lambda: not found.running
        async with found.serve(), grpc.aio.insecure_channel(found.address, options=OPTIONS) as channel:
            session, streams = os.urandom(16), []
            for count in range(200):  # 76 may be open at once
                streams.append(channel.stream_stream(METHOD)())
                again = session if count % 3 else os.urandom(16)
                assert isinstance(await greet(streams[-1], hello(found, 5, session=again)), Welcome)
            for identity in range(5):
                found.join(identity)
            await found.done()
            codes = {await ended(stream) for stream in streams[:-1]}
        return found, codes

    found, codes = quickly(scenario())
    assert found.survivors == [5, 5]
    assert codes == {grpc.StatusCode.ABORTED, grpc.StatusCode.PERMISSION_DENIED}


def test_whoever_opens_streams_and_says_nothing_does_not_keep_others_out():
    async def scenario():
        found = Federation(federation(rounds=2), Numbers(), AUTHORITY)
        async with found.serve(), stream_to(found.address, found.credentials(5)) as stream:
            found.frozen = lambda: not found.running
            many = [stream]
            own = channel_credentials(found.credentials(5))
            options = [*OPTIONS, *channel_options("coordinator")]
            async with grpc.aio.secure_channel(found.address, own, options=options) as channel:
                for _ in range(150):
                    many.append(channel.stream_stream(METHOD)())
                    await many[-1].wait_for_connection()
                for identity in range(6):
                    found.join(identity)
                await found.done()
        return found

    assert quickly(scenario()).survivors == [6, 6]


@over_each_transport
def test_of_two_processes_with_one_name_the_older_ends(transport):
    async def scenario():
        found = Federation(federation(rounds=2), Numbers(), transport=transport())
        async with found.serve():
            older = asyncio.create_task(found.client(5).run())
            await until(lambda: found.host.server.connected("client-5"))
            for identity in range(6):
                found.join(identity)
            await found.done()
            return found, await asyncio.gather(older, return_exceptions=True)

    found, (error,) = quickly(scenario())
    assert found.survivors == [6, 6]
    assert isinstance(error, PeerError)
    assert "another process has joined as client-5" in str(error)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"party": "client-6"}, "client-6 is not a party of this federation"),
        ({"party": "client-05"}, "client-05 is not a party"),
        ({"party": "coordinator"}, "coordinator is not a party"),
        ({"settings": b"[]"}, "cannot be read"),
        ({"settings": b'{"a":' * 19_000}, "no message|cannot be read"),
    ],
)
def test_a_stranger_is_told_why_it_is_refused(change, why):
    async def scenario():
        async with Federation(federation(), Numbers()).serve() as found, stream_to(found.address) as stream:
            answer = await greet(stream, hello(found, 5, **change))
            assert isinstance(answer, Refused)
            assert not found.host.server.peers
            return answer.reason

    assert re.search(why, quickly(scenario()))


@over_each_transport
def test_another_file_is_refused_and_the_key_named(transport):
    async def scenario():
        async with Federation(federation(), Numbers(), transport=transport()).serve() as found:
            other = federation(train={"epochs": 7})
            await stranger(found, other).run()

    with pytest.raises(PeerError, match=r"train.batch is 16 at the coordinator and 32 here"):
        quickly(scenario())


def stranger(found: Federation, settings, credentials=None) -> StarGuest:
    """Client 5, set up with other settings."""
    return client_5(settings, found.address, credentials, Kept(), found.transport)


def client_5(settings, address, credentials, sink, transport) -> StarGuest:
    leaf = FramedClient(Prepared.of(settings, Numbers()), 5, credentials)
    return StarGuest(leaf, Site(address, address, credentials, Local(), transport=transport), sink)


# --- certificates


def test_another_clients_name_is_refused():
    async def scenario():
        found, own = Federation(federation(), Numbers(), AUTHORITY), certified(AUTHORITY, "client-4")
        async with found.serve(), stream_to(found.address, own) as stream:
            return await greet(stream, hello(found, 5))

    answer = quickly(scenario())
    assert answer == Refused("the certificate is of client-4, who claims to be client-5")


@pytest.mark.parametrize("name", ["client-6", "coordinator", "hospital"])
def test_the_certificate_of_a_stranger_is_refused_before_it_speaks(name):
    async def scenario():
        found, own = Federation(federation(), Numbers(), AUTHORITY), certified(AUTHORITY, name)
        async with found.serve(), stream_to(found.address, own) as stream:
            return await ended(stream)

    assert quickly(scenario()) is grpc.StatusCode.PERMISSION_DENIED


LONG_AGO = datetime.now(UTC) - timedelta(days=20)
OLD = Authority.create(now=LONG_AGO)


@pytest.mark.parametrize(
    ("credentials", "why"),
    [
        (lambda: certified(Authority.create(), "client-5"), "was not signed by our authority"),
        (
            lambda: replace(certified(Authority.create(), "client-5"), authority=AUTHORITY.certificate_pem),
            "coordinator did not accept the certificate of client-5",
        ),
        (
            lambda: certified(OLD, "client-5", days=1, now=LONG_AGO),
            "not accept the certificate of client-5: it expired",
        ),
    ],
    ids=["another authority", "signed by another", "expired"],
)
def test_a_client_whose_certificate_is_not_accepted_ends_with_a_sentence(credentials, why):
    async def scenario():
        async with Federation(federation(), Numbers(), OLD if "expired" in why else AUTHORITY).serve() as found:
            await stranger(found, found.settings, credentials()).run()

    with pytest.raises(PeerError, match=why):
        quickly(scenario())


def test_a_server_of_another_name_is_not_talked_to():
    """A client's own certificate does not make it the coordinator."""

    async def scenario():
        found = Federation(federation(), Numbers(), AUTHORITY)
        server = inside(found.host.server)
        server._about = replace(server._about, credentials=certified(AUTHORITY, "client-4"))
        async with found.serve():
            await stranger(found, found.settings, certified(AUTHORITY, "client-5")).run()

    with pytest.raises(PeerError, match="client-4 is there, not coordinator"):
        quickly(scenario())


@asynccontextmanager
async def coordinator_of(authority: Authority, address: str = "127.0.0.1:0"):
    """One that waits for its clients, however long that takes."""
    found = Federation(federation(), Numbers(), authority)
    found.host._bind = address
    found.frozen = lambda: found.host._over is None
    async with found.serve():
        yield found


def test_a_client_that_has_met_the_coordinator_outlasts_a_stranger_at_its_address():
    async def scenario():
        address, own = f"127.0.0.1:{free_port()}", certified(AUTHORITY, "client-5")
        kept, connected = Kept(), Noted("connected to the coordinator")
        engine = client_5(federation(), address, own, kept, Grpc())
        running = asyncio.create_task(engine.run())
        try:
            async with coordinator_of(AUTHORITY, address):
                await until(lambda: connected in kept.events or running.done())
            async with coordinator_of(Authority.create(), address):
                await until(lambda: inside(engine.connection)._rejected > 2 * connection._REJECTIONS or running.done())
                assert not running.done(), running.exception()
            async with coordinator_of(AUTHORITY, address):
                await until(lambda: kept.events.count(connected) == 2 or running.done())
                assert not running.done(), running.exception()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return [event.text for event in kept.events]

    assert any("was not signed by our authority" in text for text in quickly(scenario()))


def test_a_client_that_never_met_the_coordinator_ends_with_what_is_wrong_with_the_certificate():
    async def scenario():
        async with coordinator_of(Authority.create()) as found:
            engine = stranger(found, found.settings, certified(AUTHORITY, "client-5"))
            with pytest.raises(PeerError, match="certificate that should be coordinator's was not signed by our auth"):
                await engine.run()
            return inside(engine.connection)._rejected

    assert quickly(scenario()) == connection._REJECTIONS  # and not after its patience


# --- bad networks


def same_as_in_memory(found: Federation) -> None:
    engine, _ = run(found.settings, found.task)
    for name, array in engine.coordinator.model.items():
        np.testing.assert_array_equal(found.coordinator.model[name], array)


def through(pump, settings, authority=None) -> tuple[Federation, Proxy]:
    async def scenario():
        found = Federation(settings, Numbers(20_000), authority)
        async with found.serve():
            proxy = Proxy(found.address, pump)
            async with proxy.open() as address:
                for identity in range(settings.clients):
                    found.join(identity, address)
                partings = await found.done()
        assert {parting.status for parting in partings.values()} == {"done"}
        return found, proxy

    return quickly(scenario())


@pytest.mark.parametrize("limit", [20_000, pytest.param(150_000, marks=pytest.mark.slow), 600_000])
def test_connections_that_are_cut_over_and_over_change_nothing(limit):
    passed: dict[int, int] = {}

    async def cutting(index, way, data):
        passed[index] = passed.get(index, 0) + len(data)
        return None if index < 40 and passed[index] > limit else data

    found, proxy = through(cutting, federation(window=10_000, lost_after=300))
    assert found.survivors == [6, 6, 6]
    assert proxy.connections > (6 if limit > 500_000 else 12)
    same_as_in_memory(found)


def test_connections_in_memory_that_are_cut_after_every_frame_change_nothing():
    async def scenario():
        transport = MemoryTransport()
        found = Federation(federation(lost_after=300), Numbers(), transport=transport)
        arrived = found.host.arrived

        async def cutting(name, frame):
            transport.cut(name)
            await arrived(name, frame)

        found.host.arrived = cutting
        async with found.serve():
            for identity in range(6):
                found.join(identity)
            return found, await found.done()

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [6, 6, 6]
    same_as_in_memory(found)
    for guest in found.clients.values():
        said = [event.text for event in guest._sink.events if isinstance(event, Noted)]
        assert said.count("waiting for the coordinator: the connection ended") >= 3 * 4
        assert said.count("connected to the coordinator") == 1  # each time the conversation went on


def test_a_slow_network_changes_nothing():
    async def slow(index, way, data):
        await asyncio.sleep(0.001)
        return data

    found, _ = through(slow, federation(window=10_000, lost_after=300))
    assert found.survivors == [6, 6, 6]
    same_as_in_memory(found)


@pytest.mark.parametrize("change", ["duplicate", "corrupt"])
def test_a_network_that_changes_bytes_is_noticed_under_tls_and_left(change):
    passed: dict[int, int] = {}

    async def changing(index, way, data):
        before = passed.get(index, 0)
        passed[index] = before + len(data)
        if index < 20 and before < 100_000 <= passed[index]:
            return data + data if change == "duplicate" else bytes([data[0] ^ 1]) + data[1:]
        return data

    found, proxy = through(changing, federation(window=10_000), AUTHORITY)
    assert proxy.connections > 12
    assert found.survivors == [6, 6, 6]
    same_as_in_memory(found)


# --- the end


@over_each_transport
def test_a_client_that_leaves_is_not_waited_for(transport):
    """The clock stands: if a window had to close, this would never end."""

    async def scenario():
        found = Federation(federation(rounds=4), Numbers(), transport=transport())
        found.frozen = lambda: not found.serving.done() and found.host._over is None
        async with found.serve():
            reached = asyncio.Event()
            for identity in range(6):
                if identity != 3:
                    found.join(identity)
            leaving = found.client(3)
            halting(leaving, Inbox, reached)
            end = asyncio.create_task(leaving.run(should_stop=reached.is_set))
            await found.done()
            return found, await end

    found, parting = quickly(scenario())
    assert parting.status == "stopped"
    assert found.survivors == [6, 5, 5, 5]


@over_each_transport
def test_a_mistake_in_the_coordinators_task_ends_the_run_with_it(transport):
    """Not with the connection of the client whose message happened to complete the round."""

    class Wrong(Numbers):
        def evaluate(self, model):
            raise ZeroDivisionError("of the task")

    async def scenario():
        found = Federation(federation(), Wrong(), transport=transport())
        async with found.serve():
            for identity in range(6):
                found.join(identity)
            await asyncio.wait([found.serving])
            return found.serving.exception(), await asyncio.gather(*found.running.values())

    error, partings = quickly(scenario())
    assert isinstance(error, ZeroDivisionError)
    assert {parting.status for parting in partings} == {"failed"}


@over_each_transport
def test_a_coordinator_that_is_out_of_memory_is_waited_for(transport):
    class Large(Numbers):
        def evaluate(self, model):
            raise MemoryError

    async def scenario():
        found = Federation(federation(), Large(), transport=transport())
        async with found.serve():
            for identity in range(6):
                found.join(identity)
            await asyncio.wait([found.serving])
            said = [
                [event.text for event in found.told(identity) if isinstance(event, Noted)] for identity in found.clients
            ]
            return found.serving.exception(), [task.done() for task in found.running.values()], said

    error, ended, said = quickly(scenario())
    assert isinstance(error, MemoryError)
    assert ended == 6 * [False]
    words = "waiting for the coordinator to come back: a fault of the coordinator's machine (MemoryError)"
    assert all(words in texts for texts in said)


@over_each_transport
def test_a_client_that_is_out_of_memory_says_that_it_comes_back(transport):
    class Large(Numbers):
        def fit(self, client, model, work):
            if client == 5:
                raise MemoryError
            return super().fit(client, model, work)

    async def scenario():
        found = Federation(federation(rounds=2), Large(), transport=transport())
        sent = []
        async with found.serve():
            for identity in range(6):
                engine = found.join(identity)
            send = engine.connection.send
            engine.connection.send = lambda frame: (sent.append(frame), send(frame))
            await found.serving
            return found, sent, await asyncio.gather(*found.running.values(), return_exceptions=True)

    found, sent, ends = quickly(scenario())
    assert found.survivors == [5, 5]
    assert sent[-1] == encode(Parting("stopped", "it was interrupted"))
    assert isinstance(ends[5], MemoryError)


# --- memory


def test_frames_that_are_begun_take_no_more_than_their_room(monkeypatch):
    """Also not room that is never given back: a frame that begins inside another is refused."""
    monkeypatch.setattr(pace, "_WINDOW", 0.5)

    async def scenario():
        found = Federation(federation("NOT_ENCRYPT", gather=60_000), Numbers(500_000))
        limit = found.star.terms.limits[0]
        server = inside(found.host.server)
        server._about = replace(server._about, network=Network(memory=2 * limit, least_rate=1 << 24))
        found.frozen = lambda: not found.running
        async with found.serve():
            room = server._room
            free = room.free
            tracemalloc.start()
            try:
                for _ in range(2):
                    await asyncio.gather(*(flood(found, identity, limit) for identity in range(5)))
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            await until(lambda: room.free == free)
            for identity in range(6):
                found.join(identity)
            await found.done()
        return found, peak, limit

    async def flood(found, identity, limit):
        async with stream_to(found.address) as stream:
            await greet(stream, hello(found, identity))
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it is over: cut by the server
                await stream.write(first(0, limit, bytes(PIECE_BYTES)))
                for _ in range(limit // PIECE_BYTES - 2):
                    await stream.write(b"C" + bytes(8) + bytes(PIECE_BYTES))
                if identity % 2:
                    await stream.write(first(0, limit, b"x"))
            await ended(stream)

    found, peak, limit = quickly(scenario())
    assert found.survivors == [6, 6, 6]
    assert peak < 5 * limit  # the room is of two, and the other side of these streams lives here as well
