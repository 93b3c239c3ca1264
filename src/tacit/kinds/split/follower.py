"""A follower: features and a bottom network (topology V), or the trunk between the leader's two ends (topology U)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from numpy.random import Generator
from torch import Tensor

from tacit.channel import Channel
from tacit.errors import TOLD, PeerError
from tacit.kinds.split.common_terms import (
    EVALUATION,
    RECORDS,
    Outcome,
    Shape,
    as_tensor,
    bits_of,
    check_reached,
    check_shape,
    close_epoch,
    compare,
    generator,
    metered,
    offer,
    probed,
    progress_of,
    record_ledger,
    refuse_mixing,
    saves,
    schedule_of,
    started,
)
from tacit.kinds.split.learner import Learner, State
from tacit.kinds.split.messages import OFFER, Activations, Gradient, Reached, Start
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, FollowerPart, Rows, Trunk, modules
from tacit.kinds.split.tensors import (
    activations_limit,
    activations_message,
    gradient_message,
    take_activations,
    take_gradient,
)
from tacit.lockstep.context import Context
from tacit.lockstep.exchange import exchange, telling, to_each
from tacit.lockstep.progress import Progress
from tacit.lockstep.schedule import Schedule
from tacit.lockstep.traffic import Metered


def follower(
    channels: Mapping[str, Channel], settings: Settings, party: str, part: FollowerPart, context: Context[State]
) -> Outcome:
    """Train this party's part with the leader, to the end. Sees gradients of its activations, and in U activations."""
    leader = metered(channels[settings.leader])
    with telling(to_each([leader]), TOLD):
        return _Follower(leader, settings, party, part, context).train()


def predict(
    channels: Mapping[str, Channel], settings: Settings, party: str, part: FollowerPart, rows: Rows | None = None
) -> None:
    """Help the leader to predict: send activations of `rows` (V), or pass the leader's through the trunk (U)."""
    leader = metered(channels[settings.leader])
    rows = rows or Rows()
    with telling(to_each([leader]), TOLD):
        own = _Follower(leader, settings, party, part, Context())
        start = own.agree("predict", 0, len(rows))
        own.pay_for_scores()
        own.evaluate(rows, start.test_records, 0)


