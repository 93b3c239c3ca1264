"""The connections of the party that listens, without I/O: which one has to go when there are too many.

Each address has at most `unauthenticated` connections on which no party is known, and there are at most `connections`
in all. If one more comes, another one goes: of its own address, or of the address that has most of them. The oldest
that said nothing goes first. If all have spoken, one goes at random: a flood cannot choose which, and an honest
handshake is over in milliseconds. A party's connection never goes for a stranger's.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from tacit.net.grpc.watch import Reason


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the front allows."""

    connections: int
    unauthenticated: int  # for each address
    handshake: float  # seconds


@dataclass(eq=False, slots=True)
class Way:
    """One direction of a connection: `rest` has been read and could not be written yet."""

    source: socket.socket
    sink: socket.socket
    rest: memoryview = field(default_factory=lambda: memoryview(b""))
    ended: bool = False  # the source has said all
    deaf: bool = False  # the sink takes nothing more


@dataclass(eq=False, slots=True)
class Guest:
    """A connection."""

    number: int
    near: socket.socket
    address: str
    deadline: float
    streams: int = 0  # of parties that were admitted
    known: bool = False  # whether a party ever spoke on it
    hello: bytes = b""  # the part of its first message that is there
    up: Way | None = None  # none before it has spoken
    down: Way | None = None


class Guests:
    """Who is there, and who has to go when another one comes."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.all: dict[int, Guest] = {}
        self._strangers: dict[str, dict[int, Guest]] = {}  # that are not admitted, by address and age
        self.unauthenticated = 0

    def add(self, guest: Guest) -> tuple[Guest, Reason] | None:
        """Take one in: which one has to go for it, and why. It may be the new one itself."""
        theirs = self._strangers.get(guest.address, {})
        gone: tuple[Guest, Reason] | None = None
        if len(theirs) >= self._bounds.unauthenticated:
            gone = _chosen(theirs), "address"
        elif len(self.all) >= self._bounds.connections:
            most = max(self._strangers.values(), key=len, default=None)
            gone = (guest if most is None else _chosen(most)), "connections"
        self.all[guest.number] = guest
        self.estrange(guest)
        return gone

    def remove(self, guest: Guest) -> bool:
        """Whether it was there."""
        if self.all.pop(guest.number, None) is None:
            return False
        self.know(guest)
        return True

    def estrange(self, guest: Guest) -> None:
        """It is nobody's connection."""
        self._strangers.setdefault(guest.address, {})[guest.number] = guest
        self.unauthenticated += 1

    def know(self, guest: Guest) -> None:
        """It is a party's connection."""
        theirs = self._strangers.get(guest.address, {})
        if theirs.pop(guest.number, None) is not None:
            self.unauthenticated -= 1
            if not theirs:
                del self._strangers[guest.address]

    def strangers(self) -> Iterator[Guest]:
        for theirs in self._strangers.values():
            yield from theirs.values()


def _chosen(guests: dict[int, Guest]) -> Guest:
    """Who goes for another one: the oldest of those that said nothing, or else any."""
    silent = next((guest for guest in guests.values() if guest.up is None), None)
    return random.choice(list(guests.values())) if silent is None else silent  # noqa: S311
