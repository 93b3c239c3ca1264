"""What a private training trains: data of one party, a model, a loss, and figures on public data.

A task is made by `make_training(seed, **options)`; a file names it as `package.module:function`.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Task(Protocol):
    """One party's training."""

    @property
    def records(self) -> Sized:
        """The private records: a torch dataset with a length, read by index."""

    def model(self) -> nn.Module:
        """The model to begin with."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The mean loss over the records of a batch, each by itself."""

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Figures on public data: they are covered by the model's epsilon. May be empty."""
