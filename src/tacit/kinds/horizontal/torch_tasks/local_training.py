"""The training of one client in one round.

    train(module, weights, records, work, recipe)       the one seam: the module is trained in place

The optimizer is made anew in each round. A loss for each record and the mean of a batch come to the same here: the mean
is minimised. The loss that is reported is that of the last epoch, before each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tacit.errors import TaskError
from tacit.kinds.horizontal.task import FitWork
from tacit.kinds.horizontal.torch_tasks.optimizers import MakeOptimizer, make_optimizer
from tacit.kinds.horizontal.torch_tasks.records import Records
from tacit.kinds.horizontal.torch_tasks.weights import Weights

if TYPE_CHECKING:
    from collections.abc import Iterator

Loss = Callable[[nn.Module, Any], Tensor]
MakeScheduler = Callable[[Optimizer, int], Any]

_SMALL = 1_000_000  # parameters, below which one thread is enough


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a client trains, apart from what the file says."""

    loss: Loss
    optimizer: str | MakeOptimizer = "sgd"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    scheduler: MakeScheduler | None = None


def train(module: nn.Module, weights: Weights, records: Records, work: FitWork, recipe: Recipe) -> float:
    """Train the module in place on a client's records; the mean loss of the last epoch."""
    trained = [*weights.travel.values(), *weights.local.values()]
    optimizer = make_optimizer(recipe.optimizer, recipe.optimizer_options, trained, work.train.learning_rate)
    bounds = batches(len(records), work.train.batch)
    scheduler = recipe.scheduler(optimizer, work.train.epochs * len(bounds)) if recipe.scheduler else None
    mu = work.train.proximal_mu
    start = [tensor.detach().clone() for tensor in weights.travel.values()] if mu else []
    module.train()
    loss = 0.0
    for _ in range(work.train.epochs):
        order = work.rng.permutation(len(records)).astype(np.int64)
        total = 0.0
        for first, last in bounds:
            indices = order[first:last]
            optimizer.zero_grad(set_to_none=True)
            mean = mean_loss(recipe.loss(module, records.batch(indices)), len(indices))
            mean.backward()
            pull(weights.travel, start, mu)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            total += float(mean.detach()) * len(indices)
        loss = total / len(records)
    optimizer.zero_grad(set_to_none=True)
    return loss


def batches(records: int, size: int) -> list[tuple[int, int]]:
    """Where the batches of an epoch begin and end. A single record at the end joins the batch before it: BatchNorm
    cannot train on one."""
    begins = list(range(0, records, size))
    if size > 1 and len(begins) > 1 and records - begins[-1] == 1:
        begins.pop()
    return list(zip(begins, [*begins[1:], records], strict=True))


def mean_loss(returned: object, records: int) -> Tensor:
    """What `loss` returned as the mean over a batch: it may be that already, or a loss for each record."""
    if not isinstance(returned, Tensor):
        raise TaskError(f"loss(module, batch) must return a tensor, got {type(returned).__name__}")
    if not returned.requires_grad:
        raise TaskError(
            "loss(module, batch) returned a tensor that depends on no trained parameter: compute it from what the "
            "module returns, without detach(), item() or no_grad()"
        )
    if returned.ndim == 0:
        return returned
    if returned.shape != (records,):
        raise TaskError(
            f"loss(module, batch) returned a tensor of the shape {tuple(returned.shape)} for {records} records: return "
            "one number, the mean, or one for each record"
        )
    return returned.mean()


def pull(travel: Mapping[str, nn.Parameter], start: list[Tensor], mu: float) -> None:
    """FedProx: the gradient of mu / 2 times the squared distance from the model that was received."""
    for parameter, origin in zip(travel.values(), start, strict=False):  # no origins if mu is 0
        if parameter.grad is not None:
            parameter.grad.add_(parameter.detach() - origin, alpha=mu)


@contextmanager
def sentences() -> Iterator[None]:
    """Around code of ours that looks at what a task's functions returned: its ValueErrors are sentences for a user."""
    try:
        yield
    except ValueError as error:
        raise TaskError(str(error)) from error


@contextmanager
def seeded(seed: tuple[int, ...], device: torch.device) -> Iterator[None]:
    """Torch's generators from `seed` while this lasts, and afterwards as they were before."""
    state = np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)[0]
    devices = (
        [device.index if device.index is not None else torch.cuda.current_device()] if device.type == "cuda" else []
    )
    seeds = torch.default_generator.manual_seed if device.type == "cpu" else torch.manual_seed
    with torch.random.fork_rng(devices=devices):
        # torch.manual_seed keeps a text of the whole stack for each kind of device that is not in use: a tenth of the
        # time of a small training, and memory that grows with each of them.
        seeds(int(state >> np.uint64(1)))
        yield


@contextmanager
def enough_threads(module: nn.Module) -> Iterator[None]:
    """One thread of torch for a small model while this lasts. Threads that wait for each other cost it more than they
    give: a round of small clients took 20 to 50 times as long with two of them on a busy machine."""
    threads = torch.get_num_threads()
    if sum(parameter.numel() for parameter in module.parameters()) < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
