"""Short formats: layers may compute in bfloat16, what is recorded of them is float32 or longer.

Under `torch.autocast` a layer's product is computed in bfloat16, here as in torch. The factors of a record's gradient
are then taken as they were used and lengthened, which is exact: norms, clipping and sums are those of float32, and so
are their margins. Clipping is of the gradients that were recorded, so bfloat16 costs accuracy and no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def full(tensor: Tensor) -> Tensor:
    """The same numbers in float32 at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def as_used(*tensors: Any) -> list[Any]:
    """Tensors in the format in which autocast, where it is on, lets a product be computed; None stays None."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device) or any(
        each is not None and each.dtype == torch.float64 for each in tensors
    ):
        return list(tensors)
    dtype = torch.get_autocast_dtype(device)
    return [None if each is None else each.to(dtype) for each in tensors]


@contextmanager
def exactly(device: str) -> Iterator[None]:
    """Without autocast: norms and sums would be computed in short formats, for which their margins do not hold."""
    with torch.autocast(device, enabled=False):
        if device == "cpu":
            yield
        else:
            with torch.autocast("cpu", enabled=False):
                yield


def exact_backward(backward: F) -> F:
    """A backward pass of a function, without the autocast that may be on where it is called.

    ValueError where a graph is to be made of it: what is recorded are numbers, through which nothing flows back.
    """

    @wraps(backward)
    def run(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise ValueError(
                "a backward pass with create_graph=True (a gradient penalty, a Hessian) cannot be recorded: gradients "
                "of single records are clipped as numbers. Leave it out, or take such gradients of another model"
            )
        with exactly(gradients[0].device.type):
            return backward(ctx, *gradients)

    return run  # type: ignore[return-value]
