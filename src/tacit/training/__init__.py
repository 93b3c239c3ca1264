"""Private training on torch: the gradient of each record clipped exactly, at close to the speed of ordinary training.

plan        ties sampler, noise and accountant together
attach      puts a plan into the ordinary loop: `sampler`, `optimizer`, `sums` (the tiers of noise), `clip_factors`,
            `adaptive_norm`, `monitor`, `limits`, `checkpoint`, `several_optimizers`; `source` reads the data,
            `independence` looks whether records keep apart (`generators`), `contents` whether anything is stored
            without noise
ranks       several processes as one training
ownership   whose each record is, if owners are protected; `owner_gradients` are those of all records of an owner
losses      one value for each record
engine      records one backward pass and adds clipped gradients; `rules` says how each kind of layer is recorded:
            `layers`, `attention`, `recurrent`, `scan`, those of `register_layer`, which `probe` tries, and `fallback`;
            `recorded` has the gradients, `margins` bound what rounding can hide
checks      refuses unfit models; `replacements` takes other layers in place of some

A plan and its price need no torch; training needs the extra `torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door
from tacit.training.monitor import Monitor
from tacit.training.plan import Plan

if TYPE_CHECKING:
    from tacit.training.adam import AdamBC
    from tacit.training.checks import refuse_unfit
    from tacit.training.engine import Engine
    from tacit.training.layers import Layer
    from tacit.training.losses import record_loss
    from tacit.training.optimizer import PrivateOptimizer
    from tacit.training.recorded import Kept
    from tacit.training.replacements import fix
    from tacit.training.rules import register_layer

__all__ = [
    "AdamBC",
    "Engine",
    "Kept",
    "Layer",
    "Monitor",
    "Plan",
    "PrivateOptimizer",
    "fix",
    "record_loss",
    "refuse_unfit",
    "register_layer",
]


def require_torch() -> None:
    """Raise ValueError with the remedy where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError("private training needs torch: pip install 'tacit-learning[torch]'") from error


__getattr__, __dir__ = door(
    __name__,
    __all__,
    {
        "tacit.training.adam": "AdamBC",
        "tacit.training.checks": "refuse_unfit",
        "tacit.training.engine": "Engine",
        "tacit.training.layers": "Layer",
        "tacit.training.losses": "record_loss",
        "tacit.training.optimizer": "PrivateOptimizer",
        "tacit.training.recorded": "Kept",
        "tacit.training.replacements": "fix",
        "tacit.training.rules": "register_layer",
    },
    require_torch,
)
