"""What a tapped wire shows: everything without TLS, nothing but amounts with it; and that the audit would notice."""

import asyncio
from functools import partial

import numpy as np
import pytest

from tacit.audit.attacks import wire as network
from tacit.audit.attacks.wire import NetworkView, audit_reading, tap_parties, union_of
from tacit.audit.attacks.wiretap import Wiretap
from tacit.kinds.horizontal import frames
from tacit.kinds.horizontal.attacks.wire import tap_federation
from tacit.kinds.horizontal.frames import UpdateFrame, WorkFrame
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.split import messages as split
from tacit.kinds.split.messages import Reached, Start
from tacit.net.link import PIECE_BYTES, Link
from tacit.net.star_guest import StarGuest
from tacit.secagg import messages as secagg
from tacit.wire import encode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UNION = union_of(frames, secagg)


def http2(kind: int, data: bytes, *, flags: int = 0, stream: int = 1) -> bytes:
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


def prefixed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def pieces(*sent: bytes) -> list[bytes]:
    link, found = Link(1 << 30), []
    for frame in sent:
        link.send(frame)
    while (piece := link.next()) is not None:
        found.append(piece)
    return found


def conversation(*sent: bytes, cut: int = 10_000) -> bytes:
    """One direction as gRPC writes it, with data frames that end anywhere."""
    data = b"".join(prefixed(piece) for piece in (b"the handshake", *pieces(*sent)))
    chunks = [data[at : at + cut] for at in range(0, len(data), cut)]
    return http2(4, b"settings") + b"".join(http2(0, chunk) for chunk in chunks)


def view(up: bytes = b"", down: bytes = b"") -> NetworkView:
    return NetworkView({"client-0": ((up, down),)})


@pytest.mark.parametrize("cut", [1, 7, 10_000, 1 << 20])
def test_frames_are_read_however_they_were_cut(cut):
    sent = [b"first", bytes(3 * PIECE_BYTES if cut > 7 else 300), b"last"]
    found = list(view(PREFACE + conversation(*sent, cut=cut)).frames())
    assert found == [("client-0", "up", frame) for frame in sent]
    assert [frame for *_, frame in view(down=conversation(*sent, cut=cut)).frames()] == sent


def test_padding_and_confirmations_are_left_out():
    body = prefixed(b"handshake") + prefixed(b"A" + bytes(8)) + prefixed(pieces(b"frame")[0])
    stream = http2(0, bytes([3]) + body + b"pad", flags=8)
    assert [frame for *_, frame in view(down=stream).frames()] == [b"frame"]


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\x16\x03\x01\x02\x00" + bytes(600),  # a TLS handshake
        b"\x17\x03\x03\x00\x20" + bytes(range(256)),
        conversation(b"frame"),  # without the preface of a client
        PREFACE + http2(0, prefixed(b"handshake") + prefixed(pieces(b"frame")[0]))[:-1],
    ],
)
def test_what_cannot_be_read_gives_nothing(stream):
    assert list(view(stream, stream[:5]).frames()) == []


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_no_messages(seed):
    stream = np.random.default_rng(seed).bytes(5000)
    assert view(PREFACE + stream, stream).messages(UNION) == []


def digits(encrypt: str, clients: int = 6) -> tuple[Settings, object]:
    keys = {"task": "digits", "rounds": 1, "clients": clients, "start_fl_job_threshold": 3, "seed": 3}
    settings = Settings.model_validate({**keys, "encrypt": {"encrypt_type": encrypt}})
    return settings, tasks.make("digits", clients, 3, {})


