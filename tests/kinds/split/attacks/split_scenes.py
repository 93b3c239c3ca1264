"""Small split trainings for the tests of their audit."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from tacit.kinds.split.settings import Settings
from tacit.kinds.split.tasks.load import make_part


def settings_v(task="split_digits", followers=("east",), **changes):
    data = {
        "topology": "V",
        "task": task,
        "parties": {"lead": {"role": "leader"}, **{name: {"role": "follower"} for name in followers}},
        "train": {"epochs": 3, "batch": 64, "learning_rate": 0.003},
        "evaluate": 100,
        "seed": 1,
    }
    return Settings.model_validate({**data, **changes})


def settings_u(**changes):
    data = {
        "topology": "U",
        "task": "text",
        "task_options": {"vocabulary": 200, "layers": 1, "width": 16, "heads": 2, "cut": 48, "sequence": 16},
        "parties": {"office": {"role": "leader"}, "cloud": {"role": "follower"}},
        "train": {"epochs": 2, "batch": 32, "learning_rate": 0.003},
        "evaluate": 100,
        "seed": 1,
    }
    return Settings.model_validate({**data, **changes})


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(256, 10))

    def forward(self, cut):
        return self.layers(cut)


def convolutions_only(settings, name):
    """Digits with one convolution before the cut."""
    part = make_part(settings, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        if name == settings.leader:
            return replace(part, network=Flat(), cuts={"east": (4, 8, 8)})
        network = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
        return replace(part, network=network, cut=(4, 8, 8))
