"""What carries updates from clients to their coordinator. There are two carriers:

    alone       each update in a message of its own
    masked      all updates of a round under the masks of one secure aggregation

Coordinator and client know of a carrier what stands here:

    Gathering   one round at the coordinator: takes messages until it is over
    Round       the same round at one client
    Carrier     makes both
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from numpy.random import Generator

from tacit.crypto.signing import SigningKey
from tacit.dp.release import Event
from tacit.kinds.horizontal.answered import Answers
from tacit.kinds.horizontal.messages import Inference, Outgoing, ToCoordinator, Update, Work
from tacit.kinds.horizontal.protections.contract import Learned
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.sums import Together
from tacit.kinds.horizontal.tally import Tally
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg.messages import ToClient as SecureToClient
from tacit.secagg.messages import ToServer
from tacit.secagg.unmask import Unmasking

OUT_OF_TURN = "an update that is too late or out of turn"
T = TypeVar("T")


# --- the coordinator's side


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """A round as the coordinator opens it."""

    number: int  # rounds begun before it
    model: Flat
    clip: float  # the clipping norm that the coordinator has come to
    sampled: Collection[int]
    excluded: frozenset[int]  # clients that are not sampled any more


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """What a coordinator lends each of its gatherings."""

    identities: Mapping[int, bytes] | None  # signing keys, if clients sign
    unmasking: Unmasking
    answers: Answers


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """A round came to the mean update of so many clients."""

    update: Flat
    survivors: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A round came to nothing. `opened`: its sum may have been seen, and counts as spent."""

    reason: str
    opened: bool = True


class Gathering(Protocol):
    """One round at the coordinator. A wrong message raises PeerError and changes nothing."""

    over: Mean | Failed | None  # None until the round is over; then nothing more is handed in

    @property
    def stage(self) -> str:
        """What is under way, in words."""

    @property
    def blamed(self) -> Collection[int]:
        """Clients that are proved to have broken the protocol."""

    def receive(self, sender: int, message: Update | ToServer, now: float) -> Outgoing:
        """Take one message, whose sender the transport has identified."""

    def receive_together(self, several: Together, now: float) -> Outgoing:
        """Take what several clients sent, checked and added up by a worker of the coordinator's own."""

    def tick(self, now: float) -> Outgoing:
        """Close what is overdue."""

    def gone(self, client: int, now: float) -> Outgoing:
        """A client will not come back to this round."""

    def left(self, client: int) -> None:
        """A client lost its place. Under masks the windows decide who is waited for."""


# --- a client's side


class Learn(Protocol):
    """Train, and hand what was learnt to `protect`. If that fails and the protection hides it, hand over nothing."""

    def __call__(self, protect: Callable[[Learned], T], /) -> T: ...


@dataclass(frozen=True, slots=True, eq=False)
class Participant:
    """What a client brings into a round."""

    identity: int
    work: Work
    rng: Generator | None  # of noise and keys; None: the operating system's
    learn: Learn
    infer: Callable[[], list[Inference]]
    paid: tuple[Event, ...]  # for an update that travels alone
    uploads: Callable[[], None]  # is told when a masked update is about to leave
    opens: Callable[[frozenset[int]], None] | None  # is shown the survivors of a sum, and may raise Declined
    key: SigningKey | None
    identities: Mapping[int, bytes] | None
    clips: Callable[[int], None] = lambda clipped: None  # is told how many numbers of the update were clipped


class Round(Protocol):
    """One round at a client."""

    @property
    def done(self) -> bool:
        """Whether this client has nothing left to answer."""

    def start(self, now: float) -> list[ToCoordinator]:
        """The answer to the model."""

    def receive(self, message: SecureToClient, now: float) -> list[ToCoordinator]:
        """The answer to a further message."""


# --- both


class Carrier(Protocol):
    """How the updates of a federation travel."""

    @property
    def first_clip(self) -> float:
        """The clipping norm of the first round, which runs store whether updates are clipped or not."""

    def sent_clip(self, clip: float) -> float | None:
        """What clients are told of a clipping norm."""

    def next_clip(self, clip: float, norm: float) -> float:
        """The clipping norm after a mean update of this norm."""

    def gathering(self, opening: Opening, host: Host, tally: Tally, now: float) -> Gathering:
        """Open a round at the coordinator."""

    def stray(self, message: Update | ToServer) -> None:
        """A message while no round is under way: PeerError unless an honest client may be as late."""

    def round(self, participant: Participant) -> Round:
        """Begin a round at a client."""


def carrier_of(settings: Settings, layout: Layout) -> Carrier:
    """The carrier of a federation. ValueError if its updates cannot be protected as the file says."""
    from tacit.kinds.horizontal import alone, masked  # which import this module

    return masked.Carrier.of(settings, layout) if settings.masked else alone.Carrier.of(settings, layout)
