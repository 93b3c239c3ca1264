"""How frames travel between parties on different machines: what a transport promises, whichever it is.

    transport.server(told, expected, about)                 the side that parties connect to
    transport.connection(told, address, server, about)      the side that connects, and comes back by itself

A conversation outlives its connections: each frame arrives once, in order, as long as both processes live. If one of
them is another process by then, the conversation begins anew. `told` hears of all that; it is called in the event loop
that the server or the connection runs in.

Who a party is, its certificate says. A server refuses whom it does not expect, another shared file (see `handshake`),
and keys that this party did not have before in this run (see `pins`); a connection talks to nobody but `server`.

What a transport does, and nobody above it does again (tests/net/memory_transport.py is the shortest one):

    the hello       the connection makes a `Hello` of its `Conversation` for each attempt; the server checks it with
                    `handshake.check_hello`, against the name in the certificate, before anything else is read
    revocation      both sides refuse a certificate that `credentials.revocations` takes back: the server before the
                    hello is read, the connection before it takes anything from the server
    pins            the server calls `pins.check` once it knows whose certificate it is, `pins.meet` after the hello
    knows           the server keeps with the peer what it says in its hello that it can take (`handshake.known`)
    limit           both sides refuse a longer frame with PeerError, before it is in memory if they can
    frames          `send` is given bytes or a `Parted`, which all receivers share and which does not change; what
                    arrives is bytes, or a view of them, and no copy of it is kept
    no certificates both sides call `loopback.check_guarded`: then `identity` is None, `certificate` is b"", and a
                    party is who its hello says
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tacit.events import Noted, Sink
from tacit.net.handshake import CAPABILITIES, Hello
from tacit.net.identity import Credentials, Identity
from tacit.net.pins import Pins
from tacit.net.vitals import Traffic
from tacit.sections import Network
from tacit.version import __version__
from tacit.wire import AnyFrame


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one party brings to its conversations: who it is, what it asks of others, and its limits."""

    party: str
    shared: bytes  # settings that all parties must have in common, in one form (`handshake.shared`)
    limit: int  # bytes of the largest frame that comes in
    credentials: Credentials | None = None  # None on loopback only, where a party is who it says it is
    signing_key: bytes = b""  # the public one, if no certificate says it
    answered: Callable[[], int] = lambda: 0  # how far this party is in the run, for each hello
    pins: Pins = field(default_factory=Pins)  # the keys of parties that were met earlier in this run
    network: Network = field(default_factory=Network)  # what strangers and parties may take of a server
    sink: Sink | None = None  # is told what is refused, and of certificates that were read again

    def hello(self, session: bytes, epoch: bytes, received: int, nonce: bytes = b"") -> Hello:
        """What this party says first on a new connection."""
        return Hello(
            self.party,
            session,
            epoch,
            received,
            self.shared,
            self.signing_key,
            self.answered(),
            __version__,
            CAPABILITIES,
            nonce,
        )

    def say(self, text: str) -> None:
        if self.sink is not None:
            self.sink.emit(Noted(text))


class Listener(Protocol):
    """What a server tells."""

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None:
        """Before a frame of this party arrives. `certificate` is its own, in PEM; b"" where there are none."""

    async def refused(self, name: str, reason: str) -> None:
        """An expected party came with a certificate that is not valid or revoked, and may come back with another."""

    async def arrived(self, name: str, frame: bytes | memoryview) -> None:
        """A PeerError ends the conversation with this party."""

    async def broke(self, name: str, reason: str) -> None:
        """This party broke the rules (PeerError): its conversation is over, and nothing is queued for it."""

    async def lost(self, name: str) -> None:
        """The connection of a party that had joined ended, after `broke` too; not where a newer one took its place."""


class Guest(Protocol):
    """What a connection tells."""

    async def connected(self, resumed: bool) -> None: ...

    async def arrived(self, frame: bytes | memoryview) -> None: ...

    async def waiting(self, reason: str) -> None: ...


class Peer(Protocol):
    """A party as a server knows it, from when it joins until it is forgotten."""

    @property
    def identity(self) -> Identity | None:
        """As its certificate says."""

    @property
    def pending(self) -> int:
        """Bytes that it has not confirmed."""

    @property
    def knows(self) -> frozenset[str]:
        """What it can take that not every neighbour can (see `handshake.CAPABILITIES`)."""


class Server(Protocol):
    """The side that parties connect to."""

    @property
    def traffic(self) -> Traffic:
        """What passed, with all parties."""

    @property
    def peers(self) -> Mapping[str, Peer]: ...

    async def start(self, bind: str, parties: int) -> int:
        """Listen on `bind`; returns the port. ValueError: it is taken, open to others without certificates, or
        not all parties can be served here."""

    async def stop(self) -> None: ...

    def connected(self, name: str) -> bool: ...

    def end_expired(self) -> dict[str, str]:
        """End the connections of parties whose certificate is over, each with the reason, by name."""

    def end_revoked(self) -> dict[str, str]:
        """End the connections of parties whose certificate is revoked, each with the reason, by name."""

    def forget(self, name: str) -> None:
        """A party said that it goes: nothing is queued for it until it joins anew."""

    def send(self, name: str, frame: AnyFrame) -> None:
        """Queue a frame for a party that has joined; for one that never did there is nowhere to."""


class Connection(Protocol):
    """The side that connects."""

    @property
    def traffic(self) -> Traffic:
        """What passed, over all its streams."""

    @property
    def pending(self) -> int:
        """Bytes that the server has not confirmed."""

    def send(self, frame: AnyFrame) -> None: ...

    def check_server(self) -> None:
        """End the connection if the server's certificate is revoked by now. It is made again, and the server judged."""

    async def run(self) -> None:
        """Converse until `close`. Raises PeerError where the other side refuses, or is not who it should be."""

    async def close(self, seconds: float = 5.0) -> None:
        """Wait until both sides have confirmed everything, not longer than `seconds`, and end."""


class Transport(Protocol):
    """Makes servers and connections. ValueError where parties without certificates would leave this machine."""

    def server(self, told: Listener, expected: Callable[[str], bool], about: Conversation) -> Server:
        """A server for the parties that `expected` names."""

    def connection(self, told: Guest, address: str, server: str, about: Conversation) -> Connection:
        """A connection to `address`, where the party `server` must be met."""


def default_transport() -> Transport:
    """gRPC's, which is loaded now: a process without other machines never loads it."""
    from tacit.net.grpc import Grpc

    return Grpc()
