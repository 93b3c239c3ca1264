"""Parties as functions over real connections on loopback, with and without certificates."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from tacit.channel import Interrupted, Recorder
from tacit.crypto.agreement import KeyPair
from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, PeerAway, PeerError
from tacit.events import Kept
from tacit.net import hub as hub_module
from tacit.net import spoke as spoke_module
from tacit.net.ends import Away, Envelope, Left, Over
from tacit.net.hub import Hub
from tacit.net.identity import Authority, Credentials, identity_of, request
from tacit.net.relay import federation, introduce, meet
from tacit.net.spoke import Spoke
from tacit.wire import Message, decode, encode
from tests.net.loopback import over_each_transport
from tests.subprocesses import HANGS, free_port, kill, launch, until

AUTHORITY = Authority.create()
PATIENCE = HANGS


class Number(Message, frozen=True, tag=90):
    value: int


class Bulk(Message, frozen=True, tag=91):
    body: bytes


def credentials_of(name, authority=AUTHORITY):
    private, asked = request(name)
    return Credentials.of(private, authority.sign(asked), authority.certificate_pem)


CREDENTIALS = {name: credentials_of(name) for name in ("a", "b", "c")}


class Federation:
    """A hub `a` and spokes, each in a thread; what each returned or raised."""

    def __init__(self, secure, hub=Hub, patience=PATIENCE, **options):
        self.results, self.errors = {}, {}
        self._secure, self._hub, self._options = secure, hub, {"patience": patience, **options}
        self._threads = []
        self.parties = {}

    def own(self, name):
        return CREDENTIALS[name] if self._secure else None

    def run(self, **functions):
        spokes = [name for name in functions if name != "a"]
        hub = self._hub("a", spokes, "127.0.0.1:0", credentials=self.own("a"), **self._options)
        self.parties["a"] = hub
        listening = threading.Event()
        self._live("a", hub, functions["a"], listening)
        assert listening.wait(HANGS)
        for name in spokes:
            others = [other for other in spokes if other != name]
            address = f"127.0.0.1:{hub.port}"
            spoke = Spoke(name, "a", others, address, credentials=self.own(name), **self._options)
            self.parties[name] = spoke
            self._live(name, spoke, functions[name], threading.Event())
        for thread in self._threads:
            thread.join(HANGS)
            assert not thread.is_alive(), f"{thread.name} hangs"
        return self

    def _live(self, name, end, function, listening):
        def live():
            try:
                with end:
                    listening.set()
                    self.results[name] = function(end.meet())
            except BaseException as error:
                self.errors[name] = error
            finally:
                listening.set()

        thread = threading.Thread(target=live, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


@pytest.fixture(params=[False, True], ids=["bare", "tls"])
def secure(request):
    return request.param


@over_each_transport
def test_three_parties_speak_to_each_other_and_some_through_the_hub(transport, secure):
    def a(channels):
        recorder = Recorder(channels["b"])
        recorder.send(Number(1))
        assert recorder.recv(Number) == Number(2)
        assert recorder.seen == [Number(2)]
        return channels["c"].recv(Number).value

    def b(channels):
        value = channels["a"].recv(Number).value
        channels["a"].send(Number(value + 1))
        channels["c"].send(Number(10))
        return channels["c"].recv(Number).value

    def c(channels):
        value = channels["b"].recv(Number).value
        channels["b"].send(Number(value + 1))
        channels["a"].send(Number(value + 2))
        return value

    federation = Federation(secure, transport=transport()).run(a=a, b=b, c=c)
    assert not federation.errors
    assert federation.results == {"a": 12, "b": 11, "c": 10}


class Curious(Hub):
    """A hub that keeps what it gets."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.frames = []

    async def arrived(self, name, frame):
        self.frames.append(bytes(frame))
        await super().arrived(name, frame)


