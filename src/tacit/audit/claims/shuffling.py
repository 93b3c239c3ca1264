"""How large ε is at the least if every record is in exactly one, shuffled batch of an epoch.

Accountants of DP-SGD assume that each record is in each batch by a coin of its own (Poisson sampling). Shuffled batches
have no such proof, and for little noise their ε is larger.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

_THRESHOLDS = 4000
_REACH = 40.0  # deviations: beyond, a normal has less than any delta


def shuffled_at_least(mu: float, steps: int, delta: float) -> float:
    """An ε below which none holds at `delta` for one epoch of `steps` batches with Gaussian noise.

    `mu` is the clipping norm over the noise. The event is that the largest of all steps is above a threshold. The
    record gives a gradient or none; in a first pair of data sets the other records give none, in a second one each of
    them gives a gradient in the opposite direction, so that the batch of the record stands out by two norms or by one.
    Source: Chua, Ghazi, Kamath et al., How private are DP-SGD implementations?, 2024.
    """
    if mu <= 0 or steps < 1:
        return 0.0
    thresholds = np.linspace(-_REACH, _REACH + 2 * mu, _THRESHOLDS)
    best = 0.0
    for present, absent in ((mu, 0.0), (2 * mu, mu)):
        with_record = _largest_above(thresholds, present, steps)
        without = _largest_above(thresholds, absent, steps)
        kept = (with_record > delta) & (without > 0)
        if kept.any():
            best = max(best, float(np.log((with_record[kept] - delta) / without[kept]).max()))
    return best


def _largest_above(thresholds: NDArray[np.float64], shift: float, steps: int) -> NDArray[np.float64]:
    """The probability that the largest of `steps` standard normals, one of them shifted, is above each threshold."""
    below = (steps - 1) * log_ndtr(thresholds) + log_ndtr(thresholds - shift)
    return np.asarray(-np.expm1(np.minimum(below, 0.0)))


def fixed_mu(mu: float, epochs: int) -> float:
    """Of batches that stay the same: the record is in one known batch of each epoch."""
    return mu * math.sqrt(epochs)
