"""What attach returns may be compiled, alone or within the loss: the model moves as it does without."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.training.attach import attach
from tests.training.trainings import Silent, flat, plan


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions, self.scan = nn.Embedding(9, 6), nn.Embedding(5, 6), nn.GRU(6, 6, batch_first=True)
        self.attention, self.norm = nn.MultiheadAttention(6, 2, batch_first=True), nn.LayerNorm(6)
        self.last = nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.scan(self.words(ids) + self.positions(torch.arange(5)))[0]
        return self.last(self.norm(x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


class Own(nn.Module):
    """One layer is recognised, one runs record by record."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.scale, self.mixed = nn.Linear(5, 6), Scale(), Mixed()

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(self.scale(self.first(x)).relu())[:, :3]


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight + self.weight.T)


MODELS = {
    "images": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
        lambda: torch.randn(40, 2, 5, 5),
    ),
    "text": (Text, lambda: torch.randint(0, 9, (40, 5))),
    "own layers": (Own, lambda: torch.randn(40, 5)),
}


def moved(name: str, compiled: str | None, backend: str) -> Tensor:
    torch.manual_seed(0)
    torch._dynamo.reset()
    make, inputs = MODELS[name]
    model, data = make(), TensorDataset(inputs(), torch.randint(0, 3, (40,)))
    given = plan(sampling="shuffled")
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    samples = np.random.default_rng(0)
    model, optimizer, loader = attach(given, model, optimizer, data, source=Silent(), rng=samples)
    network = torch.compile(model, backend=backend) if compiled == "model" else model

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(network(x), y)

    own = torch.compile(loss, backend=backend) if compiled == "loss" else loss
    for x, y in loader:
        own(x, y).backward()
        optimizer.step()
    assert optimizer.steps == 4
    return flat(copy.deepcopy(model))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", ["model", "loss"])
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each == "images")) for each in MODELS])
def test_a_compiled_training_moves_the_model_as_an_ordinary_one(name, compiled, backend):
    torch.testing.assert_close(moved(name, compiled, backend), moved(name, None, backend), rtol=1e-4, atol=1e-5)
