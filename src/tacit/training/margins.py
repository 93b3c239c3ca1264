"""Norms that rounding cannot make too small: each is returned as an upper bound of the norm in real numbers.

Notation: u is half the spacing of floats at 1, and γ_n = nu / (1 − nu). A sum of n products computed in any order, with
or without fused multiply-add, is off by at most γ_n times the sum of the absolute values of the products.
Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1.

The bounds hold for any order of summation, but not for float32 products in a shorter format
(`torch.backends.cuda.matmul.allow_tf32` and the like: leave them off, as torch does).
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

_BLOCK = 64  # floats, at most, squared and summed in their own precision; the blocks' sums are added in float64
_DOUBLE = torch.float64


def unit_roundoff(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps) / 2


def gamma(terms: int, dtype: torch.dtype = _DOUBLE) -> float:
    """γ_n for a sum of `terms` products."""
    error = terms * unit_roundoff(dtype)
    if error > 0.01:
        raise ValueError(f"a sum of {terms} products in {dtype} has no useful error bound: use smaller layers")
    return error / (1 - error)


def squared_norms(rows: Tensor) -> Tensor:
    """Upper bounds, in float64, of the squared L2 norm of each `rows[i]`.

    Guarantee: at least the real squared norm s. Above s by a factor of at most 1 + 2γ_68 (8.2e-6 in float32) and a few
    γ_{n/64+8} of float64, and by n times the smallest normal number.
    Why: the terms are not negative, so the error of a sum is relative to the sum itself: a computed block is at least
    (1 − γ_68) times the real one, and is divided by that. A block has 64 products; its root, and the root's square,
    round at most 4 times more. Squares that underflow lose at most the smallest normal number each.
    """
    batch = rows.shape[0]
    rows = rows.reshape(batch, math.prod(rows.shape[1:]))
    size, own = rows.shape[1], rows.dtype
    block = _block(size)
    whole = size - size % block
    blocks = torch.linalg.vector_norm(rows[:, :whole].unflatten(1, (whole // block, block)), dim=2)
    total = torch.linalg.vector_norm(blocks, dim=1, dtype=_DOUBLE).square_()
    if whole < size:
        total += torch.linalg.vector_norm(rows[:, whole:], dim=1).to(_DOUBLE).square_()
    relative = (1 + 2 * gamma(size // block + 12)) / (1 - gamma(block + 4, own))
    return total.mul_(relative).add_(size * float(torch.finfo(own).tiny))


@functools.cache
def _block(size: int) -> int:
    """The largest divisor of size from half of _BLOCK to _BLOCK, so that nothing is left over; otherwise _BLOCK."""
    if size <= _BLOCK:
        return max(1, size)
    return next((block for block in range(_BLOCK, _BLOCK // 2 - 1, -1) if size % block == 0), _BLOCK)


def absolute_sums(rows: Tensor) -> Tensor:
    """Upper bounds, in float64, of the L1 norm of each `rows[i]`: summed in float64, raised by 2γ_n."""
    rows = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    return rows.abs().sum(1, dtype=_DOUBLE) * (1 + 2 * gamma(rows.shape[1] + 1))


def product_norms(inputs: Tensor, outputs: Tensor, squared: Tensor | None = None) -> Tensor:
    """Upper bounds of ‖X‖²‖G‖² of each record: for one step t this is ‖g xᵀ‖², without any cancellation.

    `squared` are the squared norms of outputs, where they are known.
    """
    squared = squared_norms(outputs) if squared is None else squared
    return squared_norms(inputs).mul_(squared).mul_(1 + gamma(2))


def gram_norms(inputs: Tensor, outputs: Tensor) -> Tensor:
    """Upper bounds of ‖Σ_t g_t x_tᵀ‖² = Σ_st ⟨x_s, x_t⟩⟨g_s, g_t⟩, from inputs [n, T, d] and outputs [n, T, p].

    Guarantee: at least the real squared norm.
    Why: computed in float64, ⟨x_s, x_t⟩ is off by at most γ_d ‖x_s‖‖x_t‖ and ⟨g_s, g_t⟩ by γ_p ‖g_s‖‖g_t‖, and the sum
    of T² products adds γ_{T²}: together at most γ_{d+p+T²+2} (Σ_t ‖x_t‖‖g_t‖)² ≤ γ ‖X‖²‖G‖² (Cauchy–Schwarz), which is
    added. The terms cancel, so a margin relative to the result would not do.
    """
    steps = inputs.shape[1]
    x, g = inputs.to(_DOUBLE), outputs.to(_DOUBLE)
    gram = torch.bmm(x, x.transpose(1, 2)).mul_(torch.bmm(g, g.transpose(1, 2))).sum((1, 2))
    margin = 2 * gamma(x.shape[2] + g.shape[2] + steps * steps + 2)
    return gram.clamp_(min=0).add_(product_norms(x, g), alpha=margin)
