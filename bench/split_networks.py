"""The two networks of the benchmark `split`, in parts and in one piece, with steps of both.

Both sides run in threads, on one core each: torch counts its cores by thread, and on more than one, threads that spin
while they wait for each other would be measured.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.channel import run_parties
from tacit.kinds.split.follower import follower
from tacit.kinds.split.leader import leader
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, Ends, Rows, Top, Trunk
from tacit.kinds.split.tasks.text import Head, Middle, token_loss
from tacit.lockstep.context import Context

Steps = Callable[[], object]
BATCH, SEQUENCE, WIDTH, VOCABULARY = 256, 128, 128, 256


def cnn(steps: int) -> tuple[Steps, Steps]:
    """Two convolutions at the follower, two linear layers at the leader: that many split steps, and whole ones."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((BATCH, 1, 28, 28)).astype(np.float32)
    labels = rng.integers(0, 10, BATCH)
    bottom = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
    )
    top = nn.Sequential(nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))
    parts: dict[str, Any] = {
        "lead": Top(top, {"far": (512,)}, Rows(labels=labels), nn.functional.cross_entropy),
        "far": Bottom(bottom, (512,), Rows(images)),
    }
    whole = copy.deepcopy(nn.Sequential(bottom, top))
    return _split("V", parts, BATCH, steps), _whole(whole, images, labels, nn.functional.cross_entropy, steps)


def gpt(steps: int, layers: int = 4, batch: int = 32) -> tuple[Steps, Steps]:
    """Blocks at the follower, embedding and head at the leader."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, VOCABULARY, (batch, SEQUENCE + 1))
    embedding, head = nn.Embedding(VOCABULARY, WIDTH), Head(VOCABULARY, WIDTH)
    trunk = Middle(layers, WIDTH, WIDTH, 4, SEQUENCE)
    cut = (SEQUENCE, WIDTH)
    parts: dict[str, Any] = {
        "lead": Ends(embedding, head, cut, cut, Rows(tokens[:, :-1], tokens[:, 1:]), token_loss),
        "far": Trunk(trunk, cut, cut),
    }
    whole = copy.deepcopy(nn.Sequential(embedding, trunk, head))
    return _split("U", parts, batch, steps), _whole(whole, tokens[:, :-1], tokens[:, 1:], token_loss, steps)


def _split(topology: str, parts: dict[str, Any], batch: int, steps: int) -> Steps:
    settings = Settings.model_validate(
        {
            "topology": topology,
            "task": "bench",
            "parties": {"lead": {"role": "leader"}, "far": {"role": "follower"}},
            "train": {"epochs": steps, "batch": batch, "learning_rate": 0.001, "optimizer": "sgd"},
        }
    )

    def lead(channels: Any) -> object:
        torch.set_num_threads(1)
        return leader(channels, settings, parts["lead"], Context())

    def far(channels: Any) -> object:
        torch.set_num_threads(1)
        return follower(channels, settings, "far", parts["far"], Context())

    return lambda: run_parties({"lead": lead, "far": far})


def _whole(network: nn.Module, features: Any, labels: Any, loss: Callable[..., Tensor], steps: int) -> Steps:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001)
    x, y = torch.from_numpy(np.ascontiguousarray(features)), torch.from_numpy(np.ascontiguousarray(labels))

    def train(channels: object) -> None:
        torch.set_num_threads(1)
        for step in range(steps):
            order = torch.from_numpy(np.random.default_rng(step).permutation(len(x)))
            optimizer.zero_grad()
            loss(network(x[order]), y[order]).backward()
            optimizer.step()

    return lambda: run_parties({"alone": train})
