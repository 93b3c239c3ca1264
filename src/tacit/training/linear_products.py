"""Products of a layer's inputs, by the faster of the two libraries that torch has for them.

oneDNN took 1.0 ms where torch's BLAS took 2.3 ms for [2048, 128] × [128, 512] on an AMD processor with AVX-512, and 1.7
against 2.5 ms for 64 products of 32 rows. Torch uses it for its own recurrent layers and in what it compiles, and BLAS
for `F.linear`. What is recorded of a layer is what was used, so that no bound depends on the library.

There is no call for many products of oneDNN at once. On one thread a call for each of 32 records took 2.0 ms where
BLAS took 3.1 ms for all of them, [128, 64] × [64, 512]; with two threads, or small products, BLAS is faster.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

_WORTH_A_CALL = 1 << 21  # multiplications in a product from which on a call for it alone is worth it


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear without a graph, in memory of its own. The rows are contiguous."""
    if not _fits(rows):
        return F.linear(rows, weight, bias)
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found


def one_by_one(steps: Tensor, others: Tensor) -> bool:
    """Whether a product for each record by itself is faster than `torch.bmm` of [B, T, n] and [B, T, m]."""
    multiplications = steps[:1].numel() * others.shape[2]
    return torch.get_num_threads() == 1 and multiplications >= _WORTH_A_CALL and _fits(steps) and _fits(others)


def multiply_each(steps: Tensor, others: Tensor, out: Tensor) -> None:
    """stepsᵀ others of each record, [B, n, m], for `one_by_one`. It is faster where n is not above m."""
    for left, right, each in zip(steps.transpose(1, 2), others.transpose(1, 2), out, strict=True):
        each.copy_(torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], ""))


def _fits(rows: Tensor) -> bool:
    return rows.device.type == "cpu" and rows.dtype == torch.float32 and rows.numel() > 0 and _one_dnn()


@functools.cache
def _one_dnn() -> bool:
    """Whether torch has the product, which its documentation does not promise."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
