"""What a protection is: how updates or inference vectors leave a client, what that costs, and every word about it.

    Described           what both kinds of protection say of themselves, for settings, plan, report and audit
    Protection          of updates; its `mechanism` is what one of the two carriers needs
    Alone               of updates that travel one by one, each in an `Update`
    Inside              of updates that are added up under the masks of a secure aggregation
    VectorProtection    of inference vectors

One that promises an epsilon has a price, a claim and tests of its noise, or it is refused: see `check_offered`.

A protection inherits from its Protocol, for the defaults. It adds no message of its own: it says what its numbers are
in the message of its carrier.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp.claim import Claim
from tacit.dp.release import Event, Released
from tacit.fixedpoint import Floats
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.vector import Flat, is_finite, largest
from tacit.secagg.unmask import Words
from tacit.sections import Section

if TYPE_CHECKING:
    from tacit.audit.attacks.mechanisms import Effort
    from tacit.audit.finding import Finding
    from tacit.audit.scope import Scope
    from tacit.kinds.horizontal.settings import Settings
    from tacit.kinds.horizontal.sums import Group, Sum
    from tacit.kinds.horizontal.task import Task

Attack = Literal["closed form", "DLG", "cosine DLG", "imprint"]
Target = Literal["upload", "sum"]
Covers = Literal["updates", "inference vectors", "training records"]
Loss = tuple[float, int]  # a client's training loss, and its weight
ENORMOUS = 1e30  # no number of an honest model or update is larger
SMALLEST_CLIP = 1e-6  # of the first clipping norm: an adaptive one does not fall below this part of it


@dataclass(frozen=True, slots=True)
class Cost:
    """What one round releases: `count` times the event."""

    covers: Covers
    event: Event
    count: int = 1


@dataclass(frozen=True, slots=True)
class Price:
    """What a round costs a client: what leaves it by itself, and the sums that secure aggregation opens."""

    local: tuple[Cost, ...] = ()
    central: tuple[Cost, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.local or self.central)


@dataclass(frozen=True, slots=True)
class Limit:
    """What noise was sized for over a whole run: no sum beyond it is opened."""

    key: str  # of the file
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class NoiseTest:
    """An audit of a protection's noise, on the task of the file; `left_out` says what a quick audit misses."""

    name: str
    find: Callable[[Scope, Effort, Task], Finding]
    left_out: str | None = None  # None: a quick audit has it too
    bounds: bool = True  # whether it gives a lower bound on epsilon: all of these share one confidence


def noise_on_updates(clip: float, one: float, clients: int) -> str:
    """Noise of the norm `one` on each upload against updates of at most `clip`, as a sentence for the plan."""
    mean = one / math.sqrt(clients)
    return (
        f"An update has a norm of at most {clip:.3g}; the noise on one upload has a norm of about {one:.3g} "
        f"({one / clip:.3g} times as much), that on the mean of {clients} one of about {mean:.3g} "
        f"({mean / clip:.3g} times)."
    )


def inference_vectors(settings: Settings, how: str) -> tuple[Release, ...]:
    """The vectors of a client that infers, protected like this; nothing where none does."""
    if settings.unsupervised is None:
        return ()
    what = f"inference results on {settings.unsupervised.vectors} of its samples, a vector of probabilities each"
    return (Release("Inference", "vectors", what, how),)


class UnusableUpdate(ValueError):
    """What a client's training returned cannot be used. Others may read the words: they hold no private values."""


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What came of a client's training."""

    base: Flat  # the model that it was sent
    model: Flat
    samples: int
    loss: float | None = None

    def update(self) -> Flat:
        """What was learnt; UnusableUpdate where its numbers cannot be."""
        if not is_finite(self.model):
            raise UnusableUpdate("its training gave NaN or infinite numbers")
        with np.errstate(over="ignore", invalid="ignore"):
            update = np.asarray(self.model - self.base)
        if not largest(update) <= ENORMOUS:
            raise UnusableUpdate("its training gave enormous numbers")
        return update


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """What leaves a client in an `Update`, and the event that it is: one that its price names, or none."""

    vector: Flat
    samples: int | None = None
    loss: float | None = None
    event: Event | None = None


@runtime_checkable
class Alone(Protocol):
    """Updates that travel one by one."""

    @property
    def clip(self) -> float | None:
        """The L2 norm that updates are clipped to in the first round; None if they are not clipped."""

    def upload(self, learned: Learned, clip: float | None, rng: Generator | None) -> Upload:
        """At the client. The vector has the dtype of the model, `learned.base.dtype`, and is not written to afterwards;
        `clip` is an L2 norm."""

    def add(self, into: Sum | Group, message: Update) -> Loss | None:
        """At the coordinator, or a worker of its own: take one, or refuse it with PeerError."""

    def largest_norm(self, clip: float | None) -> float:
        """No honest update is longer, in L2."""

    def next_clip(self, clip: float, norm: float) -> float:
        """The clipping norm after a mean update of this norm, both in L2."""

    def seen(self, message: Update, base: Flat) -> Flat:
        """A client's update as its message shows it."""


