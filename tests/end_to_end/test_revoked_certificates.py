"""A certificate that is taken back is worth nothing anywhere, within seconds, and its name can get another.

Each test plays the adversary that a revocation is meant to stop: a thief who has the private file of a client, or of
the coordinator, and the certificate that the authority once signed for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import grpc
import grpc.aio
import pytest

from tacit.channel import Interrupted
from tacit.errors import PeerError
from tacit.events import AnswerRefused, Kept, Noted
from tacit.net import upkeep
from tacit.net.grpc import connection
from tacit.net.grpc import server as server_module
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.credentials import channel_credentials, channel_options
from tacit.net.grpc.server import METHOD, Server
from tacit.net.handshake import Identities, Proven, Refused, RevokedList, Welcome, as_of_0_2, check_proven, proven
from tacit.net.hub import Hub
from tacit.net.identity import Authority, authority_certificate
from tacit.net.revocation_list import RevocationList, Revoked
from tacit.net.spoke import Spoke
from tacit.net.transport import Conversation
from tacit.secagg.messages import pack_ids
from tacit.wire import decode, encode
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.net.loopback import Federation, certified, over_each_transport, quickly, until
from tests.subprocesses import HANGS

AUTHORITY = Authority.create()
CERTIFICATE = authority_certificate(AUTHORITY.certificate_pem)
EMPTY = AUTHORITY.revoke(RevocationList(), [])
MASKED = {"encrypt_type": "PW_ENCRYPT", "mode": "active"}
CLIENTS = 7  # of which one may be missing


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(connection, "_LONGEST_PAUSE", 0.3)
    monkeypatch.setattr(upkeep, "_LOOK", 0.02)


def after(before, *owners):
    """The next list, with the certificates of these parties."""
    found = [own.identify(own.certificate) for own in owners]
    return AUTHORITY.revoke(before, [Revoked(each.serial, each.fingerprint, EMPTY.date) for each in found])


def federation(transport=None, **keys) -> Federation:
    keys = {"clients": CLIENTS, "rounds": 2, "encrypt": MASKED, "update_model_ratio": 0.6} | keys
    return Federation(settings_for(**keys), Numbers(), AUTHORITY, transport=transport)


def put(path, made: RevocationList) -> None:
    """As an operator copies a file: as a whole, in the place of what is there."""
    new = path.with_suffix(".new")
    new.write_bytes(made.pem)
    os.replace(new, path)


def goes_by(credentials, path, made: RevocationList) -> None:
    """Have a party's local file name a list."""
    put(path, made)
    inside(credentials.revocations).__init__(CERTIFICATE, path)


def said(engine) -> list[str]:
    return [event.text for event in engine._sink.events if isinstance(event, Noted)]


# --- a client


@pytest.mark.slow
@over_each_transport
def test_a_revoked_client_is_refused_and_the_others_do_without_it(transport, tmp_path):
    async def scenario():
        found = federation(transport(), round={"start_fl_job_time_window": 1000})
        goes_by(found.host._credentials, tmp_path / "r.pem", after(EMPTY, found.credentials(1)))
        async with found.serve():
            with pytest.raises(PeerError, match=r"coordinator refused: the certificate of client-1 was revoked on"):
                await found.client(1).run()
            for identity in (0, 2, 3, 4, 5, 6):
                found.join(identity)
            return found, await found.done()

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [6, 6]
    assert not any("client 1" in text for text in said(found.clients[0]))


@pytest.mark.slow
@over_each_transport
def test_the_connection_of_a_client_ends_when_its_certificate_is_revoked(transport, tmp_path):
    """While a round is under way: the file changes, its stream ends, and the round and the next are the others'."""

    async def scenario():
        found = federation(transport(), rounds=2)
        path = tmp_path / "r.pem"
        goes_by(found.host._credentials, path, EMPTY)
        silent, reached = asyncio.Event(), asyncio.Event()
        async with found.serve():
            for identity in range(CLIENTS):
                guest = found.join(identity)
                if identity == 1:
                    answer = guest._answer

                    async def waits(frame, answer=answer):
                        reached.set()
                        await silent.wait()

                    guest._answer = waits
            await reached.wait()
            stolen = found.running.pop(1)
            assert found.host.server.connected("client-1")
            put(path, after(EMPTY, found.credentials(1)))
            await until(lambda: not found.host.server.connected("client-1"))
            silent.set()
            with pytest.raises(PeerError, match=r"refused: the certificate of client-1 was revoked"):
                await stolen
            return found, await found.done()

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors[-1] == 6
    for identity in (0, 2, 3, 4, 5, 6):
        assert any(
            "revocation list 2 of" in text and "used from now on" in text for text in said(found.clients[identity])
        )
    assert any("the certificate of client-1 was revoked" in reason for reason in found.refused().values())


