"""Small trainings: a model, data and the ordinary loop."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.training.plan import Plan


class Silent:
    """No noise at all: what is left must be what a hand computes."""

    def normal(self, flat: Tensor, deviation: float) -> None:
        flat.zero_()


def data(records: int = 40, dtype: torch.dtype = torch.float64) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(records, 5, generator=generator, dtype=dtype)
    return TensorDataset(x, torch.randint(0, 3, (records,), generator=generator))


def model(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def plan(**changed: Any) -> Plan:
    return Plan(**{"records": 40, "batch": 10, "epochs": 2, "noise_multiplier": 1.0, "clip": 0.5, **changed})


def train(
    module: nn.Module,
    optimizer: Any,
    loader: Any,
    epochs: int,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
) -> None:
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss(module(x), y).backward()
            optimizer.step()


def clipped_sum(module: nn.Module, x: Tensor, y: Tensor, clip: float) -> list[Tensor]:
    """By plain autograd, one record at a time."""
    parameters = list(module.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for one, label in zip(x, y, strict=True):
        gradients = torch.autograd.grad(F.cross_entropy(module(one[None]), label[None]), parameters)
        norm = torch.sqrt(sum(g.square().sum() for g in gradients))
        for add, gradient in zip(total, gradients, strict=True):
            add += gradient * min(1.0, clip / float(norm))
    return total


def flat(module: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
