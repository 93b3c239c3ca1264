"""g and h rounded to a few bits, and both packed into one word of 64 bits.

Sums of words are sums of g in the high half and of h in the low half, which `unpack` reads as a signed number: sums of
h are negative only if a party adds noise to them. Rounding is stochastic: its mean is the value itself, so sums stay
unbiased.
Few bits also make the sums of one node tell less of which rows are in a bin; they do not protect whole columns
(docs/trees-leaks.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.features import IntArray

__all__ = ["FEWEST_BITS", "MOST_BITS", "Packed", "most_rows", "pack", "unpack"]

Floats = NDArray[np.float64]

FEWEST_BITS, MOST_BITS = 2, 16
_HALF = 32


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """The words of one tree, and what a unit of g and of h stands for."""

    words: IntArray
    gradient_unit: float
    hessian_unit: float


def most_rows(bits: int) -> int:
    """Rows whose words add up without an overflow of either half."""
    return int((2 ** (_HALF - 1) - 1) // (2**bits - 1))


def pack(gradients: Floats, hessians: Floats, bits: int, rng: Generator) -> Packed:
    """Round g to a sign and `bits` - 1 bits, h to `bits` bits, by the largest of each, and pack them."""
    if not FEWEST_BITS <= bits <= MOST_BITS:
        raise ValueError(f"bits: {bits} is not possible: choose {FEWEST_BITS} to {MOST_BITS}")
    if len(gradients) > most_rows(bits):
        raise ValueError(f"{len(gradients)} rows at {bits} bits may overflow: at most {most_rows(bits)}, or fewer bits")
    if (hessians < 0).any():
        raise ValueError("a hessian is negative")
    gradient, gradient_unit = _rounded(gradients, 2 ** (bits - 1) - 1, rng)
    hessian, hessian_unit = _rounded(hessians, 2**bits - 1, rng)
    return Packed((gradient << _HALF) + hessian, gradient_unit, hessian_unit)


def unpack(words: IntArray) -> tuple[IntArray, IntArray]:
    """The sums of g and of h in sums of words."""
    middle = 2 ** (_HALF - 1)
    hessians = ((words + middle) & (2**_HALF - 1)) - middle
    return (words - hessians) >> _HALF, hessians


def _rounded(values: Floats, levels: int, rng: Generator) -> tuple[IntArray, float]:
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return np.zeros(len(values), dtype=np.int64), 1.0
    scaled = values * (levels / largest)
    found = np.floor(scaled + rng.random(len(values))).astype(np.int64)
    return np.clip(found, -levels, levels), largest / levels  # a product may exceed the levels by one rounding