@over_each_transport
def test_a_client_comes_back_with_new_keys_for_its_name(transport, tmp_path):
    """In the same run: the pins of the old keys, at the coordinator and at every client, give way."""

    async def scenario():
        found = federation(transport(), rounds=2)
        path = tmp_path / "r.pem"
        goes_by(found.host._credentials, path, EMPTY)
        gather, first = found.host._gather, asyncio.Event()

        async def at_its_time(should_stop):
            if found.coordinator.attempts == 1 and not first.is_set():
                first.set()
                stolen = found.running.pop(1)
                put(path, after(EMPTY, found.credentials(1)))
                with suppress(PeerError):
                    await stolen
                found.certified[1] = certified(AUTHORITY, "client-1")
                found.join(1)
                await until(lambda: found.host.server.connected("client-1"))
            await gather(should_stop)

        found.host._gather = at_its_time
        async with found.serve():
            for identity in range(CLIENTS):
                found.join(identity)
            return found, await found.done()

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [7, 7], [*found.aborted(), *found.refused().items()]


@pytest.mark.slow
def test_clients_exclude_a_revoked_client_whatever_the_coordinator_shows_them():
    """The coordinator holds the newer list back. A client that has it declines the rounds with that client."""

    async def scenario():
        found = federation(round={"start_fl_job_time_window": 1000})
        knows = found.credentials(0)
        knows.revocations.take(after(EMPTY, found.credentials(1)).data)
        async with found.serve():
            for identity in range(CLIENTS):
                found.join(identity)
            await until(lambda: any(isinstance(event, AnswerRefused) for event in found.told(0)))
            return found, [event.reason for event in found.told(0) if isinstance(event, AnswerRefused)]

    found, reasons = quickly(scenario())
    assert all("the certificate of client-1 was revoked" in reason for reason in reasons)
    assert any(
        "client 1 is left out: the certificate of client-1 was revoked" in text for text in said(found.clients[0])
    )


def test_a_client_that_was_met_is_not_believed_once_it_is_revoked():
    async def scenario():
        found = federation()
        engine, other = found.client(0, "127.0.0.1:1"), certified(AUTHORITY, "client-1")
        engine._meet(Identities(pack_ids([1]), [other.certificate]))
        assert 1 in inside(engine.leaf)._identities
        await engine.arrived(_frame(after(EMPTY, other)))
        assert 1 not in inside(engine.leaf)._identities
        engine._meet(Identities(pack_ids([1]), [other.certificate]))
        assert 1 not in inside(engine.leaf)._identities
        return engine

    engine = quickly(scenario())
    assert any("client 1 is left out: the certificate of client-1 was revoked" in text for text in said(engine))


def _frame(made: RevocationList) -> bytes:
    return encode(RevokedList(made.data))


@pytest.mark.parametrize("forged", ["older", "stranger's", "nonsense"])
def test_a_client_does_not_use_what_is_older_or_not_the_authoritys(forged):
    async def scenario():
        engine, other = federation().client(0, "127.0.0.1:1"), certified(AUTHORITY, "client-1")
        newest = after(EMPTY, other)
        await engine.arrived(_frame(newest))
        stranger = Authority.create()
        worse = {
            "older": EMPTY,
            "stranger's": stranger.revoke(replace(EMPTY, number=10), []),
            "nonsense": replace(EMPTY, data=b"nothing"),
        }[forged]
        await engine.arrived(_frame(worse))
        assert engine._failed is None
        assert engine._credentials.revocations.newest == newest
        return said(engine)[-1]

    assert quickly(scenario()).startswith("the revocation list of the coordinator is not used: ")


