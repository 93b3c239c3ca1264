"""The task of the files to audit: a small network on made-up records.

About a thousand numbers, each of which holds a canary: with fewer, an audit trains more often to come to its guesses.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

RECORDS = 200


class Small:
    """Classes of points, a network of two layers."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(0, 4, (RECORDS,), generator=generator)
        points = torch.randn(RECORDS, 4, generator=generator) + F.one_hot(labels, 4)
        self.records = TensorDataset(points, labels)
        self._seed = seed

    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            return nn.Sequential(nn.Linear(4, 60), nn.Tanh(), nn.Linear(60, 12))

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        points, labels = batch
        return F.cross_entropy(model(points), labels)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {}


class Owned(Small):
    """The same records, three of each owner, whose number is their third column."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.records = TensorDataset(*self.records.tensors, torch.arange(RECORDS) // 3)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch[:2])


def make_owned(seed: int) -> Owned:
    """The task that a file names as `bench.sabotage.small:make_owned`."""
    return Owned(seed)


def make_training(seed: int) -> Small:
    """The task that a file names as `bench.sabotage.small:make_training`."""
    return Small(seed)
