"""The leader: labels and the top network (topology V), or the embedding and the head around a trunk (topology U)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from tacit.channel import Channel
from tacit.dp.accounting import Ledger
from tacit.errors import TOLD, PeerError, Unfit
from tacit.kinds.split.common_terms import (
    EVALUATION,
    LABELS,
    RECORDS,
    Outcome,
    Shape,
    as_tensor,
    bits_of,
    check_reached,
    check_shape,
    close_epoch,
    compare,
    first_step,
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
from tacit.kinds.split.costs import gradient_noise
from tacit.kinds.split.learner import Learner, State
from tacit.kinds.split.messages import OFFER, Activations, Gradient, Offer, Reached, Start
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Ends, LeaderPart, Rows, Top, modules
from tacit.kinds.split.tensors import (
    GradientNoise,
    activations_limit,
    activations_message,
    gradient_message,
    take_activations,
    take_gradient,
)
from tacit.lockstep.context import Context
from tacit.lockstep.exchange import exchange, telling, to_each
from tacit.lockstep.progress import Progress
from tacit.lockstep.schedule import Order, Schedule
from tacit.lockstep.traffic import Metered

Scores = NDArray[np.float32]


def leader(channels: Mapping[str, Channel], settings: Settings, part: LeaderPart, context: Context[State]) -> Outcome:
    """Train this party's part with all followers, to the end. Sees activations of the followers' features (V)."""
    own = {name: metered(channels[name]) for name in settings.followers}
    with telling(to_each(own.values()), TOLD):
        return _Leader(own, settings, part, context).train()


def predict(channels: Mapping[str, Channel], settings: Settings, part: LeaderPart, rows: Rows) -> Scores:
    """The network's scores of `rows`, of which the followers hold their features (V)."""
    own = {name: metered(channels[name]) for name in settings.followers}
    with telling(to_each(own.values()), TOLD):
        party = _Leader(own, settings, part, Context())
        party.agree("predict", 0, len(rows))
        party.pay_for_scores()
        return party.scores(rows, 0)


