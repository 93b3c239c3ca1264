"""The private training of one client in one round: `tacit.training` on its records, by the plan of the file.

    train_privately(module, weights, own, work, recipe)     the module is trained in place; the events that it cost

Samples and noise come from the operating system; the seed of the round is only for the rest, such as dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tacit.config.owner_column import owner_reader
from tacit.dp.release import Event
from tacit.kinds.horizontal.record_plan import round_plan
from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import FitWork
from tacit.kinds.horizontal.torch_tasks.local_training import Recipe, mean_loss, pull
from tacit.kinds.horizontal.torch_tasks.optimizers import make_optimizer
from tacit.kinds.horizontal.torch_tasks.records import Records
from tacit.kinds.horizontal.torch_tasks.weights import Weights
from tacit.training.attach import attach
from tacit.training.optimizer import PrivateOptimizer
from tacit.training.ownership import of_ids
from tacit.training.plan import Plan
from tacit.training.sampler import Loader

Attached = Callable[[PrivateOptimizer, Loader], None]


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """A client's data as its task returned them, and the records that they are."""

    data: Any
    records: Records


class _Indices:
    """A dataset of numbers: what a record is, `Records.batch` knows."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return index


def train_privately(
    module: nn.Module,
    weights: Weights,
    own: Own,
    work: FitWork,
    recipe: Recipe,
    attached: Attached = lambda optimizer, loader: None,
) -> tuple[tuple[Event, int], ...]:
    """Train the module in place by private SGD, and return what that cost each record, or each owner.

    `attached` is told of the private optimizer and its loader before the first step: for audits.
    """
    owners = _owners(own, work.train)
    plan = _plan(own, work.train, work.answers, owners)
    trained = [*weights.travel.values(), *weights.local.values()]
    inner = make_optimizer(recipe.optimizer, recipe.optimizer_options, trained, work.train.learning_rate)
    if recipe.scheduler is not None:
        scheduler = recipe.scheduler(inner, plan.steps)
        inner.register_step_post_hook(lambda *given: scheduler.step())  # an empty sample moves the model too
    mu = work.train.proximal_mu
    start = [tensor.detach().clone() for tensor in weights.travel.values()] if mu else []
    inner.register_step_pre_hook(lambda *given: pull(weights.travel, start, mu))  # what it adds, no record decides
    records = own.records
    loader = DataLoader(
        _Indices(len(records)), collate_fn=lambda indices: records.batch(np.asarray(indices, dtype=np.int64))
    )
    _, optimizer, batches = attach(plan, module, inner, loader, owners=owners)
    try:
        attached(optimizer, batches)
        module.train()
        for _ in range(plan.epochs):
            for batch in batches:
                loss = recipe.loss(module, batch)
                mean_loss(loss, loss.numel() if isinstance(loss, Tensor) else 0).backward()
                optimizer.step()
        return tuple(plan.ledger(plan.steps).lines)
    finally:
        optimizer.engine.detach()
        inner.zero_grad(set_to_none=True)


def private_plan(own: Own, train: Training, answers: int) -> Plan:
    """The plan by which a client trains in each round."""
    return _plan(own, train, answers, _owners(own, train))


def _plan(own: Own, train: Training, answers: int, owners: list[Any] | None) -> Plan:
    count = None if owners is None else len(of_ids(owners).records)
    return round_plan(train, answers, len(own.records), count)


def _owners(own: Own, train: Training) -> list[Any] | None:
    """An id for each record, if owners are the unit."""
    privacy = train.privacy
    if privacy is None or privacy.owner is None:
        return None
    read = owner_reader(privacy.owner, "train.privacy.owner")
    return [read(_record(own.data, index)) for index in range(len(own.records))]


def _record(data: Any, index: int) -> Any:
    """One record of tensors, of a dict of tensors, or of a dataset."""
    columns = data.tensors if isinstance(data, TensorDataset) else data
    if isinstance(columns, tuple):
        return tuple(column[index] for column in columns)
    if isinstance(columns, Mapping):
        return {name: column[index] for name, column in columns.items()}
    return columns[index]
