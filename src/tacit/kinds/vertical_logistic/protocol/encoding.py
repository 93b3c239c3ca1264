"""Features, residues and gradients as integers under Paillier.

A column is scaled by a power of two so that its largest entry takes `FEATURE_BITS` bits: whatever the unit of a column,
it keeps six digits. A residue lies in [-1, 1] and has `RESIDUE_BITS` behind the point. So the width of a gradient's
slot, and with it the number of ciphertexts, depends on the batch alone and tells nothing about the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.fixedpoint import Floats, Grid, Ints

FEATURE_BITS = 20
RESIDUE_BITS = 24
_RESIDUES = Grid(RESIDUE_BITS)
_WIDEST = 1 << 52  # of rows beyond the grid: a float holds it exactly
_SMALLEST = -500  # exponents of a column's unit, to stay within floats
_LARGEST = 500


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Features on their grids: `values` is what the integers stand for, and what the model is trained on."""

    integers: Ints
    exponents: Ints  # of each column's unit

    @classmethod
    def encode(cls, features: Floats, fitted: NDArray[np.int64] | None = None) -> Columns:
        """On grids for the rows `fitted`, by default all. Other rows are only scored, and may reach beyond the grid."""
        largest = np.abs(features if fitted is None else features[fitted]).max(axis=0)
        _, exponents = np.frexp(largest)  # largest < 2^exponent
        units = np.where(largest > 0, exponents - FEATURE_BITS, 0).astype(np.int64)
        if features.shape[1] and not _SMALLEST <= units.min() <= units.max() <= _LARGEST:
            raise ValueError("features reach beyond 1e±140: set scale: true, or give them in another unit")
        integers = np.clip(np.rint(np.ldexp(features, -units)), -_WIDEST, _WIDEST).astype(np.int64)
        return cls(integers, units)

    def rows(self, chosen: NDArray[np.int64]) -> Columns:
        return Columns(self.integers[chosen], self.exponents)

    @property
    def values(self) -> Floats:
        return np.ldexp(self.integers.astype(np.float64), self.exponents)

    def gradient(self, integers: list[int]) -> Floats:
        """Xᵀr of one output from its integers."""
        numbers = np.array([float(value) for value in integers])
        gradient: Floats = np.ldexp(numbers, self.exponents - RESIDUE_BITS)
        return gradient


def encode_residues(residues: Floats) -> Ints:
    return _RESIDUES.encode(residues)


def slot_bits(batch: int) -> int:
    """Bits for one number of a gradient over `batch` rows: with its sign, and one to see an overflow by."""
    return FEATURE_BITS + RESIDUE_BITS + batch.bit_length() + 2


def ciphertexts(features: int, batch: int, bits: int, outputs: int = 1) -> int:
    """How many hold a gradient of all outputs."""
    return -(-features * outputs // ((bits - 1) // slot_bits(batch)))
