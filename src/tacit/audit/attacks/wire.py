"""What an eavesdropper on the wire sees: a real run over loopback through proxies, without TLS and with it.

    tap_parties(hub, parties, secure=...)           parties in lock step
    Tapped.view                                     the NetworkView: attacks take that
    audit_reading(off, on, union)                   what is read of it, and who took part

A `NetworkView` reads what the bytes hold: HTTP/2, gRPC, the links of `tacit.net.grpc`, frames, typed messages. Under
TLS it finds none of these, and is left with how much passed, when, and between whom.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import ModuleType
from typing import Any, Literal

import numpy as np

from tacit.audit.attacks.wiretap import Wiretap
from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Score
from tacit.channel import Channel, Party, Recorder
from tacit.errors import PeerError
from tacit.net.ends import Envelope
from tacit.net.hub import Hub
from tacit.net.identity import Authority, Credentials, request
from tacit.net.link import PIECE_BYTES, Link
from tacit.net.spoke import Spoke
from tacit.wire import Message, decode, encode

_CONFIDENCE = 0.95
_LIMIT = 1 << 30  # bytes of what is read
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _LAST_KIND, _PADDED = 0, 9, 8  # of HTTP/2 frames
ANYWHERE = "127.0.0.1:0"
PATIENCE = 60.0  # seconds
_PIECE = 32  # bytes that are searched for
Way = Literal["up", "down"]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkView:
    """What passed between each party and the one that it connects to, by name: for each connection both directions."""

    streams: Mapping[str, tuple[tuple[bytes, bytes], ...]]

    def frames(self) -> Iterator[tuple[str, Way, bytes]]:
        """Every frame that can be read; of encrypted bytes none."""
        for party, connections in self.streams.items():
            for up, down in connections:
                for frame in _frames(up, from_client=True):
                    yield party, "up", frame
                for frame in _frames(down, from_client=False):
                    yield party, "down", frame

    def messages(self, union: Any) -> list[Message]:
        """Every message of the union that can be read, taken out of its envelope where it has one."""
        found = []
        for _, _, frame in self.frames():
            message = _message(_opened(frame), union)
            if message is not None:
                found.append(message)
        return found

    def volume(self, party: str, way: Way) -> int:
        """Bytes, encrypted or not."""
        return sum(len(connection[way == "down"]) for connection in self.streams[party])


@dataclass(frozen=True, slots=True, eq=False)
class Tapped:
    """A run: what the network shows of it, and, to judge that by, what the parties said."""

    view: NetworkView
    said: tuple[bytes, ...]  # frames of messages
    took_part: Mapping[str, bool]


# --- reading bytes


def _frames(stream: bytes, *, from_client: bool) -> Iterator[bytes]:
    """The frames of one direction of a connection, as far as they can be read."""
    link = Link(_LIMIT)
    for place, piece in enumerate(_grpc_messages(stream, from_client=from_client)):
        if place == 0 or piece[:1] == b"A":  # the handshake, and confirmations
            continue
        try:
            yield from map(bytes, link.receive(piece))
        except PeerError:
            return


def _grpc_messages(stream: bytes, *, from_client: bool) -> Iterator[bytes]:
    """Source: RFC 9113, sections 3.4 and 4.1; gRPC over HTTP/2, "length-prefixed message"."""
    if from_client:
        if not stream.startswith(_PREFACE):
            return
        stream = stream[len(_PREFACE) :]
    bodies: dict[int, bytearray] = {}
    at = 0
    while at + 9 <= len(stream):
        size, kind, flags = int.from_bytes(stream[at : at + 3], "big"), stream[at + 3], stream[at + 4]
        if kind > _LAST_KIND or at + 9 + size > len(stream):
            break
        data = stream[at + 9 : at + 9 + size]
        if kind == _DATA:
            padding = data[0] if flags & _PADDED and data else 0
            data = data[1 : len(data) - padding] if flags & _PADDED else data
            bodies.setdefault(int.from_bytes(stream[at + 5 : at + 9], "big"), bytearray()).extend(data)
        at += 9 + size
    for body in bodies.values():
        at = 0
        while at + 5 <= len(body):
            size = int.from_bytes(body[at + 1 : at + 5], "big")
            if body[at] != 0 or size > 2 * PIECE_BYTES or at + 5 + size > len(body):
                break
            yield bytes(body[at + 5 : at + 5 + size])
            at += 5 + size


def _opened(frame: bytes) -> bytes:
    envelope = _message(frame, Envelope)
    return envelope.body if isinstance(envelope, Envelope) else frame


def _message(frame: bytes, union: Any) -> Any:
    try:
        return decode(frame, union, _LIMIT)
    except PeerError:
        return None


def union_of(*modules: ModuleType) -> Any:
    """All messages that some modules define."""
    found = [kind for module in modules for kind in vars(module).values() if _is_message(kind, module)]
    return reduce(or_, found)


def _is_message(kind: Any, module: ModuleType) -> bool:
    return isinstance(kind, type) and issubclass(kind, Message) and kind.__module__ == module.__name__


# --- runs


def tap_parties(hub: str, parties: Mapping[str, Party[Any]], *, secure: bool) -> Tapped:
    """Parties in lock step, each in a thread; all but `hub` connect to it, each through a wire of its own."""
    own = certificates(secure)
    others = [name for name in parties if name != hub]
    said: list[Recorder] = []
    errors: list[Exception] = []

    def play(name: str, ends: Hub | Spoke) -> None:
        channels: dict[str, Channel] = {}
        for other, channel in ends.meet().items():
            recorder = Recorder(channel)
            said.append(recorder)
            channels[other] = recorder
        parties[name](channels)

    def live(name: str, address: str) -> None:
        rest = [other for other in others if other != name]
        try:
            with Spoke(name, hub, rest, address, credentials=own(name), patience=PATIENCE) as spoke:
                play(name, spoke)
        except Exception as error:  # raised again in the caller's thread
            errors.append(error)

    threads: list[threading.Thread] = []
    with ExitStack() as open_now:
        taps: dict[str, Wiretap] = {}
        try:
            with Hub(hub, others, ANYWHERE, credentials=own(hub), patience=PATIENCE) as center:
                for name in others:
                    tap = taps[name] = open_now.enter_context(Wiretap(center.port, keep=True))
                    threads.append(threading.Thread(target=live, args=(name, f"127.0.0.1:{tap.port}"), daemon=True))
                    threads[-1].start()
                play(hub, center)
        except Exception as error:
            errors.append(error)
        for thread in threads:
            thread.join(PATIENCE)
    if errors:
        raise min(errors, key=lambda each: isinstance(each, PeerError))  # not what others made of it
    view = NetworkView({name: kept_by(tap) for name, tap in taps.items()})
    frames = tuple(encode(message) for recorder in said for message in recorder.sent)
    return Tapped(view, frames, dict.fromkeys(others, True))


def certificates(secure: bool) -> Callable[[str], Credentials | None]:
    """For each party a certificate of one authority, or none."""
    if not secure:
        return lambda name: None
    authority = Authority.create()

    def certified(name: str) -> Credentials:
        private, asked = request(name)
        return Credentials.of(private, authority.sign(asked), authority.certificate_pem)

    return certified


def kept_by(tap: Wiretap) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((bytes(up), bytes(down)) for up, down in tap.connections)


# --- findings


def audit_reading(off: Tapped, on: Tapped, union: Any) -> Finding:
    """How many of the parties' messages are read off the wire, word for word, and who took part where not all did.

    `union`: the messages of the protocol.
    """
    some = len(set(on.took_part.values())) > 1
    return Finding(
        attack="messages read off the wire, against TLS",
        adversary="network",
        sees="every byte between the parties, through a proxy on each wire",
        protection="TLS, certificates on both sides",
        off=_read(off, union),
        on=_read(on, union),
        also=((_named(off), _named(on)),) if some else (),
        not_tested=(
            "a party on the wire that answers in another's name: certificates are verified, the audit only listens",
            "what the lengths and times of encrypted messages reveal in addition to who takes part: sizes of models "
            "and tables show in them",
        ),
    )


def _read(tapped: Tapped, union: Any) -> Score:
    """By reading them as a party does, or by finding a piece of them anywhere in the bytes, whatever these are."""
    wanted = Counter(frame for frame in tapped.said if _message(frame, union) is not None)
    read = wanted & Counter(encode(message) for message in tapped.view.messages(union))
    raw = [one for connections in tapped.view.streams.values() for both in connections for one in both]
    for frame, count in (wanted - read).items():
        piece = _telling(frame)
        if piece is not None and any(piece in one for one in raw):
            read[frame] += count
    return _share("messages read", read.total(), wanted.total(), baseline=0.0)


def _telling(frame: bytes) -> bytes | None:
    """A piece of a frame that does not turn up by chance: the one with most different bytes, if that is many."""
    pieces = [frame[at : at + _PIECE] for at in range(0, len(frame) - _PIECE + 1, _PIECE // 2)]
    best = max(pieces, key=lambda piece: len(set(piece)), default=b"")
    return best if len(set(best)) >= _PIECE // 2 else None


def _named(tapped: Tapped) -> Score:
    """Who takes part in a round, told by the bytes that each sends: those above the widest gap."""
    names = list(tapped.took_part)
    volumes = np.array([tapped.view.volume(name, "up") for name in names])
    order = np.sort(volumes)
    gap = int(np.argmax(np.diff(order)))
    threshold = (order[gap] + order[gap + 1]) / 2
    right = sum(bool(volume > threshold) == tapped.took_part[name] for name, volume in zip(names, volumes, strict=True))
    share = np.mean(list(tapped.took_part.values()))
    return _share(
        "who takes part, named right by the bytes each sends", right, len(names), baseline=float(max(share, 1 - share))
    )


def _share(metric: str, right: int, trials: int, *, baseline: float) -> Score:
    low, high = clopper_pearson(right, trials, _CONFIDENCE)
    return Score(metric, right / trials, low, high, _CONFIDENCE, baseline, trials)