class _Leader:
    def __init__(
        self, channels: Mapping[str, Metered], settings: Settings, part: LeaderPart, context: Context[State]
    ) -> None:
        self._channels = channels
        self._settings = settings
        self._part = part
        self._context = context
        self._rng: Generator = generator(context, settings, settings.leader)
        ledgers = {RECORDS: record_ledger(settings), EVALUATION: record_ledger(settings)}
        if settings.label is not None:
            ledgers[LABELS] = Ledger("label", "replace-one")
        self._learner = Learner(modules(part), settings.train, ledgers)
        self._labels: NDArray[Any] = np.empty(0)
        self._noise: GradientNoise | None = None

    def agree(self, purpose: str, records: int, test_records: int) -> int:
        """Compare what all will do, and say where to begin."""
        offers = {name: self._offer(name, purpose, records, test_records) for name in self._channels}
        heard = exchange(self._channels, offers, OFFER, first=False)
        for name, theirs in heard.items():
            compare(offers[name], theirs, name)
            if self._settings.topology == "V" and (theirs.records, theirs.test_records) != (records, test_records):
                raise PeerError(
                    f"numbers of records disagree: {theirs.records} and {theirs.test_records} at {name}, {records} and "
                    f"{test_records} here: align the records"
                )
        step = first_step([next(iter(offers.values())), *heard.values()])
        for channel in self._channels.values():
            channel.send(Start(step, records, test_records))
        return step

    def _offer(self, follower: str, purpose: str, records: int, test_records: int) -> Offer:
        part, counts = self._part, (records, test_records)
        if isinstance(part, Ends):
            return offer(self._context, self._settings, purpose, counts, part.cut, part.back_cut)
        if follower not in part.cuts:
            raise Unfit(f"the task declares no cut for {follower}: its `cuts` are of {', '.join(part.cuts)}")
        return offer(self._context, self._settings, purpose, counts, part.cuts[follower])

    def train(self) -> Outcome:
        part, settings, learner = self._part, self._settings, self._learner
        if isinstance(part, Ends):
            probed(part.embedding, part.train.features, part.cut, "embedding")
        if settings.spends:
            refuse_mixing(modules(part), "so that what is protected of a record is not its own")
        for rows in (part.train, part.test):
            labels_of(rows)
        if not len(part.train):
            raise Unfit("the leader has no records to train on")
        start = self.agree("train", len(part.train), len(part.test))
        schedule = schedule_of(settings, len(part.train))
        self._noise = gradient_noise(settings, schedule)
        progress = self._begin(schedule, start)
        metrics: dict[str, float] = {}
        for step, batch in schedule.from_step(start):
            if step % schedule.steps == 0:
                self._spend(RECORDS)
            loss = self._step_top(part, step, batch) if isinstance(part, Top) else self._step_ends(part, step, batch)
            progress.stepped(learner.step, len(batch), loss)
            evaluated = len(part.test) > 0 and schedule.evaluates(learner.step, settings.evaluate)
            if evaluated:
                self._spend(EVALUATION)
                metrics = self._evaluate()
            self._save(schedule)
            if schedule.ends_epoch(learner.step):
                close_epoch(progress, settings, step // schedule.steps, self._covering(), metrics if evaluated else {})
        sent = sum(channel.sent for channel in self._channels.values())
        received = sum(channel.received for channel in self._channels.values())
        return Outcome(learner.state(), learner.ledgers, sent, received, metrics)

    def pay_for_scores(self) -> None:
        self._spend(EVALUATION)

    def scores(self, rows: Rows, step: int) -> Scores:
        """The scores of all records of `rows`; nothing is learnt."""
        found = []
        self._learner.train(False)
        with torch.no_grad():
            for first in range(0, len(rows), self._settings.train.batch):
                batch = np.arange(first, min(first + self._settings.train.batch, len(rows)))
                found.append(self._score(rows, batch, step)[0].numpy())
        self._learner.train(True)
        return np.concatenate(found) if found else np.empty(0, np.float32)

    def _score(self, rows: Rows, batch: Order, step: int) -> tuple[Tensor, list[Tensor], Tensor | None]:
        """The scores of a batch, the tensors that arrived for it, and what the embedding sent."""
        part = self._part
        if isinstance(part, Top):
            cuts = [
                self._receive(name, step, (len(batch), *part.cuts[name]), self._settings.embedding_dp is not None)
                for name in self._channels
            ]
            own = [part.bottom(as_tensor(rows.features[batch]))] if part.bottom is not None else []  # type: ignore[index]
            return part.network(*cuts, *own), cuts, None
        (name, channel), *_ = self._channels.items()
        sent = part.embedding(as_tensor(rows.features[batch]))  # type: ignore[index]
        check_shape(sent, (len(batch), *part.cut), "embedding")
        channel.send(activations_message(step, sent, self._settings.embedding, self._rng))
        arrived = self._receive(name, step, (len(batch), *part.back_cut), quantized=False)
        return part.head(arrived), [arrived], sent

    def _step_top(self, part: Top, step: int, batch: Order) -> float:
        scores, cuts, _ = self._score(part.train, batch, step)
        loss = self._backward(part, scores, batch)
        for name, cut in zip(self._channels, cuts, strict=True):
            self._send_gradient(name, step, cut)
        self._learner.advance()
        return loss

    def _step_ends(self, part: Ends, step: int, batch: Order) -> float:
        scores, (arrived,), sent = self._score(part.train, batch, step)
        loss = self._backward(part, scores, batch)
        (name, channel), *_ = self._channels.items()
        self._send_gradient(name, step, arrived)
        shape = (len(batch), *part.cut)
        message = channel.recv(Gradient, activations_limit(shape))
        gradient = take_gradient(message, step, shape, self._settings.gradients.bits, name)
        if sent is not None and sent.requires_grad:
            sent.backward(gradient)
        self._learner.advance()
        return loss

    def _backward(self, part: LeaderPart, scores: Tensor, batch: Order) -> float:
        loss = part.loss(scores, as_tensor(self._labels[batch]))
        self._learner.clear()
        loss.backward()
        return float(loss.detach())

    def _receive(self, name: str, step: int, shape: Shape, quantized: bool) -> Tensor:
        message = self._channels[name].recv(Activations, activations_limit(shape))
        return take_activations(message, step, shape, quantized, name)

    def _send_gradient(self, name: str, step: int, arrived: Tensor) -> None:
        gradient = torch.zeros_like(arrived) if arrived.grad is None else arrived.grad
        if self._noise is not None:
            gradient = torch.from_numpy(self._noise.protect(gradient.numpy(), self._rng))
        self._channels[name].send(gradient_message(step, gradient, self._settings.gradients.bits, self._rng))

    def _evaluate(self) -> dict[str, float]:
        test = self._part.test
        scores = self.scores(test, self._learner.step)
        labels = labels_of(test)
        batch = self._settings.train.batch
        with torch.no_grad():
            losses = [
                float(self._part.loss(torch.from_numpy(scores[i : i + batch]), as_tensor(labels[i : i + batch])))
                * len(scores[i : i + batch])
                for i in range(0, len(scores), batch)
            ]
        found = {"loss": sum(losses) / len(scores)}
        return found if self._part.metrics is None else {**found, **self._part.metrics(scores, labels)}

    def _begin(self, schedule: Schedule, step: int) -> Progress:
        restored = next((state for state in self._context.saved if state.step == step), None)
        if restored is not None:
            self._learner.restore(restored, self._context.spent)
            if step < schedule.total and step % schedule.steps:
                self._spend(RECORDS)  # what was sent after the save, and is sent once more
        else:
            self._learner.owe(self._context.spent)  # of a first save that was interrupted at another party
            self._randomize_labels()
        self._labels = self._learner.extra.get(LABELS, labels_of(self._part.train))
        if restored is None:
            self._context.keep(self._learner.state())  # randomized labels are drawn once, also after an interruption
        self._learner.train(True)
        unit, units = (self._part.unit, self._part.units) if isinstance(self._part, Ends) else ("records", 1)
        progress = progress_of(self._context, self._settings, schedule, self._channels.values(), unit, units)
        begun = started(self._settings, schedule, _protection(self._settings), self._learner.parameters)
        progress.begin(begun, resumed=step or None, notes=self._sentences(schedule))
        return progress

    def _randomize_labels(self) -> None:
        """Each label once, before anything is computed from it."""
        protection = self._settings.label
        if protection is not None:
            released = protection.release(labels_of(self._part.train), self._part.classes, self._rng)
            self._learner.extra[LABELS] = self._learner.ledgers[LABELS].release(released)

    def _sentences(self, schedule: Schedule) -> tuple[str, ...]:
        found: tuple[str, ...] = ()
        if isinstance(self._part, Ends) and self._settings.embedding is not None:
            bits, vectors = bits_of(self._part.cut)
            found = self._settings.embedding.sentences(bits, max(1, schedule.visits), vectors)
        return (*found, *self._settings.notes())

    def _spend(self, ledger: str) -> None:
        """Pay for one visit of each record, before anything of it is sent."""
        settings, part = self._settings, self._part
        if isinstance(part, Ends) and settings.embedding is not None:
            bits, vectors = bits_of(part.cut)
            event = settings.embedding.event(bits, 1, vectors)
            if event is not None:
                self._learner.ledgers[ledger].spend(event)
        if self._noise is not None and ledger == RECORDS:
            cuts = part.cuts.values() if isinstance(part, Top) else [part.back_cut]
            for cut in cuts:
                self._learner.ledgers[ledger].spend(self._noise.event(bits_of(cut)[0]))
        self._context.paid(self._learner.spent())

    def _covering(self) -> Ledger | None:
        """The ledger that covers all that leaves this party of its records; None where something is in the clear."""
        settings = self._settings
        if settings.simulation.insecure_noise_seed is not None:
            return None
        if settings.gradients.protection == "none":
            labels_only = isinstance(self._part, Top) and self._part.bottom is None
            return self._learner.ledgers.get(LABELS) if labels_only else None
        if settings.topology == "U" and settings.embedding_dp is None:
            return None
        return self._learner.ledgers[RECORDS]

    def _save(self, schedule: Schedule) -> None:
        if not saves(schedule, self._settings, self._learner.step):
            return
        for name, channel in self._channels.items():
            check_reached(channel.recv(Reached, 64), self._learner.step, name)
        for channel in self._channels.values():
            channel.send(Reached(self._learner.step))
        self._context.keep(self._learner.state())


def labels_of(rows: Rows) -> NDArray[Any]:
    if rows.labels is None and len(rows):
        raise Unfit("the leader's records have no labels")
    return np.empty(0) if rows.labels is None else rows.labels


def _protection(settings: Settings) -> str:
    found = []
    if settings.embedding_dp is not None:
        found.append("EmbeddingDP" if settings.embedding_dp.eps is not None else "1-bit activations")
    if settings.label_dp is not None:
        found.append("LabelDP")
    if settings.gradients.protection == "noised":
        found.append("noised gradients")
    return ", ".join(found) or "none"
