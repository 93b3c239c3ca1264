"""An observer of a private training: every noisy mean gradient that the optimizer lets out, and every clipping norm.

    observe(training, plan, cast)       the file's task, model, loss and optimizer, attached as in a run; what was seen

The noise and the samples come from the operating system, as in a run. The attacker made some of the records (see
`canaries`) and decides for each step which of them are in the data: a record that is not is taken out of the sample. If
the plan protects owners, he makes owners: all records of such a one are the same canary.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Subset, TensorDataset

from tacit.audit.attacks.canaries import Planted, Spots
from tacit.audit.attacks.inversion import one_thread
from tacit.kinds.private_training.attacks.plan_sizes import of_each
from tacit.kinds.private_training.settings import Settings
from tacit.kinds.private_training.task import Task
from tacit.training.attach import attach
from tacit.training.optimizer import PrivateOptimizer
from tacit.training.plan import Plan
from tacit.training.record_source import Indices
from tacit.training.sampler import Loader, Piece

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Training:
    """A file's own training."""

    task: Task
    settings: Settings
    batch: int  # of the file's plan: learning rates are for means over so many

    def sizes(self) -> dict[str, int]:
        """The trained parameter tensors by name, in order."""
        return {name: each.numel() for name, each in self.task.model().named_parameters() if each.requires_grad}


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """Who takes part: a row of `present` for each step, a column for each record or owner."""

    spots: Spots  # see `canaries`
    lengths: Numbers  # of gradients that are made, in each of their coordinates, in clipping norms and with a sign
    present: Flags
    watched: Spots  # coordinates that the observer keeps
    fresh: bool  # each step begins with the first model and the first clipping norm


@dataclass(slots=True, eq=False)
class Seen:
    """What an observer has after so many samples."""

    released: Numbers  # [steps, watched], times batch over clipping norm: a noisy sum in which a canary has length 1
    clips: Numbers  # [steps, 2]: the clipping norm before and after
    drawn: Flags  # [steps, records or owners]: whom the sampler drew, whether in the data or not
    moves: NDArray[np.int64]  # [steps]: how often the inner optimizer moved the model
    steps: int = 0

    @property
    def silent(self) -> Flags:
        """Steps of which nothing came out."""
        return np.asarray(np.isnan(self.released).all(axis=1))


def observe(training: Training, plan: Plan, cast: Cast, each: int | None = None) -> Seen:
    """Train by `plan` and keep what an observer sees of it.

    `each`: how many records the attacker makes for each one of the cast: as many as take part of an owner.
    """
    each = of_each(plan) if each is None else each
    model = training.task.model()
    owners = np.arange(plan.records) // each if plan.unit == "owner" else None
    data = _records(training.task.records, plan.records)
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # of layers without a rule: a run says it
        inner = _optimizer(training, plan, model)
        _, optimizer, loader = attach(plan, model, inner, data, check=False, owners=owners)
        watch = _Watch(plan, cast, optimizer, loader, each)
        model.train()
        for _ in range(plan.epochs):
            for batch in loader:
                training.task.loss(model, batch).backward()
                optimizer.step()
        watch.close()
        optimizer.engine.detach()
    return watch.seen


@dataclass(slots=True, eq=False)
class _Watch:
    """Stands where samples are drawn, where pieces are handed out, and where the inner optimizer receives gradients."""

    plan: Plan
    cast: Cast
    optimizer: PrivateOptimizer
    loader: Loader
    each: int  # records of one of the cast
    seen: Seen = field(init=False)
    first: list[torch.Tensor] = field(init=False)
    places: list[tuple[Flags, torch.Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        steps, optimizer, sampler = self.plan.steps, self.optimizer, self.loader._sampler
        self.seen = Seen(
            np.full((steps, len(self.cast.watched)), np.nan),
            np.full((steps, 2), np.nan),
            np.zeros((steps, len(self.cast.spots)), dtype=np.bool_),
            np.zeros(steps, dtype=np.int64),
        )
        self.first = [each.detach().clone() for each in optimizer.engine.parameters]
        self.places = _places(self.cast.watched, [each.numel() for each in self.first])
        planted, draw, begin = Planted(optimizer.engine), sampler.sample, optimizer.begin

        def sample(step: int) -> Indices:
            self.close()
            return self._present(draw(step))

        def told(piece: Piece) -> None:
            who = piece.indices // self.each
            planted.aim(self.cast.spots[who], self.cast.lengths[who] * optimizer.clip_norm)
            begin(piece)

        sampler.sample = sample  # type: ignore[method-assign]
        optimizer.begin = told  # type: ignore[method-assign]
        optimizer.inner.register_step_pre_hook(lambda *given: self._receive())

    def _present(self, drawn: Indices) -> Indices:
        at = self.seen.steps
        if self.cast.fresh:
            self._restore()
            self.optimizer.clip_norm = float(self.plan.clip)
        self.seen.steps += 1
        if at >= self.plan.steps:  # a sample more than planned: nothing of it counts
            return drawn
        who = drawn // self.each
        self.seen.drawn[at, who] = True
        self.seen.clips[at, 0] = self.optimizer.clip_norm
        return np.asarray(drawn[self.cast.present[at, who]])

    def _receive(self) -> None:
        at = self.seen.steps - 1
        if at < self.plan.steps:
            self.seen.moves[at] += 1
            engine = self.optimizer.engine
            found = np.empty(len(self.cast.watched))
            for each, view, (inside, entries) in zip(engine.parameters, engine.views, self.places, strict=True):
                received = view if each.grad is None else each.grad
                found[inside] = received.flatten()[entries].double().numpy()
            self.seen.released[at] = found * (self.plan.batch / self.seen.clips[at, 0])

    def close(self) -> None:
        """The step under way is over: what it left is seen."""
        at = self.seen.steps - 1
        if 0 <= at < self.plan.steps:
            self.seen.clips[at, 1] = self.optimizer.clip_norm
        if not self.cast.fresh and not all(math.isfinite(each.sum()) for each in self.optimizer.engine.parameters):
            self._restore()  # noise alone moves a model too: it may leave the floats

    def _restore(self) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.optimizer.engine.parameters, self.first, strict=True):
                parameter.copy_(value)


def _places(watched: Spots, sizes: Sequence[int]) -> list[tuple[Flags, torch.Tensor]]:
    """For each parameter which of the watched coordinates are in it, and where."""
    found, start = [], 0
    for size in sizes:
        inside = (watched >= start) & (watched < start + size)
        found.append((inside, torch.from_numpy(watched[inside] - start)))
        start += size
    return found


def _records(records: Any, count: int) -> Any:
    """So many of the file's own records, over again where there are fewer."""
    chosen = np.arange(count) % len(records)
    if isinstance(records, TensorDataset):
        return TensorDataset(*(tensor[torch.from_numpy(chosen)] for tensor in records.tensors))
    return Subset(records, [int(index) for index in chosen])


def _optimizer(training: Training, plan: Plan, model: nn.Module) -> torch.optim.Optimizer:
    """The file's, whose steps are as long as in the file for a mean over another number of records."""
    from tacit.kinds.private_training.run import optimizer_of

    made = optimizer_of(training.settings, model)
    if training.settings.train.optimizer == "sgd":
        for group in made.param_groups:
            group["lr"] *= min(1.0, plan.batch / training.batch)
    return made