@over_each_transport
def test_the_hub_sees_no_plaintext_of_what_it_relays(transport, secure):
    secret = b"the secret of b, which is long enough to be found"

    def b(channels):
        channels["a"].send(Bulk(b"open" * 8))
        channels["c"].send(Bulk(secret))

    federation = Federation(secure, transport=transport(), hub=Curious).run(
        a=lambda channels: channels["b"].recv(Bulk).body, b=b, c=lambda channels: channels["b"].recv(Bulk).body
    )
    assert federation.results["c"] == secret
    assert federation.results["a"] == b"open" * 8
    frames = federation.parties["a"].frames
    assert any(b"open" * 8 in frame for frame in frames)  # the control: this is where it would be seen
    assert not any(secret in frame or secret[4:20] in frame for frame in frames)


def meddling(change):
    """A hub that does something to the second message that it relays."""

    class Meddler(Hub):
        kept: list[bytes]

        async def relay(self, sender, receiver, frame):
            self.kept = [*getattr(self, "kept", []), frame]
            for passed in change(self.kept):
                await super().relay(sender, receiver, passed)

    return Meddler


def flipped(frame):
    envelope = decode(frame, Envelope, 1 << 20)
    body = bytearray(envelope.body)
    body[-1] ^= 1
    return encode(Envelope(envelope.sender, envelope.receiver, bytes(body)))


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: [flipped(kept[1])] if len(kept) == 2 else kept[-1:],
        lambda kept: [kept[0]] if len(kept) == 2 else kept[-1:],
        lambda kept: [] if len(kept) == 2 else kept[-1:],
        lambda kept: {1: [kept[0]], 2: [], 3: [kept[-1], *kept[1:2]]}.get(len(kept), kept[-1:]),
    ],
    ids=["alters", "repeats", "drops", "reorders"],
)
def test_a_hub_that_meddles_is_noticed(change):
    def b(channels):
        for value in range(3):
            channels["c"].send(Number(value))
        channels["a"].recv(Number)

    def c(channels):
        assert channels["b"].recv(Number) == Number(0)
        for _ in range(2):
            with pytest.raises(PeerError, match="message 2 of b was altered, repeated, left out"):
                channels["b"].recv(Number)
        channels["a"].send(Number(0))

    def a(channels):
        channels["c"].recv(Number)
        channels["b"].send(Number(0))

    federation = Federation(True, hub=meddling(change)).run(a=a, b=b, c=c)
    assert not federation.errors


def test_a_message_that_the_hub_holds_back_for_good_is_missed():
    def c(channels):
        with pytest.raises(PeerError, match=r"waited 0.3 s for a Number of b"):
            channels["b"].recv(Number, patience=0.3)

    federation = Federation(True, hub=meddling(lambda kept: [])).run(
        a=lambda channels: None, b=lambda channels: channels["c"].send(Number(1)), c=c
    )
    # The hub also says that b left, which it may say first.
    assert "b" not in federation.errors
    assert all("b left" in str(error) for error in federation.errors.values())


def test_a_large_message_passes_directly_and_through_the_hub(secure):
    body = os.urandom(20_000_000)

    def b(channels):
        channels["a"].send(Bulk(body))
        channels["c"].send(Bulk(body))

    federation = Federation(secure, limit=21_000_000).run(
        a=lambda channels: channels["b"].recv(Bulk).body == body,
        b=b,
        c=lambda channels: channels["b"].recv(Bulk).body == body,
    )
    assert not federation.errors
    assert federation.results == {"a": True, "b": None, "c": True}


@over_each_transport
def test_more_than_fits_the_window_arrives_in_order(transport, monkeypatch):
    for module in (hub_module, spoke_module):
        monkeypatch.setattr(module, "WINDOW", 10_000)

    def b(channels):
        for value in range(40):
            channels["c"].send(Bulk(bytes([value]) * 3000))

    federation = Federation(False, transport=transport()).run(
        a=lambda channels: None,
        b=b,
        c=lambda channels: [channels["b"].recv(Bulk).body[0] for _ in range(40)],
    )
    assert not federation.errors
    assert federation.results["c"] == list(range(40))


