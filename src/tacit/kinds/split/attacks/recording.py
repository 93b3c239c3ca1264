"""What the parties of a split training see at the cut: the messages of a real training, recorded.

    record_cut(settings, parts)         train, and keep each party's messages
    Recording.view(party, other)        what `party` saw of `other`: attacks take that, and what they say they know
    withhold(settings, parts, share)    records that are taken out of the training and given to the attacker
    at_most(parts, records)             the first records of the training only

Everybody can compute which record is in which row of a message: batches follow from the file's seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.inversion import one_thread
from tacit.channel import Channel, Party, Recorded, Recorder, run_parties
from tacit.kinds.split.common_terms import Outcome, schedule_of
from tacit.kinds.split.follower import follower
from tacit.kinds.split.leader import leader
from tacit.kinds.split.learner import State
from tacit.kinds.split.messages import Activations, Gradient, Start
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, Ends, Part, Rows, Top, Trunk, aligned
from tacit.kinds.split.tensors import take_activations, take_gradient
from tacit.lockstep.context import Context
from tacit.lockstep.schedule import Schedule
from tacit.randomness import seeded_rng

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
_WITHHELD = 43  # of the seed's streams


@dataclass(frozen=True, slots=True, eq=False)
class CutView:
    """One party's messages with another, in order. Tensors are by record: [visit, record, ...]."""

    settings: Settings
    party: str
    other: str
    log: tuple[Recorded, ...]

    @property
    def schedule(self) -> Schedule:
        return schedule_of(self.settings, self._start.records)

    @property
    def _start(self) -> Start:
        return next(entry.message for entry in self.log if isinstance(entry.message, Start))

    @property
    def _evaluation(self) -> int:
        """Messages of one evaluation."""
        return -(-self._start.test_records // self.settings.train.batch)

    def activations(self) -> Floats:
        """Activations of the training records that this party saw; bits as -1 and 1."""
        return self._by_record([rows for rows, evaluated in self._forward() if not evaluated])

    def evaluated(self) -> Floats:
        """Those of the test records, in the last evaluation."""
        rows = [rows for rows, evaluated in self._forward() if evaluated]
        if not rows:
            raise ValueError("no test records were evaluated: give the task a part to hold back")
        return np.concatenate(rows[-self._evaluation :])

    def gradients(self) -> Floats:
        """The gradient of each training record's own loss that this party saw at the cut."""
        bits = self.settings.gradients.bits
        rows = []
        for message in (entry.message for entry in self.log if entry.way == "seen"):
            if isinstance(message, Gradient):
                found = take_gradient(message, message.step, message.shape, bits, self.other).numpy()
                rows.append(found * np.float32(len(found)))  # of the mean over a batch
        return self._by_record(rows)

    def _forward(self) -> Iterator[tuple[Floats, bool]]:
        """Activations that were seen, and whether they are of an evaluation."""
        quantized = self.settings.embedding_dp is not None
        seen = (e.message for e in self.log if e.way == "seen" and isinstance(e.message, Activations))
        schedule = self.schedule
        for step in range(1, schedule.total + 1):
            evaluations = self._evaluation if schedule.evaluates(step, self.settings.evaluate) else 0
            for place in range(1 + evaluations):
                message = next(seen)
                rows = take_activations(message, message.step, message.shape, quantized, self.other)
                yield rows.detach().numpy(), place > 0

    def _by_record(self, rows: list[Floats]) -> Floats:
        """Whole epochs only, so that each record has as many visits."""
        schedule = self.schedule
        epochs = schedule.total // schedule.steps
        if not epochs:
            raise ValueError(f"an epoch has {schedule.steps} steps, the training {schedule.total}: train for longer")
        values = np.empty((epochs, schedule.records, *rows[0].shape[1:]), dtype=np.float32)
        for (step, batch), row in zip(schedule.from_step(0), rows, strict=True):
            if step // schedule.steps < epochs:
                values[step // schedule.steps, batch] = row
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A training, with the messages of each party. The parts are the trained ones."""

    settings: Settings
    parts: Mapping[str, Part]
    outcomes: Mapping[str, Outcome]
    logs: Mapping[tuple[str, str], list[Recorded]]

    def view(self, party: str, other: str) -> CutView:
        return CutView(self.settings, party, other, tuple(self.logs[party, other]))


def record_cut(settings: Settings, parts: Mapping[str, Part], *, seeded: bool = True) -> Recording:
    """Train all parties in memory and keep what each of them saw.

    Noise comes from the file's seed, so that an audit can be repeated: nothing of it is released. If not `seeded`, it
    comes from the operating system, as in a real run.
    """
    recorders: dict[tuple[str, str], Recorder] = {}

    def recorded(name: str, party: Party[Outcome]) -> Party[Outcome]:
        def live(channels: Mapping[str, Channel]) -> Outcome:
            own: dict[str, Channel] = {}
            for other, channel in channels.items():
                own[other] = recorders[name, other] = Recorder(channel)
            return party(own)

        return live

    with one_thread():
        outcomes = run_parties(
            {name: recorded(name, party) for name, party in parties_of(settings, parts, seeded=seeded).items()}
        )
    return Recording(settings, parts, outcomes, {key: recorder.log for key, recorder in recorders.items()})


def parties_of(settings: Settings, parts: Mapping[str, Part], *, seeded: bool = True) -> dict[str, Party[Outcome]]:
    """All parties of a training, with noise from the file's seed or from the operating system."""

    def live(name: str, place: int, channels: Mapping[str, Channel]) -> Outcome:
        rng = seeded_rng((settings.seed << 8) + place) if seeded else None
        context, part = Context[State](rng=rng), parts[name]
        if isinstance(part, Top | Ends):
            return leader(channels, settings, part, context)
        return follower(channels, settings, name, part, context)

    return {name: partial(live, name, place) for place, name in enumerate(settings.parties)}


def withhold(settings: Settings, parts: Mapping[str, Part], share: float) -> tuple[dict[str, Part], dict[str, Rows]]:
    """The parts without a `share` of their training records, and those records, by party: public to the attacker."""
    lead = parts[settings.leader]
    if not isinstance(lead, Top | Ends):
        raise ValueError(f"{settings.leader} has the part of a follower")
    order = np.random.default_rng([settings.seed, _WITHHELD]).permutation(len(lead.train))
    public, private = np.split(order, [int(share * len(order))])
    given = {name: part.train.take(public) for name, part in parts.items() if not isinstance(part, Trunk)}
    return {name: chosen(part, private) for name, part in parts.items()}, given


def at_most(parts: Mapping[str, Part], records: int | None) -> dict[str, Part]:
    """The parts with the first `records` of their training records; with all for None."""
    return {
        name: part if isinstance(part, Trunk) else chosen(part, np.arange(len(part.train))[:records])
        for name, part in parts.items()
    }


def without_test(parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts without records to evaluate on."""
    return {name: part if isinstance(part, Trunk) else replace(part, test=Rows()) for name, part in parts.items()}


def chosen(part: Part, order: Indices) -> Part:
    """The same part with these of its training records."""
    match part:
        case Bottom() | Top():
            return aligned(part, order)
        case Ends():
            return replace(part, train=part.train.take(order))
        case Trunk():
            return part
