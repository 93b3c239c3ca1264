"""What leader and followers have in common: the order of batches, comparing offers, and telling of failures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.channel import LIMIT, Channel, Failed, sentence
from tacit.dp.accounting import Budget, Ledger
from tacit.errors import TOLD, PeerAway, PeerError, Unfit
from tacit.kinds.split.learner import Ledgers, State
from tacit.kinds.split.messages import Activations, Gradient, Offer, Reached, Start, frame_bytes
from tacit.kinds.split.settings import Settings
from tacit.randomness import secure_rng, seeded_rng
from tacit.training.checks import mixing
from tacit.wire import Message

T = TypeVar("T")
RECORDS, EVALUATION, LABELS = "records", "evaluation records", "labels"  # whose ledgers a party keeps
Order = NDArray[np.int64]
Shape = tuple[int, ...]
Checkpoint = Callable[[State], None]
_ORDER = 41  # of the seed's streams


@dataclass(frozen=True, slots=True)
class Aids:
    """What surrounds a party: its clock, its randomness, and where its part is kept.

    `states` are those of an earlier, interrupted training, the last two or so: the parties go on from the latest that
    all of them have. `checkpoint` is called with this party's state once all have reached the same step. `paid` is
    called with the ledgers before anything leaves that they pay for, and `ledgers` are the last that it was given: what
    was sent after a save was sent, and is not forgotten with the steps.
    """

    clock: Callable[[], float] = time.perf_counter
    rng: Generator | None = None
    states: Sequence[State] = ()
    checkpoint: Checkpoint | None = None
    paid: Callable[[Ledgers], None] | None = None
    ledgers: Ledgers = field(default_factory=dict)

    def generator(self, settings: Settings, party: str) -> Generator:
        seed = settings.simulation.insecure_noise_seed
        if self.rng is not None:
            return self.rng
        return secure_rng() if seed is None else seeded_rng(seed + list(settings.parties).index(party))


PLAIN = Aids()


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which records each step takes: the same for whoever has the same seed and number of records."""

    records: int
    batch: int
    epochs: int
    seed: int
    limit: int | None = None  # steps in all

    @classmethod
    def of(cls, settings: Settings, records: int) -> Schedule:
        train = settings.train
        return cls(records, train.batch, train.epochs, settings.seed, train.steps)

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return -(-self.records // self.batch)

    @property
    def total(self) -> int:
        whole = self.steps * self.epochs
        return whole if self.limit is None else min(whole, self.limit)

    @property
    def visits(self) -> int:
        """How often a record crosses the cut in a training, at most."""
        return -(-self.total // self.steps) if self.steps else 0

    def order(self, epoch: int) -> Order:
        return np.random.default_rng([self.seed, _ORDER, epoch]).permutation(self.records)

    def size(self, step: int) -> int:
        """Records of a step."""
        return min(self.batch, self.records - step % self.steps * self.batch)

    def from_step(self, start: int) -> Iterator[tuple[int, Order]]:
        """Each step from `start` on, with its records."""
        epoch, order = -1, np.empty(0, dtype=np.int64)
        for step in range(start, self.total):
            if step // self.steps != epoch:
                epoch = step // self.steps
                order = self.order(epoch)
            first = step % self.steps * self.batch
            yield step, order[first : first + self.batch]

    def sizes_from(self, start: int) -> Iterator[tuple[int, range]]:
        """The same for who holds no records, and makes no list of as many as another party says there are."""
        for step in range(start, self.total):
            yield step, range(self.size(step))

    def ends_epoch(self, step: int) -> bool:
        """Whether this many steps end an epoch, or all of them."""
        return step % self.steps == 0 or step == self.total

    def evaluates(self, step: int, every: int) -> bool:
        return step == self.total or (step % self.steps == 0 and step // self.steps % every == 0)

    def evaluations(self, every: int) -> int:
        return sum(self.evaluates(step, every) for step in range(1, self.total + 1) if self.ends_epoch(step))


@dataclass(slots=True)
class Counted:
    """A channel that counts the bytes of its messages."""

    channel: Channel
    sent: int = 0
    received: int = 0

    def send(self, message: Message) -> None:
        try:
            self.channel.send(message)
        except PeerError:
            while True:  # what it said before it left tells more: the last of it raises
                self.channel.recv(Offer | Start | Activations | Gradient | Reached)  # type: ignore[arg-type]
        self.sent += frame_bytes(message)

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        message = self.channel.recv(kind, limit)
        self.received += frame_bytes(message) if isinstance(message, Message) else 0
        return message

    def close(self) -> None:
        self.channel.close()


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a party has at the end: its own part, and what it spent."""

    state: State
    ledgers: Mapping[str, Ledger]
    bytes_sent: int
    bytes_received: int
    metrics: Mapping[str, float] = field(default_factory=dict)  # only the leader's


@contextmanager
def telling(channels: Mapping[str, Channel]) -> Iterator[None]:
    """Where this party cannot go on, tell the others why, in one sentence."""
    try:
        yield
    except PeerAway:
        raise  # nothing is broken, and the others wait likewise
    except TOLD as error:
        for channel in channels.values():
            with suppress(PeerError, ValueError):
                channel.send(Failed(sentence(str(error))))
        raise


def compare(own: Offer, other: Offer, sender: str) -> None:
    """PeerError in one sentence where two offers do not fit; both sides find the same."""
    for name, what in (
        ("purpose", "purposes"),
        ("topology", "topologies"),
        ("batch", "batch sizes"),
        ("dtype", "types of activations"),
        ("quantized", "settings of embedding_dp"),
        ("eps", "eps of embedding_dp"),
    ):
        if getattr(own, name) != getattr(other, name):
            raise PeerError(
                f"{what} disagree: {getattr(other, name)} at {sender}, {getattr(own, name)} here: give all one file"
            )
    for name, what in (("cut", "cut dimensions"), ("back_cut", "cut dimensions of the way back")):
        mine, theirs = getattr(own, name), getattr(other, name)
        if mine != theirs:
            raise PeerError(f"{what} disagree: {_words(theirs)} at {sender}, {_words(mine)} here")
    if own.records and other.records:
        for name, what in (("steps", "batch counts"), ("records", "numbers of records"), ("total_steps", "steps")):
            if getattr(own, name) != getattr(other, name):
                raise PeerError(
                    f"{what} disagree: {getattr(other, name)} at {sender}, {getattr(own, name)} here: align the records"
                )
        if own.test_records != other.test_records:
            raise PeerError(
                f"numbers of test records disagree: {other.test_records} at {sender}, {own.test_records} here"
            )


def meeting_point(offers: Sequence[Offer]) -> int:
    """The latest step that all parties can resume at. Where nobody has saved a step, all begin anew."""
    common = set.intersection(*(set(offer.reached) for offer in offers))
    if not any(step for offer in offers for step in offer.reached):
        return 0
    if not common:
        places = "; ".join(", ".join(map(str, offer.reached)) or "none" for offer in offers)
        raise PeerError(f"no step at which all parties have saved their part ({places}): start all of them anew")
    return max(common)


def probed(network: nn.Module, features: Any, declared: Shape, name: str) -> None:
    """Unfit where `network` makes something else of a record than its part declares."""
    if features is None or not len(features):
        raise Unfit(f"there are no records for the {name}: give it features")
    was = network.training
    network.eval()
    try:
        with torch.no_grad():
            found = network(as_tensor(features[:1]))
    finally:
        network.train(was)
    if tuple(found.shape) != (1, *declared):
        raise Unfit(f"the {name} makes {_words(tuple(found.shape)[1:])} of a record, its cut is {_words(declared)}")
    if found.dtype != torch.float32:
        raise Unfit(f"the {name} makes {found.dtype}, torch.float32 crosses the cut: add .float() at its end")


def refuse_mixing(networks: Mapping[str, nn.Module], why: str) -> None:
    """Unfit where a layer mixes records, or keeps what it saw of them: then what leaves of one also depends on others.

    The list is that of private training. A forward that mixes records by hand is not noticed.
    """
    for name, network in networks.items():
        for place, module in network.named_modules():
            reason = mixing(module)
            if reason is not None:
                where = f"{name}.{place}" if place else name
                raise Unfit(f"{where} ({type(module).__name__}), {why}: {reason}")


def check_shape(tensor: Tensor, shape: Shape, name: str) -> None:
    if tuple(tensor.shape) != shape:
        raise Unfit(f"the {name} made {_words(tuple(tensor.shape))} of a batch, {_words(shape)} were agreed on")


def check_reached(reached: Reached, step: int, sender: str) -> None:
    if reached.step != step:
        raise PeerError(f"{sender} says that it reached step {reached.step}, this side is at step {step}")


def as_tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def record_ledger(settings: Settings) -> Ledger:
    """For what a party's records cost it."""
    given = settings.budget
    return Ledger("record", "replace-one", None if given is None else Budget(given.epsilon, given.delta))


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "nothing"


def saves(schedule: Schedule, settings: Settings, step: int) -> bool:
    """Whether all parties save their part after so many steps."""
    return schedule.ends_epoch(step) or (settings.train.save is not None and step % settings.train.save == 0)


def bits_of(cut: Shape) -> tuple[int, int]:
    """Bits of a record's activations, and vectors along the last axis."""
    bits = math.prod(cut)
    return bits, bits // cut[-1]