def test_an_own_message_above_the_limit_is_refused():
    def b(channels):
        with pytest.raises(ValueError, match="at most 1000 are allowed"):
            channels["a"].send(Bulk(bytes(1001)))

    federation = Federation(False, limit=1000).run(a=lambda channels: None, b=b)
    assert not federation.errors


def test_another_kind_than_the_expected_one_is_the_peers_fault(secure):
    def b(channels):
        with pytest.raises(PeerError, match="a sent no Bulk"):
            channels["a"].recv(Bulk)

    federation = Federation(secure).run(a=lambda channels: channels["b"].send(Number(1)), b=b)
    assert not federation.errors


@pytest.mark.parametrize("failing", ["a", "b"])
@over_each_transport
def test_who_fails_ends_the_others_wherever_they_wait(transport, failing):
    def fails(channels):
        raise BudgetError("a secret")

    def waits(name):
        return lambda channels: channels[next(other for other in "cab" if other not in (name, failing))].recv(Number)

    federation = Federation(True, transport=transport()).run(**{n: fails if n == failing else waits(n) for n in "abc"})
    assert isinstance(federation.errors.pop(failing), BudgetError)
    assert {type(error) for error in federation.errors.values()} == {PeerError}
    told = " ".join(map(str, federation.errors.values()))
    assert f"{failing}: it failed (BudgetError)" in told
    assert "secret" not in told
    assert len(federation.errors) == 2


@over_each_transport
def test_a_reason_is_told(transport):
    stopped = threading.Event()

    def a(channels):
        played.parties["a"].fail("the columns\n differ")
        stopped.set()

    played = Federation(False, transport=transport())
    played.run(a=a, b=lambda channels: channels["a"].recv(Number))
    assert stopped.is_set()
    assert str(played.errors["b"]) == "a: the columns  differ"


@over_each_transport
def test_who_is_done_or_closes_a_channel_has_left(transport):
    def b(channels):
        channels["c"].close()
        with pytest.raises(ValueError, match="closed"):
            channels["c"].send(Number(1))
        channels["a"].send(Number(1))

    def c(channels):
        with pytest.raises(PeerError, match=r"b: it left|b left"):
            channels["b"].recv(Number)

    def a(channels):
        channels["b"].recv(Number)
        with pytest.raises(PeerError, match="b left"):
            channels["b"].recv(Number)

    assert not Federation(False, transport=transport()).run(a=a, b=b, c=c).errors


@over_each_transport
def test_the_hub_stays_for_others_that_are_not_done(transport):
    def b(channels):
        with pytest.raises(PeerError, match="a left"):
            channels["a"].recv(Number)
        for value in range(20):
            channels["c"].send(Number(value))

    federation = Federation(True, transport=transport()).run(
        a=lambda channels: None,
        b=b,
        c=lambda channels: [channels["b"].recv(Number).value for _ in range(20)],
    )
    assert not federation.errors
    assert federation.results["c"] == list(range(20))


# --- who comes, who does not, and who vanishes


@contextmanager
def hub_alone(parties, patience=PATIENCE, **options):
    with Hub("a", parties, "127.0.0.1:0", patience=patience, **options) as hub:
        yield hub


def test_a_hub_says_for_whom_it_waits():
    kept = Kept()
    with pytest.raises(PeerError, match=r"waited 0.2 s for b, c"), hub_alone(["b", "c"], sink=kept) as hub:
        hub.meet(0.2)
    assert [event.text for event in kept.events] == ["waiting for b, c"]


