"""Who may wait at the door of the party that listens: silent, slow and too many connections cost parties nothing."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import Kept, Noted, PortWatched
from tacit.net.grpc import descriptors, watch
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.credentials import channel_credentials, channel_options
from tacit.net.grpc.front import Front
from tacit.net.grpc.guests import Bounds, Guest, Guests, Way
from tacit.net.grpc.server import METHOD, OPTIONS, Server
from tacit.net.handshake import Hello, Refused
from tacit.net.identity import Authority
from tacit.net.link import PIECE_BYTES
from tacit.net.neighbourhood import neighbourhood
from tacit.net.transport import Conversation
from tacit.sections import Network
from tacit.wire import decode, encode
from tests.net.loopback import certified, quickly

AUTHORITY = Authority.create()


class Echo:
    """A server's listener and a connection's: frames come back."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.connection: Connection | None = None
        self.arrivals: list[bytes] = []
        self.there = False

    async def joined(self, name, hello, certificate, resumed): ...

    async def broke(self, name, reason): ...

    async def lost(self, name): ...

    async def connected(self, resumed):
        self.there = True

    async def waiting(self, reason): ...

    async def arrived(self, *what):
        if self.server is not None:
            self.server.send(what[0], what[1])
        else:
            self.arrivals.append(what[0])


@asynccontextmanager
async def serving(secure=False, parties=4, **network):
    """A server whose connections number `network` bounds, and what it told."""
    listener, kept = Echo(), Kept()
    own = certified(AUTHORITY, "coordinator") if secure else None
    names = [f"client-{i}" for i in range(parties)]
    about = Conversation("coordinator", b"{}", 1000, own, network=Network(**network), sink=kept)
    listener.server = Server(listener, names.__contains__, about)
    port = await listener.server.start("127.0.0.1:0", parties)
    try:
        yield listener.server, port, kept
    finally:
        await listener.server.stop()


@asynccontextmanager
async def party(port, name="client-0", secure=False):
    """A party that asks and is answered."""
    listener = Echo()
    own = certified(AUTHORITY, name) if secure else None
    connection = Connection(listener, f"127.0.0.1:{port}", "coordinator", Conversation(name, b"{}", 1000, own))
    running = asyncio.create_task(connection.run())

    async def ask(text):
        await until(lambda: listener.there)
        connection.send(text)
        await until(lambda: text in listener.arrivals)

    try:
        yield ask
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def knock(stack, port, count, said=b"", source="127.0.0.1"):
    """Connections that say no more than that."""
    found = []
    for _ in range(count):
        each = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10, (source, 0)))
        if said:
            with suppress(OSError):
                each.sendall(said)
        each.setblocking(False)
        found.append(each)
    return found


def is_cut(each) -> bool:
    try:
        return each.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a hello"])
def test_an_address_has_so_many_connections_without_a_party_and_parties_come_and_speak(secure, said):
    async def scenario():
        async with serving(secure, unauthenticated=4, handshake=200) as (server, port, _):
            with ExitStack() as stack:
                async with party(port, "client-0", secure) as ask:
                    await ask(b"before")
                    strangers = knock(stack, port, 30, said)
                    await until(lambda: sum(map(is_cut, strangers)) >= 26 or server._watch.handshakes_failed >= 26)
                    await ask(b"during")
                    async with party(port, "client-1", secure) as other:
                        await other(b"new")
                        return server._watch.unauthenticated, dict(server._watch.refused)

    unauthenticated, refused = quickly(scenario())
    assert unauthenticated <= 4
    if secure or not said:
        assert refused["address"] >= 26
    assert refused["connections"] == 0


def test_over_the_limit_of_all_connections_the_address_with_most_strangers_pays():
    async def scenario():
        async with serving(connections=20, unauthenticated=100, handshake=200) as (server, port, _):
            with ExitStack() as stack:
                async with party(port) as ask:
                    await ask(b"before")
                    few = knock(stack, port, 3, source="127.0.0.3")
                    many = knock(stack, port, 60, source="127.0.0.2")
                    await until(lambda: server._watch.refused["connections"] >= 44)
                    await ask(b"during")
                    return server._watch.open, sum(map(is_cut, few)), sum(map(is_cut, many))

    held, few, many = quickly(scenario())
    assert held == 20
    assert few == 0
    assert many == 44


