"""Scikit-learn's handwritten digits for one party: a small convolutional network on torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from tacit import bundled

_PUBLIC = 297  # digits that are held out, and public


class Digits:
    """1,500 private digits to learn from, 297 public ones to judge by."""

    def __init__(self, seed: int) -> None:
        images, labels = bundled.digits()
        order = np.random.default_rng(seed).permutation(len(images))
        inputs = torch.from_numpy((images[order] / 8 - 1).astype(np.float32)).reshape(-1, 1, 8, 8)
        classes = torch.from_numpy(labels[order])
        self.records = TensorDataset(inputs[_PUBLIC:], classes[_PUBLIC:])
        self._inputs, self._classes = inputs[:_PUBLIC], classes[:_PUBLIC]
        self._seed = seed

    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            return nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)
            )

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Tensor:
        inputs, classes = batch
        return functional.cross_entropy(model(inputs), classes)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        scores = model(self._inputs)
        right = (scores.argmax(1) == self._classes).float().mean()
        return {"accuracy": float(right), "loss": float(functional.cross_entropy(scores, self._classes))}


def make_training(seed: int) -> Digits:
    return Digits(seed)