def test_a_spoke_says_for_whom_it_waits():
    kept = Kept()
    with hub_alone(["b", "c"]) as hub:
        spoke = Spoke("b", "a", ["c"], f"127.0.0.1:{hub.port}", sink=kept)
        with pytest.raises(PeerError, match=r"waited 0.5 s for a"), spoke:
            spoke.meet(0.5)
    assert kept.events[0].text.startswith("waiting for a")
    spoke = Spoke("b", "a", [], "127.0.0.1:1")
    with spoke:
        until(lambda: spoke._trouble)
        with pytest.raises(PeerError, match=r"waited 0.5 s for a: 127.0.0.1:1 does not answer"):
            spoke.meet(0.5)


@over_each_transport
def test_a_party_that_is_not_expected_is_refused(transport, secure):
    over = transport()
    own = CREDENTIALS if secure else {"a": None, "c": None}
    with hub_alone(["b"], credentials=own["a"], transport=over) as hub:
        spoke = Spoke("c", "a", [], f"127.0.0.1:{hub.port}", credentials=own["c"], patience=PATIENCE, transport=over)
        with pytest.raises(PeerError, match="c is not a party"), spoke:
            spoke.meet()


@over_each_transport
def test_parties_with_other_settings_do_not_meet(transport):
    over = transport()
    with hub_alone(["b"], shared=b'{"rows":3}', transport=over) as hub:
        spoke = Spoke("b", "a", [], f"127.0.0.1:{hub.port}", shared=b'{"rows":4}', patience=PATIENCE, transport=over)
        with pytest.raises(PeerError, match="the files differ: rows"), spoke:
            spoke.meet()


def test_no_certificates_no_other_machines():
    with pytest.raises(ValueError, match="without certificates"):
        Hub("a", ["b"], "0.0.0.0:0")
    with pytest.raises(ValueError, match="without certificates"):
        Spoke("b", "a", [], "example.org:7000")
    with pytest.raises(ValueError, match="a name of its own"):
        Hub("a", ["a"], "127.0.0.1:0")


CHILD = """
import sys
from tacit.channel import Failed
from tacit.net.spoke import Spoke
with Spoke("b", "a", ["c"], sys.argv[1]) as spoke:
    channels = spoke.meet()
    print("met", flush=True)
    sys.stdin.read()
"""


