"""Whether anyone else can see a gradient that autograd hands to a backward pass, so that its memory may be used again.

    @exact_backward
    def backward(ctx, gradient):
        spare = gradient if alone(gradient) else None      # the first thing that it does

A tensor, the one that it is a view of, and their memory are counted by Python and by torch. How high the counts are for
a gradient that nobody else has is not written down here but learned from one, once in a process. Where a count is
higher, or torch has no such count, the answer is no. So it is where nothing counts who sees the memory: that of numpy
and other libraries, of files, of other processes, and whatever a subclass of a tensor stands for.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch import Tensor

from tacit.training.precision import exact_backward

_Counts = tuple[int, ...]


def alone(gradient: Tensor) -> bool:
    """Whether nobody else sees the memory of a contiguous gradient. Not within a pass of which a graph is made."""
    if torch.is_grad_enabled() or type(gradient) is not Tensor or not gradient.is_contiguous():
        return False
    counts = _counts(gradient)
    return counts is not None and counts == _expected()[gradient._base is not None] and _own_memory(gradient)


def _own_memory(gradient: Tensor) -> bool:
    """Whether torch has made the memory, for this process only."""
    storage = gradient.untyped_storage()
    return storage.resizable() and not storage.is_shared()


def _counts(gradient: Tensor) -> _Counts | None:
    """References to a tensor, to the one that it is a view of, and to their memory; None if they are not counted."""
    seen: list[Tensor] = [gradient]
    base = gradient._base
    if base is not None:
        seen.append(base)
    try:
        found = [torch._C._storage_Use_Count(gradient.untyped_storage()._cdata)]
        for each in seen:
            found += [each._use_count(), sys.getrefcount(each)]
    except (AttributeError, TypeError, NotImplementedError):
        return None
    return tuple(found)


@functools.cache
def _expected() -> tuple[_Counts | None, _Counts | None]:
    """The counts of a gradient that nobody else has: of one that is no view, and of one that is."""
    found: list[_Counts | None] = []
    with torch.enable_grad():
        x = torch.zeros(2, 2, requires_grad=True)
        _Counted.apply(x, found).exp().sum().backward()
        _Counted.apply(x, found).flatten().exp().sum().backward()
    return found[0], found[1]


class _Counted(torch.autograd.Function):  # type: ignore[misc]
    """Hands on what it is given, and counts as `alone` does where it is called."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, found: list[_Counts | None]) -> Tensor:
        ctx.found = found
        return x.clone()

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.found.append(_of_gradient(gradient))
        return gradient.clone(), None


def _of_gradient(gradient: Tensor) -> _Counts | None:
    """As deep in calls as `alone`: each frame holds a reference."""
    return _counts(gradient)
