"""Small torch tasks for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import FitWork
from tacit.kinds.horizontal.torch_tasks.task import TorchTask


class Net(nn.Module):
    """A body with BatchNorm, and a head."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.bn1 = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.relu(self.bn1(self.body(x))))


def plain_net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def records(client: int, count: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng([7, client])
    x = rng.normal(size=(count, 6)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(x[:, :4].argmax(axis=1))


def cross_entropy(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


def accuracy(module):
    x, y = records(1000, 200)
    return {"accuracy": (module(x).argmax(1) == y).float().mean(), "training": float(module.training)}


def task_of(**keys: Any) -> TorchTask:
    given: dict[str, Any] = {"model": Net, "loss": cross_entropy, "data": records, "evaluate": accuracy}
    return TorchTask(**given | keys)


def work(seed: int = 0, kept: Any = None, **train: Any) -> FitWork:
    return FitWork(0, Training(**{"batch": 8, "epochs": 2, "learning_rate": 0.1} | train), (seed, 3), kept)


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