@contextmanager
def child(port):
    process = launch([sys.executable, "-c", CHILD, f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        kill(process)


def test_a_party_that_is_killed_is_waited_for_and_named(monkeypatch):
    monkeypatch.setattr(hub_module, "_AWAY", 0.5)
    kept = {"a": Kept(), "c": Kept()}
    seen = {}

    def c(port, met):
        try:
            options = {"patience": PATIENCE, "lost_after": 0.1, "sink": kept["c"]}
            with Spoke("c", "a", ["b"], f"127.0.0.1:{port}", **options) as spoke:
                channels = spoke.meet()
                met.set()
                channels["b"].recv(Number, patience=4)  # type: ignore[call-arg]
        except PeerError as error:
            seen["c"] = error

    options = {"patience": PATIENCE, "lost_after": 0.1, "sink": kept["a"]}
    with Hub("a", ["b", "c"], "127.0.0.1:0", **options) as hub, child(hub.port) as process:
        met = threading.Event()
        thread = threading.Thread(target=c, args=(hub.port, met), daemon=True)
        thread.start()
        channels = hub.meet()
        assert process.stdout.readline() == b"met\n"
        assert met.wait(HANGS)
        kill(process)
        with pytest.raises(PeerAway, match=r"waited 3 s for a Number of b, whose connection broke|c: it was"):
            channels["b"].recv(Number, patience=3)  # type: ignore[call-arg]
        thread.join(HANGS)
    assert isinstance(seen["c"], PeerAway)
    for events in kept.values():
        assert any("waiting for b, whose connection broke" in event.text for event in events.events)


def met_again(hub, others, *messages):
    """Have a hub and two spokes meet, each in a thread, and say a number to each other; what b heard of c."""
    heard = {}

    def live(name, ends):
        channels = ends.meet()
        for other in sorted(channels):
            channels[other].send(Number(ord(name)))
        heard[name] = [channels[other].recv(Number).value for other in sorted(channels)]

    threads = [threading.Thread(target=live, args=(end.name, end), daemon=True) for end in (hub, *others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert heard == {"a": [98, 99], "b": [97, 99], "c": [97, 98]}


def test_parties_meet_again_once_one_was_started_again():
    with Hub("a", ["b", "c"], "127.0.0.1:0", patience=PATIENCE) as hub, child(hub.port) as process:
        address = f"127.0.0.1:{hub.port}"
        with Spoke("c", "a", ["b"], address, patience=PATIENCE) as other:
            channels = hub.meet()
            others = other.meet()
            assert process.stdout.readline() == b"met\n"
            others["b"].send(Number(7))  # of a conversation that is over, and must not reach the next one
            channels["c"].send(Number(7))
            kill(process)
            with Spoke("b", "a", ["c"], address, patience=PATIENCE) as again:
                with pytest.raises(Interrupted, match="b: it was started again"):
                    channels["b"].recv(Number)
                assert others["a"].recv(Number) == Number(7)
                with pytest.raises(Interrupted, match="b: it was started again"):
                    others["a"].recv(Number)
                for old in (channels["c"], others["a"]):
                    with pytest.raises(Interrupted):
                        old.send(Number(8))
                met_again(hub, [again, other])


@pytest.mark.parametrize("leaves", [lambda ends: ends.pause("it was stopped"), None], ids=["stopped", "killed"])
@over_each_transport
def test_parties_meet_again_once_the_hub_was_started_again(transport, leaves):
    over = transport()
    address = f"127.0.0.1:{free_port()}"
    with (
        Spoke("b", "a", ["c"], address, patience=PATIENCE, transport=over) as b,
        Spoke("c", "a", ["b"], address, patience=PATIENCE, transport=over) as c,
    ):
        first = Hub("a", ["b", "c"], address, patience=PATIENCE, transport=over)
        with first:
            met_again(first, [b, c])
            if leaves is None:  # no word to anybody
                first._over = True
                first._wait_for(first._server.stop())
            else:
                leaves(first)
        with Hub("a", ["b", "c"], address, patience=PATIENCE, transport=over) as second:
            for spoke in (b, c):
                with pytest.raises(Interrupted, match=r"a: it was stopped|a was started again"):
                    spoke._channels["a"].recv(Number)
            met_again(second, [b, c])
            for spoke in (b, c):
                spoke.close()


@over_each_transport
def test_who_is_stopped_is_waited_for_and_who_fails_ends_the_run(transport):
    for reason, kind, words in (
        (KeyboardInterrupt(), Interrupted, "it was stopped"),
        (OSError(errno.ENOSPC, "no space left on device"), Interrupted, r"it was interrupted \(OSError\)"),
        (OSError(errno.EFBIG, "file too large"), Interrupted, r"it was interrupted \(OSError\)"),
        (MemoryError(), Interrupted, r"it was interrupted \(MemoryError\)"),
        (ValueError("for good"), PeerError, r"it failed \(ValueError\)"),
    ):
        for victim in ("a", "b"):

            def ends(channels, reason=reason):
                for channel in channels.values():
                    channel.recv(Number)  # all have met
                raise reason

            def waits(channels, victim=victim):
                channels[victim].send(Number(1))
                channels[victim].recv(Number)

            federation = Federation(False, transport=transport()).run(
                **{name: ends if name == victim else waits for name in "abc"}
            )
            others = [error for name, error in federation.errors.items() if name != victim]
            assert len(others) == 2
            for error in others:
                assert type(error) is kind, error
                assert re.search(f"[{victim}bc]: {words}|c: it was interrupted|b: it was interrupted", str(error)), (
                    error
                )


def test_a_hub_that_is_done_says_so_to_a_party_that_was_started_again():
    over = threading.Event()

    def a():
        with Hub("a", ["b", "c"], "127.0.0.1:0", patience=PATIENCE) as hub:
            ports.append(hub.port)
            listening.set()
            hub.meet()

    ports, listening = [], threading.Event()
    thread = threading.Thread(target=a, daemon=True)
    thread.start()
    assert listening.wait(HANGS)
    address = f"127.0.0.1:{ports[0]}"
    with child(ports[0]) as process, Spoke("c", "a", ["b"], address, patience=PATIENCE) as c:
        channels = c.meet()
        assert process.stdout.readline() == b"met\n"
        with pytest.raises(PeerError, match="a left"):
            channels["a"].recv(Number)
        kill(process)
        with Spoke("b", "a", ["c"], address, patience=PATIENCE) as again, pytest.raises(Over):
            again.meet()
        over.set()
    thread.join(HANGS)
    assert not thread.is_alive()


def test_patience_may_be_infinite():
    def b(channels):
        assert channels["a"].recv(Number) == Number(1)
        channels["a"].send(Number(2))

    def a(channels):
        channels["b"].send(Number(1))
        return channels["b"].recv(Number).value

    federation = Federation(False, patience=math.inf).run(a=a, b=b)
    assert not federation.errors
    assert federation.results["a"] == 2


class Wire:
    """A TCP forwarder that can be cut."""

    def __init__(self, port):
        self._target = port
        self._open, self._all = [], []  # sockets
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self._threads = []
        self._start(self._accept)

    def _start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def cut(self):
        while self._open:
            end = self._open.pop()
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(HANGS)
        for end in self._all:
            end.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
                self._all.append(near)
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self.connections += 1
            self._all.append(far)
            self._open += [near, far]
            self._start(self._copy, near, far)
            self._start(self._copy, far, near)

    @staticmethod
    def _copy(source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_breaks_comes_back_and_nothing_is_lost(secure):
    own = CREDENTIALS if secure else {"a": None, "b": None}
    sent = [os.urandom(400_000) for _ in range(12)]
    cuts = {5: threading.Event(), 9: threading.Event()}  # what must have happened before so much is sent

    def b(port):
        with Spoke("b", "a", [], f"127.0.0.1:{port}", credentials=own["b"], patience=PATIENCE) as spoke:
            channel = spoke.meet()["a"]
            for count, body in enumerate(sent):
                if count in cuts:
                    cuts[count].wait(HANGS)
                channel.send(Bulk(body))

    with hub_alone(["b"], credentials=own["a"]) as hub:
        wire = Wire(hub.port)
        try:
            thread = threading.Thread(target=b, args=(wire.port,), daemon=True)
            thread.start()
            channel, received = hub.meet()["b"], []
            for count in range(len(sent)):
                received.append(channel.recv(Bulk).body)
                if count in (2, 6):
                    wire.cut()
                    cuts[count + 3].set()
            thread.join(HANGS)
            assert not thread.is_alive()
        finally:
            wire.close()
        assert received == sent
        assert wire.connections >= 3


def test_who_cannot_deliver_its_last_words_says_so():
    with Hub("a", ["b"], "127.0.0.1:0", patience=1) as hub:
        wire = Wire(hub.port)
        spoke = Spoke("b", "a", [], f"127.0.0.1:{wire.port}", patience=1)
        with spoke:
            meeting = threading.Thread(target=hub.meet, args=(HANGS,), daemon=True)
            meeting.start()
            channel = spoke.meet(HANGS)["a"]
            meeting.join(HANGS)
            wire.close()
            channel.send(Bulk(bytes(1000)))
            with pytest.raises(PeerError, match=r"a did not confirm the last 10.. bytes that b sent"):
                spoke.close()


def test_a_spoke_that_speaks_in_anothers_name_is_put_out():
    def b(channels):
        spoke = played.parties["b"]
        forged = encode(Envelope("c", "a", encode(Number(1))))
        spoke._wait_for(spoke._queue("a", forged, channels["a"]._inbox))
        channels["a"].recv(Number)

    played = Federation(True)
    played.run(a=lambda channels: channels["c"].recv(Number), b=b, c=lambda channels: channels["a"].recv(Number))
    assert len(played.errors) == 3
    assert "in another's name" in str(played.errors["a"])


# --- what a hub tells the others, without a network


class Sent:
    """In the place of a hub's server: who is connected, and what was queued for whom."""

    def __init__(self, *connected):
        self._connected = connected
        self.frames = {name: [] for name in "bcd"}

    def connected(self, name):
        return name in self._connected

    def send(self, name, frame):
        self.frames[name].append(decode(frame, Left | Away, 1000))


def test_who_is_away_is_told_only_to_those_that_are_there():
    """Or each connection that breaks would queue a frame for a party that is away for long."""
    hub = Hub("a", ["b", "c", "d"], "127.0.0.1:0")
    sent = hub._server = Sent("c")
    hub._begun = True
    asyncio.run(hub.lost("b"))
    asyncio.run(hub.joined("b", None, b"", resumed=True))
    assert sent.frames == {"b": [], "c": [Away("b", away=True), Away("b", away=False)], "d": []}
    sent = hub._server = Sent("c")
    asyncio.run(hub.arrived("b", encode(Left("b", "the end"))))
    assert sent.frames == {"b": [], "c": [Left("b", "the end")], "d": [Left("b", "the end")]}


@pytest.mark.parametrize("again", [True, False])
def test_the_words_of_a_party_that_leaves_cannot_steer_a_terminal(again):
    left, shown = Left("b", "the end\x1b[2J\r\n\u202eof all", again), "the end [2J   of all"
    hub = Hub("a", ["b", "c"], "127.0.0.1:0")
    sent = hub._server = Sent("c")
    hub._begun = True
    inbox = hub._inboxes["c"]
    asyncio.run(hub.arrived("b", encode(left)))
    assert sent.frames["c"] == [Left("b", shown, again)]
    with pytest.raises(PeerError, match=re.escape(f"b: {shown}")):
        inbox.check_open()
    spoke = Spoke("c", "a", ["b"], "127.0.0.1:1")
    spoke._begun, inbox = True, spoke._inboxes["a"]
    asyncio.run(spoke.arrived(encode(left)))  # of a hub that passes on what it was sent
    with pytest.raises(PeerError, match=re.escape(f"b: {shown}")):
        inbox.check_open()


# --- introductions, without a network


def whose(proof):
    found = identity_of(proof, AUTHORITY.certificate_pem)
    return found.name, found.signing_public


def introduced(name, run, credentials=None, claims=None):
    own, credentials = KeyPair.generate(), credentials or CREDENTIALS[name]
    return own, introduce(own, credentials.signing_key, run, claims or name, credentials.certificate)


RUN = federation("a", b"{}")


def test_two_that_were_introduced_understand_each_other():
    (b, of_b), (c, of_c) = introduced("b", RUN), introduced("c", RUN)
    ours, theirs = meet(of_c, b, RUN, "b", whose), meet(of_b, c, RUN, "c", whose)
    for plain in (b"", b"one", b"two"):
        assert theirs.unseal(ours.seal(plain)) == plain
    with pytest.raises(PeerError):
        ours.unseal(ours.seal(b"reflected"))


def test_an_introduction_must_be_of_the_party_the_run_and_the_authority():
    b, _ = introduced("b", RUN)
    strangers = credentials_of("c", Authority.create())
    for of_c in (
        introduced("a", RUN, claims="c")[1],
        introduced("c", federation("a", b'{"rows":1}'))[1],
        introduced("c", RUN, strangers)[1],
        introduce(KeyPair.generate(), SigningKey.generate(), RUN, "c", CREDENTIALS["c"].certificate),
    ):
        with pytest.raises(PeerError):
            meet(of_c, b, RUN, "b", whose)