class _Follower:
    def __init__(
        self, leader: Metered, settings: Settings, party: str, part: FollowerPart, context: Context[State]
    ) -> None:
        self._leader = leader
        self._settings = settings
        self._name = settings.leader
        self._part = part
        self._context = context
        self._rng: Generator = generator(context, settings, party)
        self._own = isinstance(part, Bottom)  # whether the records are this party's
        ledgers = {RECORDS: record_ledger(settings), EVALUATION: record_ledger(settings)} if self._own else {}
        self._learner = Learner(modules(part), settings.train, ledgers)

    def agree(self, purpose: str, records: int, test_records: int) -> Start:
        """Compare what both sides will do, and hear from the leader where to begin."""
        part = self._part
        back_cut = part.back_cut if isinstance(part, Trunk) else ()
        mine = offer(self._context, self._settings, purpose, (records, test_records), part.cut, back_cut)
        heard = exchange({self._name: self._leader}, {self._name: mine}, OFFER, first=False)[self._name]
        compare(mine, heard, self._name)
        start = self._leader.recv(Start, 256)
        counts = (records, test_records) if self._own else (heard.records, heard.test_records)
        if (start.records, start.test_records) != counts:
            raise PeerError(
                f"numbers of records disagree: {self._name} begins with {start.records} and {start.test_records}, "
                f"{counts[0]} and {counts[1]} were agreed on"
            )
        return start

    def train(self) -> Outcome:
        part, settings, learner = self._part, self._settings, self._learner
        rows, test = (part.train, part.test) if isinstance(part, Bottom) else (Rows(), Rows())
        if isinstance(part, Bottom):
            probed(part.network, part.train.features, part.cut, "bottom network")
            if settings.embedding is not None and settings.embedding.eps is not None:
                refuse_mixing(modules(part), "so that a record's bits are not its own")
        start = self.agree("train", len(rows), len(test))
        schedule = schedule_of(settings, len(rows) if self._own else start.records)
        progress = self._begin(schedule, start.step)
        batches = schedule.from_step(start.step) if self._own else schedule.sizes_from(start.step)
        for step, batch in batches:
            if step % schedule.steps == 0:
                self._spend(RECORDS)
            if isinstance(part, Bottom):
                self._step_bottom(part, step, as_tensor(rows.features[batch]))  # type: ignore[index]
            else:
                self._step_trunk(part, step, (len(batch),))
            progress.stepped(learner.step, len(batch))
            if start.test_records and schedule.evaluates(learner.step, settings.evaluate):
                self._spend(EVALUATION)
                self.evaluate(test, start.test_records, learner.step)
            self._save(schedule)
            if schedule.ends_epoch(learner.step):
                close_epoch(progress, settings, step // schedule.steps, learner.ledgers.get(RECORDS), {})
        return Outcome(learner.state(), learner.ledgers, self._leader.sent, self._leader.received)

    def pay_for_scores(self) -> None:
        self._spend(EVALUATION)

    def evaluate(self, rows: Rows, count: int, step: int) -> None:
        """Send activations of `count` records, or pass the leader's through the trunk; nothing is learnt."""
        self._learner.train(False)
        with torch.no_grad():
            for first in range(0, count, self._settings.train.batch):
                records = min(self._settings.train.batch, count - first)
                if isinstance(self._part, Bottom):
                    features = rows.features[first : first + records]  # type: ignore[index]
                    self._send(self._part.network(as_tensor(features)), step, (records, *self._part.cut))
                else:
                    arrived = self._receive(step, (records, *self._part.cut))
                    self._send(self._part.network(arrived), step, (records, *self._part.back_cut))
        self._learner.train(True)

    def _step_bottom(self, part: Bottom, step: int, features: Tensor) -> None:
        shape = (len(features), *part.cut)
        activations = part.network(features)
        self._send(activations, step, shape)
        gradient = self._gradient(step, shape)
        self._learner.clear()
        if activations.requires_grad:
            activations.backward(gradient)
        self._learner.advance()

    def _step_trunk(self, part: Trunk, step: int, batch: Shape) -> None:
        arrived = self._receive(step, (*batch, *part.cut))
        activations = part.network(arrived)
        self._send(activations, step, (*batch, *part.back_cut))
        gradient = self._gradient(step, (*batch, *part.back_cut))
        self._learner.clear()
        activations.backward(gradient)
        assert arrived.grad is not None  # noqa: S101
        self._leader.send(gradient_message(step, arrived.grad, self._settings.gradients.bits, self._rng))
        self._learner.advance()

    def _send(self, activations: Tensor, step: int, shape: Shape) -> None:
        check_shape(activations, shape, "network")
        protection = self._settings.embedding if self._own else None  # in U they are the leader's own records
        self._leader.send(activations_message(step, activations, protection, self._rng))

    def _receive(self, step: int, shape: Shape) -> Tensor:
        message = self._leader.recv(Activations, activations_limit(shape))
        return take_activations(message, step, shape, self._settings.embedding_dp is not None, self._name)

    def _gradient(self, step: int, shape: Shape) -> Tensor:
        message = self._leader.recv(Gradient, activations_limit(shape))
        return take_gradient(message, step, shape, self._settings.gradients.bits, self._name)

    def _begin(self, schedule: Schedule, step: int) -> Progress:
        restored = next((state for state in self._context.saved if state.step == step), None)
        if restored is None and (step or self._context.saved):  # from 0 it would forget what it has spent
            raise PeerError(f"{self._name} begins at step {step}, of which this party has saved nothing")
        if restored is not None:
            self._learner.restore(restored, self._context.spent)
            if step < schedule.total and step % schedule.steps:
                self._spend(RECORDS)  # what was sent after the save, and is sent once more
        else:
            self._learner.owe(self._context.spent)  # of a first save that was interrupted at another party
            self._context.keep(self._learner.state())
        self._learner.train(True)
        progress = progress_of(self._context, self._settings, schedule, [self._leader])
        protected = self._own and self._settings.embedding is not None
        notes = self._sentences(schedule) if protected else ()
        protection = "EmbeddingDP" if protected else "none of its own"
        begun = started(self._settings, schedule, protection, self._learner.parameters)
        progress.begin(begun, resumed=step or None, notes=notes)
        return progress

    def _sentences(self, schedule: Schedule) -> tuple[str, ...]:
        bits, vectors = bits_of(self._part.cut)
        assert self._settings.embedding is not None  # noqa: S101
        return self._settings.embedding.sentences(bits, max(1, schedule.visits), vectors)

    def _spend(self, ledger: str) -> None:
        """Pay for one visit of each record, before any of them is sent."""
        if self._own and self._settings.embedding is not None:
            bits, vectors = bits_of(self._part.cut)
            event = self._settings.embedding.event(bits, 1, vectors)
            if event is not None:
                self._learner.ledgers[ledger].spend(event)
        self._context.paid(self._learner.spent())

    def _save(self, schedule: Schedule) -> None:
        if not saves(schedule, self._settings, self._learner.step):
            return
        self._leader.send(Reached(self._learner.step))
        check_reached(self._leader.recv(Reached, 64), self._learner.step, self._name)
        self._context.keep(self._learner.state())
