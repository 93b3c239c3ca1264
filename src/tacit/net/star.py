"""A coordinator and many clients, each without I/O: frames in and out.

A kind whose parties form a star hands its coordinator (`Star`) to a `star_host` and each client (`Leaf`) to a
`star_guest`. Those know who is there, whose keys are whose, when to wait and when to give up; what a frame says, only
the kind knows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tacit.errors import PeerError
from tacit.events import Cause, Event
from tacit.net.handshake import Parting
from tacit.wire import AnyFrame

COORDINATOR = "coordinator"
_CLIENT = re.compile(r"client-(0|[1-9][0-9]{0,9})")

Frames = Sequence[tuple[int, AnyFrame]]  # what goes out: the client, and the frame for it


def client_name(identity: int) -> str:
    return f"client-{identity}"


def client_identity(name: str) -> int | None:
    """The number of a client, by its name."""
    found = _CLIENT.fullmatch(name)
    return int(found[1]) if found else None


def numbered_client(name: str) -> int:
    """The same; PeerError for a name that is no client's."""
    identity = client_identity(name)
    if identity is None:
        raise PeerError(f"{name} is not a client")
    return identity


@dataclass(frozen=True, slots=True)
class Terms:
    """What coordinator and clients agree on before they speak."""

    clients: int
    sampled: int  # clients of a round
    least: int  # clients without which no round begins
    window: float  # seconds to wait for the clients of a round
    limits: tuple[int, int]  # bytes of the largest frame: to the coordinator, and to a client
    shared: bytes  # the settings that all must have in common, in one form (`handshake.shared`)
    signs: bool  # whether clients sign what others are shown: then each learns whose keys are whose


class Star(Protocol):
    """The coordinator. Its methods may take long; they are called one after the other, in one thread."""

    @property
    def terms(self) -> Terms: ...

    @property
    def begun(self) -> int:
        """Rounds, those of earlier processes included."""

    @property
    def excluded(self) -> Collection[int]:
        """Clients that take part in no further round."""

    @property
    def collecting(self) -> bool:
        """Whether a round is under way."""

    @property
    def stage(self) -> str:
        """Of the round under way, in words; empty between rounds."""

    @property
    def finished(self) -> bool:
        """Whether no round is left: also in a process that has begun none."""

    @property
    def ending(self) -> Parting:
        """How it ended, for all clients, once it is finished."""

    def check_left(self) -> None:
        """Raise Unfit if too few clients are left for a round."""

    def meet(self, client: int, signing_key: bytes) -> None:
        """A client has this public key from now on."""

    def begin(self, now: float, available: Collection[int]) -> Frames:
        """Begin the next round with clients that are `available`; no frames if no round is left."""

    def receive(self, client: int, frame: bytes | memoryview, now: float) -> Frames:
        """Take a frame; PeerError if it is none that a client sends."""

    def tick(self, now: float) -> Frames:
        """Close what is overdue."""

    def gone(self, client: int, now: float) -> Frames:
        """A client will not come back to this round."""

    def refuse(self, client: int, reason: str, why: Cause) -> None:
        """A client loses its place in this round."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client answers to a frame, and what its own site is told."""

    frames: tuple[AnyFrame, ...] = ()
    events: tuple[Event, ...] = ()  # for the site, when the frames have left
    error: Exception | None = None  # for which it takes no part any more


class Leaf(Protocol):
    """A client of a star. `receive` and `store` may take long; they are called in a thread, one after the other."""

    @property
    def terms(self) -> Terms: ...

    @property
    def identity(self) -> int: ...

    @property
    def signing_key(self) -> bytes:
        """Its public key; empty where clients do not sign."""

    @property
    def answered(self) -> int:
        """How far it is in the run: a coordinator that has begun fewer rounds was started without its state."""

    def meet(self, client: int, signing_key: bytes) -> None:
        """A client, perhaps this one, has this public key from now on."""

    def leave_out(self, client: int, reason: str) -> None:
        """Another client is not believed until it is met again."""

    def receive(self, frame: bytes | memoryview, now: float) -> Answer:
        """Take a frame; PeerError if it is none that a coordinator sends."""

    def store(self) -> None:
        """Keep what was paid, before the frames of an answer leave."""

    def sent(self, answer: Answer) -> None:
        """The answer to the last frame has left."""

    def end_round(self) -> None:
        """Drop what belongs to a round: the coordinator is another process, or stopped."""
