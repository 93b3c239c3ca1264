"""Oracles: exact mass functions and exact privacy curves, independent of the code under test."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from scipy.stats import chi2


def gaussian_masses(sigma: float, reach: int) -> np.ndarray:
    """P(k) for k in -reach .. reach of the discrete Gaussian."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    return weights / weights.sum()


def laplace_masses(rate: float, reach: int) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    return np.tanh(rate / 2) * np.exp(-rate * np.abs(k))


def skellam_masses(variance: float, reach: int) -> np.ndarray:
    half = [float(mpmath.besseli(k, variance) * mpmath.exp(-variance)) for k in range(reach + 1)]
    return np.array(half[:0:-1] + half)


def delta_of_shift(masses: np.ndarray, shift: int, epsilon: float) -> float:
    """The exact delta at epsilon between a distribution on consecutive integers and its shift."""
    one = np.concatenate([masses, np.zeros(shift)])
    other = np.concatenate([np.zeros(shift), masses])
    return max(
        math.fsum(np.maximum(0, one - math.exp(epsilon) * other)),
        math.fsum(np.maximum(0, other - math.exp(epsilon) * one)),
    )


def chi_squared_p(samples: np.ndarray, masses: np.ndarray, reach: int) -> float:
    """The p-value of integer samples against masses on -reach .. reach; rare values are pooled."""
    counts = np.bincount(np.clip(samples, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3).astype(float)
    expected = np.concatenate([[0.0], masses, [max(0.0, 1 - masses.sum())]]) * samples.size
    cells: list[tuple[float, float]] = []
    observed = wanted = 0.0
    for count, expectation in zip(counts, expected, strict=True):
        observed += count
        wanted += expectation
        if wanted >= 20:
            cells.append((observed, wanted))
            observed = wanted = 0.0
    cells[-1] = (cells[-1][0] + observed, cells[-1][1] + wanted)
    statistic = sum((o - w) ** 2 / w for o, w in cells)
    return float(chi2.sf(statistic, len(cells) - 1))
