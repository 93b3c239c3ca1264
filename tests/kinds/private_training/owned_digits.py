"""Digits of writers: a task whose records are dictionaries that name their owner."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn import functional

from tacit.kinds.private_training.tasks.digits import Digits


class OwnedDigits:
    """A `tacit.tasks.TrainingTask`: each writer has 1 to 9 digits."""

    def __init__(self, seed: int) -> None:
        self._digits = Digits(seed)
        images, labels = self._digits.records.tensors
        writers = [writer for writer in range(1500) for _ in range(1 + writer % 9)][: len(labels)]
        self.records = [
            {"image": image, "label": label, "writer": f"w{writer}"}
            for image, label, writer in zip(images, labels, writers, strict=True)
        ]

    def model(self) -> nn.Module:
        return self._digits.model()

    def loss(self, model: nn.Module, batch: dict[str, Any]) -> Any:
        return functional.cross_entropy(model(batch["image"]), batch["label"])

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self._digits.evaluate(model)


def make_training(seed: int) -> OwnedDigits:
    return OwnedDigits(seed)


def whose(record: dict[str, Any]) -> str:
    return str(record["writer"])


def label(record: dict[str, Any]) -> Any:
    return record["label"]  # a tensor of one number