def test_a_coordinator_cannot_fill_the_log_with_lists_that_are_not_used():
    async def scenario():
        engine, other = federation().client(0, "127.0.0.1:1"), certified(AUTHORITY, "client-1")
        made = [EMPTY]
        for _ in range(10):
            made.append(AUTHORITY.revoke(made[-1], []))
        await engine.arrived(_frame(after(made[-1], other)))
        before = len(said(engine))
        for each in [*made, *made]:
            await engine.arrived(_frame(each))
        return len(said(engine)) - before

    assert quickly(scenario()) == 3


@pytest.mark.parametrize("waits", ["with its hello", "within its welcome"])
def test_a_client_that_is_about_to_join_when_it_is_revoked_does_not(waits):
    """Its certificate passed the handshake before the list came: it has a stream, and is not one of the parties yet."""
    own, thief = certified(AUTHORITY, "coordinator"), certified(AUTHORITY, "client-1")

    class Slow(Heard):
        async def joined(self, name, hello, certificate, resumed):
            await super().joined(name, hello, certificate, resumed)
            if waits == "within its welcome":
                await go.wait()

    go = asyncio.Event()

    async def scenario():
        heard = Slow()
        async with serving(own, heard) as (made, port), stream_to(port, thief) as stream:
            hello = encode(Conversation("client-1", b"{}", 1000, thief).hello(bytes(16), b"", 0))
            if waits == "with its hello":
                await until(lambda: "client-1" in inside(made)._greeting)
            else:
                await stream.write(hello)
                await until(lambda: heard.joined_as)
            own.revocations.take(after(EMPTY, thief).data)
            ended = made.end_revoked()
            if waits == "with its hello":
                await stream.write(hello)
                refusal = decode(await stream.read(), Refused, 1000).reason
            else:
                assert "client-1" in ended
                assert await stream.read()  # the welcome
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await stream.read()
                assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
                refusal = error.value.details()
            go.set()
            assert not made.connected("client-1")
            return refusal

    assert "the certificate of client-1 was revoked on" in quickly(scenario())


@asynccontextmanager
async def stream_to(port, own):
    """A stream to the coordinator, on which nothing is said by itself."""
    options = channel_options("coordinator")
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", channel_credentials(own), options=options) as channel:
        yield channel.stream_stream(METHOD)()


# --- the coordinator


class Heard:
    """A listener of either side."""

    def __init__(self) -> None:
        self.joined_as: list[str] = []
        self.connections = 0
        self.reasons: list[str] = []
        self.frames: list[bytes] = []

    async def joined(self, name, hello, certificate, resumed):
        self.joined_as.append(name)

    async def connected(self, resumed):
        self.connections += 1

    async def refused(self, name, reason):
        self.reasons.append(reason)

    async def arrived(self, *what):
        self.frames.append(what[-1])

    async def broke(self, name, reason): ...

    async def lost(self, name): ...

    async def waiting(self, reason):
        self.reasons.append(reason)


@asynccontextmanager
async def serving(own, heard):
    made = Server(heard, lambda name: True, Conversation("coordinator", b"{}", 1000, own, sink=Kept()))
    port = await made.start("127.0.0.1:0", 2)
    try:
        yield made, port
    finally:
        await made.stop()


@asynccontextmanager
async def joining(port, own, heard):
    about = Conversation(own.name, b"{}", 1 << 21, own, sink=Kept())
    made = Connection(heard, f"127.0.0.1:{port}", "coordinator", about)
    running = asyncio.create_task(made.run())
    try:
        yield made, running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Thief:
    """Has the private file of the coordinator, and makes of `proven` what it can."""

    def __init__(self, stolen, genuine, how) -> None:
        self.stolen, self.genuine, self.how = stolen, genuine, how

    def __call__(self, own, client, nonce):
        made = proven(self.stolen, client, nonce)
        match self.how:
            case "shows its own":
                return made
            case "shows the new certificate, which is public":
                return Proven(self.genuine.certificate, made.signature)
            case "repeats an old proof of the new coordinator":
                return proven(self.genuine, client, bytes(16))
            case "relays its question as a client that it also is":
                return proven(self.genuine, "client-5", nonce)
        raise AssertionError(self.how)


