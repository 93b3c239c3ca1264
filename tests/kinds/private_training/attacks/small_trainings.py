"""Small private trainings with layers of every kind, for an observer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from tacit.kinds.private_training.attacks.observer import Training
from tacit.kinds.private_training.settings import Settings
from tacit.training.plan import Plan

PLAN = Plan(records=300, batch=60, epochs=20, noise_multiplier=1.0, delta=1e-5)
SETTINGS = Settings(task="small", privacy={"noise_multiplier": 1.0}, train={"batch": 60, "learning_rate": 0.5})


class Scaled(nn.Module):
    """Without a rule: runs once for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.mixed = nn.Parameter(torch.eye(6, 8))

    def forward(self, x):
        return (x * self.scale) @ self.mixed


class Number(nn.Module):
    """One parameter, without a dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return x[:, :3] * self.weight


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.embedding(ids)
        return self.last(self.norm(x + self.attention(x, x, x)[0]).mean(1))


class Reading(nn.Module):
    """A scan over words, with positions that all records share."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(20, 4), nn.Embedding(5, 4)
        self.scan, self.last = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, ids):
        return self.last(self.scan(self.words(ids) + self.positions(torch.arange(5)))[0][:, -1])


class Scale(nn.Module):
    """Recognised by what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return x * self.gamma


class Tokens(nn.Module):
    """A parameter of its own beside layers."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.enter, self.scale = nn.Parameter(torch.ones(1, 1, 6)), nn.Linear(2, 6), Scale()
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), self.enter(x.unflatten(1, (3, 2)))], dim=1)
        return self.last(self.scale(x)).mean(1)


MODELS = {
    "short": lambda: Reading().bfloat16(),
    "reading": Reading,
    "tokens": Tokens,
    "volumes": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 1, 2, 3)),
        nn.ConvTranspose3d(1, 2, 2),
        nn.Conv3d(2, 3, (1, 2, 2)),
        nn.Flatten(),
        nn.Linear(36, 3),
    ),
    "linear": lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)),
    "fallback": lambda: nn.Sequential(Scaled(), nn.Tanh(), nn.Linear(8, 3)),
    "number": Number,
    "text": Text,
    "words": lambda: nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(20, 3)),
    "images": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2),
        nn.GroupNorm(2, 4),
        nn.Conv2d(4, 20, (2, 1)),
        nn.Flatten(),
        nn.Linear(120, 3),
    ),
}


class Small:
    """A task of `tacit.kinds.private_training.task.Task`."""

    def __init__(self, model: str) -> None:
        random = torch.Generator().manual_seed(3)
        self._name = model
        shape = {
            "text": (300, 5),
            "words": (300, 5),
            "reading": (300, 5),
            "short": (300, 5),
            "images": (300, 2, 5, 5),
        }.get(model, (300, 6))
        inputs = torch.randn(shape, generator=random)
        if model in ("text", "words", "reading", "short"):
            inputs = torch.randint(0, 20, shape, generator=random)
        self.records = TensorDataset(inputs, torch.randint(0, 3, (300,), generator=random))

    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            return MODELS[self._name]()

    def loss(self, model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    def evaluate(self, model):
        return {}


def training(model: str = "linear") -> Training:
    return Training(Small(model), SETTINGS, PLAN.batch)
