"""A file's own private training as a subject: its task, its model and its plan, with and without privacy. Needs torch.

    Subject(task, settings, plan)       trains on some of the task's records; `membership` attacks what comes of it

Noise and samples are drawn from seeds: an audit can be repeated, and nothing of it is released.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Subset, default_collate

from tacit.audit.attacks.inversion import one_thread
from tacit.audit.attacks.membership import Indices, Losses, Predict
from tacit.kinds.private_training.attacks.truncated import truncated_like
from tacit.kinds.private_training.settings import Settings
from tacit.kinds.private_training.task import Task
from tacit.randomness import seeded_rng
from tacit.training.attach import attach
from tacit.training.noise import KEY_BYTES, Gaussian
from tacit.training.plan import Plan


class Subject:
    """Trains on some records of a task, by private SGD or plainly, with the optimizer of the file."""

    def __init__(self, task: Task, settings: Settings, plan: Plan, pool: Indices, *, private: bool) -> None:
        """`plan` is of the file; the number of records is that of each training."""
        self._task = task
        self._settings = settings
        self._plan = plan
        self._pool = pool
        self._private = private
        self.figures: list[dict[str, float]] = []  # of the models trained so far, on public data

    def train(self, chosen: Indices, seed: int) -> Predict:
        """Train on the chosen ones of the pool."""
        records: Any = self._task.records
        data = Subset(records, [int(index) for index in self._pool[chosen]])
        model = self._task.model()
        plan = resized(self._plan, len(data))
        with one_thread():
            (_privately if self._private else _plainly)(self._task, self._settings, plan, model, data, seed)
            model.eval()
            with torch.no_grad():
                self.figures.append(self._task.evaluate(model))
        return lambda asked: self._losses(model, asked)

    def _losses(self, model: nn.Module, asked: Indices) -> Losses:
        records: Any = self._task.records
        with torch.no_grad(), one_thread():
            found = [
                float(self._task.loss(model, default_collate([records[int(self._pool[index])]]))) for index in asked
            ]
        return np.asarray(found, dtype=np.float64)


def resized(plan: Plan, records: int) -> Plan:
    """The plan for a few records more or less: the same part of them in a sample, and so as many steps and about the
    same epsilon."""
    if records == plan.records:
        return plan
    batch = max(1, min(records, round(plan.batch * records / plan.records)))
    noise = plan.count_noise * plan.batch / batch
    return truncated_like(plan, replace(plan, records=records, batch=batch, count_noise=noise, truncate=None))


def _privately(task: Task, settings: Settings, plan: Plan, model: nn.Module, data: Any, seed: int) -> None:
    inner = _optimizer(settings, model)
    _, optimizer, loader = attach(
        plan, model, inner, data, check=False, source=_source(model, seed), rng=seeded_rng(seed)
    )
    model.train()
    for _ in range(plan.epochs):
        for batch in loader:
            task.loss(model, batch).backward()
            optimizer.step()
    optimizer.engine.detach()


def _plainly(task: Task, settings: Settings, plan: Plan, model: nn.Module, data: Any, seed: int) -> None:
    """As many steps on samples of the same size, without clipping and noise."""
    optimizer = _optimizer(settings, model)
    rng = np.random.default_rng([seed, 29])
    model.train()
    for _ in range(plan.steps):
        sample = np.flatnonzero(rng.random(len(data)) < min(1.0, plan.batch / len(data)))
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
