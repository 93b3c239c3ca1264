"""Noise that a passive adds to the sums it opens, so that they do not add up to whole columns.

Without it, a few dozen trees are enough equations to solve for the bin of every cell (docs/trees-leaks.md).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tacit.dp.noise import discrete_gaussian
from tacit.kinds.vertical_trees.protocol.features import IntArray

__all__ = ["deviations", "noise_words"]

_HALF = 32


def deviations(noise: float, bits: int) -> tuple[float, float]:
    """The standard deviations in units of rounded g and h, of noise that is given in units of the largest |g| and h."""
    if not noise >= 0:
        raise ValueError(f"noise: {noise:g} is not possible: choose 0 or more")
    return noise * (2 ** (bits - 1) - 1), noise * (2**bits - 1)


def noise_words(shape: tuple[int, ...], noise: float, bits: int, rng: Generator | None = None) -> IntArray:
    """Packed discrete Gaussian noise, to be added modulo 2^64 to sums of words; zeros if `noise` is 0.

    Guarantee: none in the sense of differential privacy. The partitions of chosen splits leave a passive exactly, so
    no ε is claimed for noisy sums beside them; what noise stops is measured by an attack.
    """
    of_g, of_h = deviations(noise, bits)
    if noise == 0:
        return np.zeros(shape, dtype=np.int64)
    return (discrete_gaussian(of_g, shape, rng) << _HALF) + discrete_gaussian(of_h, shape, rng)