@runtime_checkable
class Inside(Protocol):
    """Updates under the masks of a secure aggregation.

    Words are unsigned, of the type `fixedpoint.word_type` of the bits of `ring`, and are added modulo 2 to the power of
    these bits: a negative number is its complement, see `fixedpoint.residues` and `fixedpoint.signed`. `rotation` is
    public, and the same for all clients of a round and its coordinator: a seed for what they must draw alike, as the
    rotation that spreads an update over its columns. One that needs none ignores it.
    """

    @property
    def ring(self) -> tuple[int, int]:
        """Columns, and bits of each: 8 to 64."""

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        """At the client."""

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        """At the coordinator: the mean of an opened sum, in memory that is the caller's from here on."""

    def weight(self, words: Words, survivors: int) -> float:
        """What the coordinator learns of all weights in an opened sum: their sum, or how many survived."""

    def seen(self, words: Words, rotation: bytes) -> Flat:
        """One client's words, read as if they had no mask."""


@runtime_checkable
class Clips(Protocol):
    """What an `Inside` that clips numbers one by one may offer besides: the client is told how many it lost."""

    def beyond(self, update: Flat) -> int:
        """How many numbers of an update are clipped."""


class Described(Protocol):
    """What a protection says of itself. `settings` are those of a file that chose it."""

    name: ClassVar[str]  # as in a file
    label: ClassVar[str]  # on the pages of a report
    summary: ClassVar[str]  # in an audit
    section: ClassVar[str]  # of `encrypt` that has its keys: "options" of one from outside; "" if it has none
    protects: ClassVar[bool]  # False: in the clear
    promises: ClassVar[bool]  # an epsilon: then there is a price, and only then
    options: ClassVar[type[Section] | None] = None  # the keys under encrypt.options, of a protection from outside

    def check(self, settings: Settings) -> None:
        """Raise ValueError for values that do not fit together."""
        return None

    def notes(self, settings: Settings) -> list[str]:
        """Warnings about settings that are legal."""
        return []

    @abstractmethod
    def unprotected(self, settings: Settings) -> list[str]:
        """What it leaves open."""

    @abstractmethod
    def price(self, settings: Settings, size: int) -> Price:
        """What a round costs, for a model of `size` numbers."""

    @abstractmethod
    def releases(self, settings: Settings) -> tuple[Release, ...]:
        """What it puts into the message of its carrier; `boundary` adds the carrier's own."""

    @abstractmethod
    def noise(self, settings: Settings, size: int) -> list[str]:
        """Noise against signal, for the plan."""

    def tests(self, settings: Settings) -> Sequence[NoiseTest]:
        """Audits of its noise."""
        return ()


class Protection(Described, Protocol):
    """A protection of updates."""

    masked: ClassVar[bool]  # which carrier: under masks, or alone
    weighted: ClassVar[bool]  # whether a client counts as much as the samples that it says it has
    hides_failure: ClassVar[bool]  # whether a client whose training failed sends noise around nothing
    sized_for_rounds: ClassVar[bool] = False  # whether its noise is, or for `settings.most_sums`: then they are fixed
    inversions: ClassVar[tuple[tuple[Attack, Target], ...]]  # attacks on gradients that are worth trying

    @abstractmethod
    def mechanism(self, settings: Settings, size: int) -> Alone | Inside:
        """What its carrier needs: Inside if it is masked, else Alone."""

    def limit(self, settings: Settings) -> Limit | None:
        """What its noise is sized for, if for all rounds together."""
        return None

    def minimum(self, settings: Settings) -> int | None:
        """Survivors without whom no sum is opened; None if masks alone decide."""
        return None

    def claim(self, settings: Settings) -> Claim | None:
        """What is proved of one round."""
        return None

    def least_release(self, settings: Settings) -> str | None:
        """The release that knows what it sends, if the one before it does not: all parties need it then."""
        return None

    def one_round(self, settings: Settings, price: Price) -> dict[str, Any]:
        """The keys of its section for a run of one round that promises what a round of this one does."""
        return {}

    def in_brief(self, settings: Settings) -> str:
        """Its name, and what of its settings matters to an attack."""
        return self.name


class VectorProtection(Described, Protocol):
    """A protection of inference vectors."""

    @abstractmethod
    def protect(self, settings: Settings, rows: Floats, rng: Generator | None) -> Released[Floats] | Floats:
        """At the client: rows of the probability simplex as they leave it."""

    @abstractmethod
    def largest(self, settings: Settings) -> float | None:
        """No honest entry is larger; None if rows are probabilities still."""

    @abstractmethod
    def scale(self, settings: Settings) -> float | None:
        """Of the noise on each entry; None without noise."""

    @abstractmethod
    def scored(self, settings: Settings) -> str:
        """What a score of such vectors says about the model."""