@pytest.mark.parametrize(
    "how",
    [
        "shows its own",
        "shows the new certificate, which is public",
        "repeats an old proof of the new coordinator",
        "relays its question as a client that it also is",
        "says nothing, as an older release",
    ],
)
def test_a_thief_of_the_coordinators_revoked_keys_is_not_believed(monkeypatch, how):
    """TLS alone would: the certificate is the authority's, and in the coordinator's name (the control)."""
    stolen, genuine = certified(AUTHORITY, "coordinator"), certified(AUTHORITY, "coordinator")

    async def scenario(revoked):
        heard, there = Heard(), Heard()
        own = certified(AUTHORITY, "client-0")
        if revoked:
            own.revocations.take(after(EMPTY, stolen).data)
        async with serving(stolen, heard) as (_, port), joining(port, own, there) as (_, running):
            if not revoked:
                await until(lambda: there.connections)
                return
            with pytest.raises(PeerError) as error:
                await running
            assert there.connections == 0
            return str(error.value)

    quickly(scenario(False))
    if how.startswith("says nothing"):
        monkeypatch.setattr(server_module, "NONCE_BYTES", -1)
    else:
        monkeypatch.setattr(server_module, "proven", Thief(stolen, genuine, how))
    why = quickly(scenario(True))
    assert "revoked" in why or "signature" in why


def test_a_coordinator_with_new_keys_is_believed_by_who_knows_that_the_old_ones_are_revoked():
    stolen, genuine, own = (certified(AUTHORITY, name) for name in ("coordinator", "coordinator", "client-0"))
    own.revocations.take(after(EMPTY, stolen).data)

    async def scenario():
        there = Heard()
        async with serving(genuine, Heard()) as (_, port), joining(port, own, there):
            await until(lambda: there.connections)

    quickly(scenario())


def test_a_client_leaves_a_coordinator_that_is_revoked_and_finds_the_one_that_takes_its_place():
    stolen, genuine, own = (certified(AUTHORITY, name) for name in ("coordinator", "coordinator", "client-0"))

    async def scenario():
        there = Heard()
        async with serving(stolen, Heard()) as (made, port), joining(port, own, there) as (joined, running):
            await until(lambda: there.connections == 1)
            joined.check_server()
            await asyncio.sleep(0.05)
            assert made.connected("client-0")  # the control: nothing is revoked
            own.revocations.take(after(EMPTY, stolen).data)
            joined.check_server()
            await until(lambda: len(there.reasons) > connection._REJECTIONS)
            assert there.connections == 1
            assert not running.done()  # once met, a stranger there may pass
            await made.stop()
            heard = Heard()
            again = Server(heard, lambda name: True, Conversation("coordinator", b"{}", 1000, genuine, sink=Kept()))
            await again.start(f"127.0.0.1:{port}", 2)
            await until(lambda: there.connections == 2)
            await again.stop()
        return there.reasons

    reasons = quickly(scenario())
    assert any("the certificate of coordinator was revoked on" in reason for reason in reasons)


def test_a_client_leaves_a_coordinator_that_proved_nothing_once_anything_is_revoked(monkeypatch):
    """It may be the one that is revoked: it poses as one of an older release, while nothing is."""
    stolen, own = certified(AUTHORITY, "coordinator"), certified(AUTHORITY, "client-0")
    monkeypatch.setattr(server_module, "NONCE_BYTES", -1)

    async def scenario():
        there = Heard()
        async with serving(stolen, Heard()) as (_, port), joining(port, own, there) as (joined, _):
            await until(lambda: there.connections == 1)
            own.revocations.take(EMPTY.data)
            joined.check_server()
            await asyncio.sleep(0.05)
            assert not there.reasons  # the control: nothing is revoked
            own.revocations.take(after(EMPTY, stolen).data)
            joined.check_server()
            await until(lambda: len(there.reasons) > 1)
            assert there.connections == 1
        return there.reasons

    assert all("does not prove that its certificate is not revoked" in each for each in quickly(scenario()))


def test_a_proof_is_for_one_client_and_one_nonce():
    server, own = certified(AUTHORITY, "coordinator"), certified(AUTHORITY, "client-0")
    nonce = os.urandom(16)
    made = proven(server, "client-0", nonce)
    assert check_proven(made, own, "coordinator", "client-0", nonce).fingerprint
    for client, other in (("client-1", nonce), ("client-0", os.urandom(16))):
        with pytest.raises(PeerError):
            check_proven(made, own, "coordinator", client, other)
    with pytest.raises(PeerError, match="the certificate is of coordinator, not of client-0"):
        check_proven(made, own, "client-0", "client-0", nonce)
    assert check_proven(None, own, "coordinator", "client-0", nonce) is None  # an older release, and nothing is revoked


