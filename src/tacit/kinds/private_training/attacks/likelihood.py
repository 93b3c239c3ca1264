"""What one number of a noisy sum says for a canary in it, by the plan's noise or by what was learned of the real one.

Numbers are in units of the clipping norm: a canary that is clipped as planned moves its coordinate by a signal of 1,
and the noise has the plan's multiplier. An observer believes the plan until known noise shows otherwise, beyond chance:
if the plan is kept, scores are the plan's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from tacit.training.plan import Noise

Numbers = NDArray[np.float64]
_CHANCE = 1e-8  # that noise as planned is taken for less
_LEAST = 1e-9  # share of the planned variance: no noise at all


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Of Gaussian or Laplace noise."""

    kind: Noise

    def ratio(self, values: Numbers, multiplier: ArrayLike, signal: ArrayLike, share: ArrayLike) -> Numbers:
        """The logarithm of the likelihood with a canary over that without, for `share` of the planned variance."""
        scale, signal = np.asarray(multiplier) * np.sqrt(share), np.asarray(signal)
        if self.kind == "laplace":
            return np.asarray((np.abs(values) - np.abs(values - signal)) / scale)
        return np.asarray((values - signal / 2) * signal / scale**2)

    def share(self, noise: Numbers, multiplier: ArrayLike, axis: int) -> Numbers:
        """The part of the planned variance that noise along `axis` has: 1 unless it is less beyond chance.

        Why: the squares of normal numbers, and twice the absolute values of Laplace numbers, add up to chi squared.
        """
        scaled = np.abs(noise) / np.asarray(multiplier)
        count = noise.shape[axis]
        if self.kind == "laplace":
            shares = scaled.mean(axis=axis) ** 2
            chance = chi2.cdf(2 * scaled.sum(axis=axis), 2 * count)
        else:
            shares = np.square(scaled).mean(axis=axis)
            chance = chi2.cdf(count * shares, count)
        return np.asarray(np.where(chance < _CHANCE, np.maximum(shares, _LEAST), 1.0))


def sampled(ratios: Numbers, probability: Numbers | float) -> Numbers:
    """The logarithm of the likelihood ratio where the canary is in the sample with a probability only."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-np.asarray(probability)), np.log(probability) + ratios))
