"""Private training on torch: the gradient of each record clipped exactly, at close to the speed of ordinary training.

plan        ties the sampler, the noise and the accountant together; `settings`, `boundary` and `forecast` of a file
attach      the model, the optimizer and the loader of the ordinary loop: `sampler`, `optimizer`, `monitor`, `noise`
engine      records one backward pass and adds clipped gradients; `layers`, `attention` and `recurrent` say how each
            kind of layer is recorded, `parts` are the recorded gradients, `margins` bound what rounding can hide
checks      refuses unfit models

Plans and settings can be made without torch; the rest needs the extra `torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.training.checks import refuse_unfit
    from tacit.training.engine import Engine

__all__ = ["Engine", "refuse_unfit"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tacit.training import checks, engine
    except ModuleNotFoundError as error:
        raise ValueError("private training needs torch: pip install 'tacit[torch]'") from error
    return engine.Engine if name == "Engine" else checks.refuse_unfit
