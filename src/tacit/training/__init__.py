"""Private training on torch: the gradient of each record clipped exactly, at close to the speed of ordinary training.

`plan` ties sampler, noise and accountant together, and `attach` puts it into the ordinary loop; `sampler`, `optimizer`,
`sums` (the tiers of noise), `monitor`, `company` and `checkpoint` are what it is made of. `engine` records one backward
pass and adds clipped gradients; `layers` and `attention` say how each kind of layer is recorded; `parts` are the
recorded gradients; `margins` bound what rounding can hide; `checks` refuse unfit models.
A plan and its price need no torch; training needs the extra `torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.training.monitor import Monitor
from tacit.training.plan import Plan

if TYPE_CHECKING:
    from tacit.training.checks import refuse_unfit
    from tacit.training.engine import Engine
    from tacit.training.optimizer import PrivateOptimizer

__all__ = ["Engine", "Monitor", "Plan", "PrivateOptimizer", "refuse_unfit"]

_HOMES = {"Engine": "engine", "PrivateOptimizer": "optimizer", "refuse_unfit": "checks"}


def require_torch() -> None:
    """Raise ValueError with the remedy where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError("private training needs torch: pip install 'tacit[torch]'") from error


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    require_torch()
    return getattr(importlib.import_module(f"tacit.training.{_HOMES[name]}"), name)