def test_silent_connections_and_slow_hellos_are_cut_in_time():
    """A client's preface, and then a byte now and then: it is the hello that counts, not that something comes."""

    async def scenario():
        async with serving(handshake=0.5) as (server, port, _):
            with ExitStack() as stack:
                async with party(port) as ask:
                    silent = knock(stack, port, 3)
                    slow = knock(stack, port, 3, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                    while not all(map(is_cut, silent + slow)):
                        for each in slow:
                            with suppress(OSError):
                                each.send(b"\0")
                        await asyncio.sleep(0.02)
                    await asyncio.sleep(1.0)
                    await ask(b"the party is still there")
                    return dict(server._watch.refused), server._watch.open

    refused, held = quickly(scenario())
    assert refused["time"] >= 3
    assert held == 1


def test_who_speaks_no_tls_does_not_meet_grpc():
    async def scenario():
        async with serving(True) as (server, port, _):
            with ExitStack() as stack:
                (each,) = knock(stack, port, 1, b"GET / HTTP/1.1\r\n\r\n")
                await until(lambda: is_cut(each))
                return dict(server._watch.refused)

    assert quickly(scenario())["no TLS"] == 1


def test_a_connection_whose_party_has_left_is_a_strangers_again():
    async def scenario():
        async with (
            serving(handshake=1.0) as (server, port, _),
            grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel,
        ):
            stream = channel.stream_stream(METHOD)()
            await stream.write(encode(Hello("client-0", bytes(16), b"", 0, b"{}", b"")))
            await stream.read()
            assert (server._watch.open, server._watch.unauthenticated) == (1, 0)
            stream.cancel()
            await until(lambda: server._watch.unauthenticated == 1)
            await until(lambda: server._watch.open == 0)
            return dict(server._watch.refused), server._watch.handshakes_failed

    refused, failed = quickly(scenario())
    assert refused["time"] == 1
    assert failed == 0


def test_what_is_refused_is_told_together_and_without_anybodys_control_characters(monkeypatch):
    monkeypatch.setattr(watch, "_SOON", 0.01)

    async def scenario():
        async with serving(True, unauthenticated=2, handshake=200) as (server, port, kept):
            own = certified(AUTHORITY, "client-0")
            with ExitStack() as stack:
                knock(stack, port, 50)
                await until(lambda: server._watch.refused["address"] >= 48)
                options = [*OPTIONS, *channel_options("coordinator")]
                address = f"127.0.0.1:{port}"
                async with grpc.aio.secure_channel(address, channel_credentials(own), options=options) as channel:
                    stream = channel.stream_stream(METHOD)()
                    await stream.write(encode(Hello("a\nb\x1b[31m", bytes(16), b"", 0, b"{}", b"")))
                    answer = decode(await stream.read(), Refused, PIECE_BYTES)
                assert "claims to be" in answer.reason
        return [event for event in kept.events if isinstance(event, PortWatched)]

    events = quickly(scenario())
    assert 1 <= len(events) <= 4
    last = events[-1]
    assert last.refused["address"] >= 48
    assert last.hellos_refused == 1
    assert "network.unauthenticated" in events[0].text
    assert last.handshakes_failed == 0
    assert any("claims to be" in event.text for event in events)
    assert all(character.isprintable() for event in events for character in event.text)


# --- descriptors

EXHAUSTED = """
import asyncio, json, os, resource, socket
from tests.net.grpc.test_front import party, serving, until

async def scenario():
    async with serving(handshake=200, unauthenticated=1000) as (server, port, kept):
        async with party(port) as ask:
            await ask(b"before")
            waiting = [socket.socket() for _ in range(60)]
            for each in waiting:
                each.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 4, hard))
            for each in waiting:
                each.connect_ex(("127.0.0.1", port))
            await until(lambda: server._watch.refused["descriptors"] > 0)
            await ask(b"during")
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            async with party(port, "client-1") as other:
                await other(b"after")
            print(json.dumps(dict(server._watch.refused)))

asyncio.run(asyncio.wait_for(scenario(), 300))
"""


def test_without_descriptors_nobody_is_accepted_and_parties_go_on():
    done = subprocess.run([sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["descriptors"] > 0


@pytest.fixture
def limits(monkeypatch):
    """The limits of a process that has ten files open."""
    state = {"limits": (1024, 4096)}
    monkeypatch.setattr(descriptors, "_in_use", lambda: 10)
    monkeypatch.setattr(resource, "getrlimit", lambda which: state["limits"])
    monkeypatch.setattr(resource, "setrlimit", lambda which, new: state.update(limits=new))
    return state


def test_the_limit_of_descriptors_is_raised_as_far_as_needed(limits):
    assert descriptors.provide(100, None, 64) == (456, "")
    assert limits["limits"] == (10 + 128 + 3 * 456, 4096)
    assert descriptors.provide(4, None, 64) == (264, "")
    assert limits["limits"] == (10 + 128 + 3 * 456, 4096)  # never lowered


def test_a_hard_limit_that_is_low_leaves_fewer_strangers_or_is_an_error_that_says_what_to_raise(limits):
    found, note = descriptors.provide(1000, None, 64)
    assert found == (4096 - 138) // 3
    assert "raise the limit of open files to 6906" in note
    with pytest.raises(ValueError, match=r"2000 parties need 6186 file descriptors here and the limit is 4096: raise"):
        descriptors.provide(2000, None, 64)
    with pytest.raises(ValueError, match=r"network\.connections is 10, and 4 parties connect: give 20 or more"):
        descriptors.provide(4, 10, 64)


def test_a_low_limit_is_said_at_the_start(monkeypatch):
    monkeypatch.setattr(descriptors, "provide", lambda *asked: (20, "raise it"))

    async def scenario():
        async with serving() as (_, _, kept):
            return kept.events

    assert Noted("raise it") in quickly(scenario())


# --- who has to go


@given(
    st.lists(
        st.tuples(st.sampled_from(["come", "come", "come", "speak", "join", "leave", "go"]), st.integers(0, 200)),
        max_size=150,
    )
)
def test_no_partys_connection_goes_for_a_strangers_and_the_silent_go_first(actions):
    guests, bounds = Guests(Bounds(12, 3, 1.0)), Bounds(12, 3, 1.0)
    parties: set[int] = set()
    for number, (action, which) in enumerate(actions):
        there = list(guests.all.values())
        one = there[which % len(there)] if there else None
        match action:
            case "come":
                guest = Guest(number, None, f"10.0.0.{which % 9}", 0.0)
                before = [g for g in there if g.address == guest.address and g.number not in parties]
                gone = guests.add(guest)
                if gone is None:
                    assert len(guests.all) <= bounds.connections
                    continue
                victim, reason = gone
                assert victim.number not in parties
                assert (reason == "address") == (len(before) >= bounds.unauthenticated)
                if reason == "address":
                    assert victim.address == guest.address
                rivals = [g for g in there if g.address == victim.address and g.number not in parties]
                if any(g.up is None for g in rivals) and victim is not guest:
                    assert victim is min((g for g in rivals if g.up is None), key=lambda g: g.number)
                assert guests.remove(victim)
            case "speak" if one is not None:
                one.up = Way(None, None)
            case "join" if one is not None and one.number not in parties:
                parties.add(one.number)
                guests.know(one)
            case "leave" if one is not None and one.number in parties:
                parties.discard(one.number)
                guests.estrange(one)
            case "go" if one is not None:
                parties.discard(one.number)
                assert guests.remove(one)
                assert not guests.remove(one)
        strangers = {guest.number for guest in guests.strangers()}
        assert strangers == guests.all.keys() - parties
        assert guests.unauthenticated == len(strangers)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_a_network_of_64_bits_is_one_address(host, counted):
    assert neighbourhood(host) == counted


def test_the_folder_of_a_party_that_was_killed_is_removed_by_the_next_one(monkeypatch):
    with tempfile.TemporaryDirectory() as above, socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.setattr(tempfile, "tempdir", above)  # a short name: that of a Unix socket is limited
        alive, dead, other = (Path(above, f"tacit-port-{name}") for name in ("alive", "dead", "other"))
        for folder in (alive, dead, other):
            folder.mkdir()
        listening.bind(str(alive / "grpc"))
        listening.listen()
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(dead / "grpc"))
        front = Front(False, watch.Watch(None))
        front.listen("127.0.0.1:0")
        assert set(Path(above).iterdir()) == {alive, other, Path(front.target).parent}
        asyncio.run(front.close())
        assert set(Path(above).iterdir()) == {alive, other}
