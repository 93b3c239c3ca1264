"""The straight-through gradient: forward the bits, backward as if they were the activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


class _StraightThrough(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    @staticmethod
    def forward(context: Any, activations: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
        return bits.to(device=activations.device, dtype=activations.dtype)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def straight_through(activations: torch.Tensor, bits: NDArray[np.uint8]) -> torch.Tensor:
    """`bits` in place of `activations`, whose gradient is that of the bits.

    Source: Bengio, Léonard, Courville 2013, section 4.
    """
    return _StraightThrough.apply(activations, torch.from_numpy(bits))