@pytest.mark.parametrize("encrypt", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_a_federation_is_open_without_tls_and_closed_with_it(encrypt):
    settings, task = digits(encrypt)
    off, on = (tap_federation(settings, task, secure=secure) for secure in (False, True))
    found = audit_reading(off, on, UNION)
    assert found.adversary == "network"
    assert (found.off.value, found.on.value) == (1.0, 0.0)
    assert found.off.trials == found.on.trials >= 6
    assert found.off.informative
    assert not found.on.informative
    ((named_off, named_on),) = found.also
    assert (named_off.value, named_on.value, named_on.baseline) == (1.0, 1.0, 0.5)
    assert sum(on.took_part.values()) == 3
    assert all(on.view.volume(client, "up") > 500 for client, took in on.took_part.items() if took)
    kinds = {type(message) for message in off.view.messages(UNION)}
    assert WorkFrame in kinds
    assert (UpdateFrame in kinds) == (encrypt == "NOT_ENCRYPT")


def test_updates_in_the_clear_are_read_to_the_last_bit():
    settings, task = digits("NOT_ENCRYPT")
    off = tap_federation(settings, task, secure=False)
    updates = [message for message in off.view.messages(UNION) if isinstance(message, UpdateFrame)]
    work = next(message for message in off.view.messages(UNION) if isinstance(message, WorkFrame))
    assert sorted(update.sender for update in updates) == [
        int(name.removeprefix("client-")) for name, took in off.took_part.items() if took
    ]
    assert all(len(update.vector) == len(work.model) and update.vector != work.model for update in updates)


def test_tls_that_is_left_out_is_noticed(monkeypatch):
    """The positive control: parties that do without certificates, whatever is asked of them."""
    settings, task = digits("NOT_ENCRYPT")
    monkeypatch.setattr("tacit.kinds.horizontal.attacks.wire.certificates", lambda secure: lambda name: None)
    on = tap_federation(settings, task, secure=True)
    assert audit_reading(on, on, UNION).on.value == 1.0


def test_what_cannot_be_parsed_is_searched_for():
    """Bytes that are wrapped and not encrypted: the reading fails, the search does not."""
    settings, task = digits("NOT_ENCRYPT")
    off = tap_federation(settings, task, secure=False)
    wrapped = {
        name: tuple(tuple(b"\x17\x03\x03" + way for way in both) for both in connections)
        for name, connections in off.view.streams.items()
    }
    on = network.Tapped(NetworkView(wrapped), off.said, off.took_part)
    assert list(on.view.frames()) == []
    assert audit_reading(off, on, UNION).on.value >= 0.5  # all updates; the first model is zeros, which are anywhere


def test_a_client_that_comes_after_the_end_is_not_waited_for(monkeypatch):
    """On a busy machine one may connect when the only round is over, and would wait for a coordinator to come back."""
    settings, task = digits("NOT_ENCRYPT")
    run, begun = StarGuest.run, []

    async def late(guest, *given):
        begun.append(guest)
        if guest is begun[0]:
            await asyncio.Event().wait()
        return await run(guest, *given)

    monkeypatch.setattr(StarGuest, "run", late)
    found = tap_federation(settings, task, secure=False)
    assert not found.took_part["client-0"]
    assert sum(found.took_part.values()) == 3


def test_a_client_that_fails_is_heard(monkeypatch):
    async def broken(guest, *given):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(StarGuest, "run", broken)
    settings, task = digits("NOT_ENCRYPT")
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        tap_federation(settings, task, secure=False)


def test_a_coordinator_that_fails_before_it_listens_is_heard(monkeypatch):
    async def broken(self, bind, parties):
        raise OSError("no port is left")

    monkeypatch.setattr("tacit.net.grpc.server.Server.start", broken)
    settings, task = digits("NOT_ENCRYPT")
    with pytest.raises(OSError, match="no port is left"):
        tap_federation(settings, task, secure=False)


def talker(name: str, others: list[str], channels) -> None:
    for place, other in enumerate(sorted(others)):
        channels[other].send(Start(place, len(name), 7))
    for other in sorted(others):
        channels[other].recv(Start)


def test_spokes_are_sealed_from_each_other_even_without_tls():
    names = ["a", "b", "c"]
    parties = {name: partial(talker, name, [other for other in names if other != name]) for name in names}
    off, on = (tap_parties("a", parties, secure=secure) for secure in (False, True))
    found = audit_reading(off, on, union_of(split))
    assert (found.off.trials, found.on.trials) == (6, 6)
    assert found.off.value == pytest.approx(4 / 6)  # of b and c to each other nothing
    assert found.on.value == 0
    assert found.also == ()
    assert all(isinstance(message, Start) for message in off.view.messages(union_of(split)))


def test_the_error_of_a_party_is_raised():
    def broken(channels) -> None:
        raise ZeroDivisionError("a mistake")

    def waiting(other: str, channels) -> None:
        channels[other].recv(Start)

    for parties in ({"a": broken, "b": partial(waiting, "a")}, {"a": partial(waiting, "b"), "b": broken}):
        with pytest.raises(ZeroDivisionError, match="a mistake"):
            tap_parties("a", parties, secure=False)


def test_a_union_holds_the_messages_of_its_modules():
    assert {Start, Reached} <= set(union_of(split).__args__)
    assert network._message(encode(Start(0, 1, 2)), union_of(split)) == Start(0, 1, 2)
    assert network._message(encode(Start(0, 1, 2)), UNION) is None


def test_a_wiretap_that_finds_nobody_closes():
    with Wiretap(1) as tap:
        assert tap.connections == []
