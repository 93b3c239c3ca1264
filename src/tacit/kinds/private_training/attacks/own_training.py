"""A file's own private training as a subject: its task, its model and its plan, with and without privacy. Needs torch.

    Subject(task, settings, plan)       trains on some of the task's records; `membership` attacks what comes of it

Noise and samples are drawn from seeds: an audit can be repeated, and nothing of it is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Subset, default_collate

from tacit.audit.attacks.inversion import one_thread
from tacit.audit.attacks.membership import Indices, Losses, Predict
from tacit.key_stream import KEY_BYTES
from tacit.kinds.private_training.attacks.plan_sizes import with_units
from tacit.kinds.private_training.attacks.truncated import truncated_like
from tacit.kinds.private_training.settings import Settings
from tacit.kinds.private_training.task import Task
from tacit.randomness import seeded_rng
from tacit.training.attach import attach
from tacit.training.noise import Gaussian
from tacit.training.plan import Plan


class Subject:
    """Trains on some records of a task, by private SGD or plainly, with the optimizer of the file."""

    def __init__(self, task: Task, settings: Settings, plan: Plan, pool: Sequence[Indices], *, private: bool) -> None:
        """`plan` is of the file; the number of records is that of each training. `pool`: the records of each unit, one
        or those of an owner."""
        self._task = task
        self._settings = settings
        self._plan = plan
        self._pool = pool
        self._private = private
        self.figures: list[dict[str, float]] = []  # of the models trained so far, on public data

    def train(self, chosen: Indices, seed: int) -> Predict:
        """Train on the chosen ones of the pool."""
        records: Any = self._task.records
        groups = [self._pool[each] for each in chosen]
        data = Subset(records, [int(index) for group in groups for index in group])
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        model = self._task.model()
        plan = resized(self._plan, len(groups), len(data))
        with one_thread():
            (_privately if self._private else _plainly)(self._task, self._settings, plan, model, data, owners, seed)
            model.eval()
            with torch.no_grad():
                self.figures.append(self._task.evaluate(model))
        return lambda asked: self._losses(model, asked)

    def _losses(self, model: nn.Module, asked: Indices) -> Losses:
        records: Any = self._task.records
        with torch.no_grad(), one_thread():
            batches = [[records[int(index)] for index in self._pool[each]] for each in asked]
            found = [float(self._task.loss(model, default_collate(batch))) for batch in batches]
        return np.asarray(found, dtype=np.float64)


def resized(plan: Plan, units: int, records: int | None = None) -> Plan:
    """The plan for a few records or owners more or less: the same part of them in a sample, and so as many steps and
    about the same epsilon. `records`: of all owners together."""
    if units == plan.units and records in (None, plan.records):
        return plan
    batch = max(1, min(units, round(plan.batch * units / plan.units)))
    return truncated_like(plan, with_units(plan, units, batch, records))


def _privately(
    task: Task, settings: Settings, plan: Plan, model: nn.Module, data: Any, owners: Indices, seed: int
) -> None:
    inner = _optimizer(settings, model)
    whose = owners if plan.unit == "owner" else None
    _, optimizer, loader = attach(
        plan, model, inner, data, check=False, owners=whose, source=_source(model, seed), rng=seeded_rng(seed)
    )
    model.train()
    for _ in range(plan.epochs):
        for batch in loader:
            task.loss(model, batch).backward()
            optimizer.step()
    optimizer.engine.detach()


def _plainly(
    task: Task, settings: Settings, plan: Plan, model: nn.Module, data: Any, owners: Indices, seed: int
) -> None:
    """As many steps on samples of the same size, without clipping and noise."""
    optimizer = _optimizer(settings, model)
    rng = np.random.default_rng([seed, 29])
    model.train()
    for _ in range(plan.steps):
        drawn = rng.random(plan.units) < min(1.0, plan.batch / plan.units)
        sample = np.flatnonzero(drawn[owners])
        if len(sample):
            optimizer.zero_grad()
            task.loss(model, default_collate([data[int(index)] for index in sample])).backward()
            optimizer.step()


def _source(model: nn.Module, seed: int) -> Gaussian:
    parameters = [each for each in model.parameters() if each.requires_grad]
    return Gaussian(sum(each.numel() for each in parameters), parameters[0].dtype, key=_key(seed))


def _key(seed: int) -> bytes:
    return seeded_rng(seed).bytes(KEY_BYTES)


def _optimizer(settings: Settings, model: nn.Module) -> torch.optim.Optimizer:
    from tacit.kinds.private_training.run import optimizer_of

    return optimizer_of(settings, model)