# --- an older release on either side


def test_a_client_of_an_older_release_hears_nothing_that_it_does_not_know(monkeypatch, tmp_path):
    """It brings no nonce. The first frame is its welcome, and no list is ever sent to it."""
    own = certified(AUTHORITY, "client-0")
    monkeypatch.setattr(connection, "NONCE_BYTES", 0)

    async def scenario():
        found = federation(clients=2, rounds=1, encrypt={"encrypt_type": "NOT_ENCRYPT"})
        goes_by(found.host._credentials, tmp_path / "r.pem", EMPTY)
        async with found.serve():
            there = Heard()
            async with joining(found.host.port, own, there) as (joined, _):
                answers = []
                answer = joined._answer

                async def recorded(stream, nonce):
                    assert nonce == b""
                    read = stream.read

                    async def reading():
                        answers.append(await read())
                        return answers[-1]

                    stream.read = reading
                    return await answer(stream, nonce)

                joined._older = True
                joined._about = replace(joined._about, shared=found.star.terms.shared)
                joined._answer = recorded
                await until(lambda: there.connections)
                assert "revocation" not in found.host.server.peers["client-0"].knows
                put(tmp_path / "r.pem", AUTHORITY.revoke(EMPTY, []))
                await until(lambda: found.host._credentials.revocations.newest.number == 2)
                await asyncio.sleep(0.1)
                return answers[0], there.frames

    welcome, frames = quickly(scenario())
    assert welcome[1:3] == as_of_0_2(Welcome(bytes(16), 0, False))[1:3]
    assert frames == []


# --- parties in lock step


@over_each_transport
def test_a_party_in_lock_step_is_cut_off_and_comes_back_with_new_keys(transport, tmp_path):
    path, met, kept = tmp_path / "r.pem", [], Kept()
    own = {name: certified(AUTHORITY, name) for name in "abc"}
    goes_by(own["a"], path, EMPTY)
    over = transport()
    revoked = threading.Event()
    with Hub("a", ["b", "c"], "127.0.0.1:0", credentials=own["a"], patience=HANGS, sink=kept, transport=over) as hub:

        def live(name, other, credentials):
            spoke = Spoke(
                name, "a", [other], f"127.0.0.1:{hub.port}", credentials=credentials, patience=HANGS, transport=over
            )
            try:
                with spoke:
                    try:
                        channels = spoke.meet()
                        channels["a"].send(RevokedList(b""))  # any message
                        channels["a"].recv(RevokedList)
                    except Interrupted as error:
                        met.append(str(error))
                        met.append(f"{name} again {sorted(spoke.meet())}")
                        revoked.wait(HANGS)
            except PeerError as error:
                met.append(f"{name} ended: {error}")

        threads = [threading.Thread(target=live, args=case) for case in (("b", "c", own["b"]), ("c", "b", own["c"]))]
        for thread in threads:
            thread.start()
        channels = hub.meet()
        for channel in channels.values():
            channel.recv(RevokedList)
        put(path, after(EMPTY, own["c"]))
        with pytest.raises(Interrupted, match="c: the certificate of c was revoked on"):
            channels["b"].recv(RevokedList)
        new = threading.Thread(target=live, args=("c", "b", certified(AUTHORITY, "c")))
        new.start()
        hub.meet()
        while not any("again" in each for each in met):
            time.sleep(0.01)
        revoked.set()
        hub.fail("that is enough")
        for thread in [*threads, new]:
            thread.join(HANGS)
    assert "b again ['a', 'c']" in met
    assert any(each.startswith("c: the certificate of c was revoked") for each in met)
    assert any(each.startswith("c ended: ") and "revoked" in each for each in met)


def test_a_spoke_refuses_a_revoked_party_that_the_hub_introduces():
    own, other = certified(AUTHORITY, "b"), certified(AUTHORITY, "c")
    spoke = Spoke("b", "a", ["c"], "127.0.0.1:1", credentials=own)
    assert spoke._whose("c")(other.certificate)[0] == "c"
    own.revocations.take(after(EMPTY, other).data)
    with pytest.raises(PeerError, match="the certificate of c was revoked"):
        spoke._whose("c")(other.certificate)
