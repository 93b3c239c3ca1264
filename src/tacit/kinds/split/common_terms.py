"""What leader and followers have in common: the order of batches, comparing offers, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn

from tacit.channel import Channel
from tacit.dp.accounting import Budget, Ledger
from tacit.errors import PeerError, Unfit
from tacit.events import TrainingStarted
from tacit.kinds.split.learner import State
from tacit.kinds.split.messages import Activations, Gradient, Offer, Reached, Start
from tacit.kinds.split.settings import Settings
from tacit.lockstep.context import Context
from tacit.lockstep.exchange import meeting_point
from tacit.lockstep.progress import Progress
from tacit.lockstep.schedule import Schedule
from tacit.lockstep.traffic import Metered
from tacit.randomness import secure_rng, seeded_rng
from tacit.training.checks import mixing

RECORDS, EVALUATION, LABELS = "records", "evaluation records", "labels"  # whose ledgers a party keeps
Shape = tuple[int, ...]
_ORDER = 41  # of the seed's streams


def generator(context: Context[State], settings: Settings, party: str) -> Generator:
    """What a party draws its noise from."""
    seed = settings.simulation.insecure_noise_seed
    if context.rng is not None:
        return context.rng
    return secure_rng() if seed is None else seeded_rng(seed + list(settings.parties).index(party))


def schedule_of(settings: Settings, records: int) -> Schedule:
    """In each epoch all records once, in batches of `train.batch`; the last may be smaller."""
    batch, seed = settings.train.batch, settings.seed
    return Schedule(
        records,
        settings.train.epochs,
        -(-records // batch),
        lambda epoch: np.random.default_rng([seed, _ORDER, epoch]).permutation(records),
        lambda step: slice(step * batch, min((step + 1) * batch, records)),
        settings.train.steps,
    )


def metered(channel: Channel) -> Metered:
    return Metered(channel, Offer | Start | Activations | Gradient | Reached)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a party has at the end: its own part, and what it spent."""

    state: State
    ledgers: Mapping[str, Ledger]
    bytes_sent: int
    bytes_received: int
    metrics: Mapping[str, float] = field(default_factory=dict)  # only the leader's


def offer(
    context: Context[State],
    settings: Settings,
    purpose: str,
    counts: tuple[int, int],
    cut: Shape,
    back_cut: Shape = (),
) -> Offer:
    """What a party will do, with so many records to train on and to evaluate, and how its part of the cut looks."""
    schedule, protection = schedule_of(settings, counts[0]), settings.embedding_dp
    return Offer(
        purpose,
        settings.topology,
        *counts,
        settings.train.batch,
        schedule.steps,
        schedule.total,
        cut,
        back_cut,
        "float32",
        None if protection is None else protection.eps,
        protection is not None,
        tuple(sorted({state.step for state in context.saved}))[-4:],
    )


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


def first_step(offers: Sequence[Offer]) -> int:
    """The latest step that all parties can resume at. Where nobody has saved a step, all begin anew."""
    if not any(step for offer in offers for step in offer.reached):
        return 0
    reached = [offer.reached for offer in offers]
    return meeting_point(reached, "no step at which all parties have saved their part")


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


def progress_of(
    context: Context[State],
    settings: Settings,
    schedule: Schedule,
    channels: Collection[Metered],
    unit: str = "records",
    units: int = 1,
) -> Progress:
    """Tells of every few steps, and of the last."""

    def due(done: int, seconds: float) -> bool:
        return done % settings.lines == 0 or done == schedule.total

    return Progress(context, channels, schedule.steps, due, unit, units)


def started(settings: Settings, schedule: Schedule, protection: str, parameters: int) -> TrainingStarted:
    parties, epochs = len(settings.parties), settings.train.epochs
    return TrainingStarted(settings.name, settings.kind, parties, epochs, schedule.steps, protection, parameters)


def close_epoch(
    progress: Progress, settings: Settings, epoch: int, ledger: Ledger | None, metrics: Mapping[str, float]
) -> None:
    """Tell what an epoch came to. `ledger` is that of the party's records, where everything that leaves it of them is
    protected; None otherwise."""
    if settings.simulation.insecure_noise_seed is not None:
        ledger = None  # a reader of the seed can remove the noise
    epsilon, delta = (None, None) if ledger is None else spent_epsilon(ledger, settings.gradients.delta)
    local = {} if progress.mean_loss is None else {"loss": progress.mean_loss}
    progress.finished(epoch, metrics=metrics, local=local, epsilon=epsilon, delta=delta)


def spent_epsilon(ledger: Ledger, delta: float) -> tuple[float | None, float | None]:
    """Epsilon and delta of what was spent; None where nothing was promised."""
    if not ledger.lines:
        return None, None
    pure = ledger.pure_epsilon()
    return (pure, 0.0) if pure < float("inf") else (ledger.epsilon(delta), delta)
