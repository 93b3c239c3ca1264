"""Scores of vectors with noise: along the line between the two inputs, and as the noise that was seen suggests.

Where the noise is not alike in all coordinates, or is not independent, another direction separates the inputs better.
It is learned from the first half of the outputs, so that a test may judge it on the second.

    columns_of(one, other, apart)       a column for each score
    clearest(one, other)                the column that separates the first halves best
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.audit.tradeoff import Columns

Vectors = NDArray[np.float64]  # a row an output
_FEW = 32  # coordinates of which all covariances are estimated
_RIDGE = 1e-12  # of the mean variance: a coordinate without noise gets a large weight, not an infinite one
_LEAST = 1e-100  # for a tensor without any noise


def columns_of(one: Vectors, other: Vectors, apart: Vectors) -> tuple[Columns, Columns]:
    """Scores of the outputs on two inputs that are `apart`.

    The first is the projection on `apart`, the best one for equal and independent noise. For a few coordinates the
    second is Fisher's linear discriminant. For more there are three, each a sum weighted by what the variances allow:
    of coordinates, of neighbouring pairs, and of pairs half a vector apart, which show noise that pairs share.
    """
    apart = np.asarray(apart, dtype=np.float64)
    columns = [(one @ apart, other @ apart)]
    kept = np.flatnonzero(apart) if len(apart) > _FEW else np.arange(len(apart))
    halves = one[: len(one) // 2], other[: len(other) // 2]
    if 1 < len(apart) <= _FEW:
        weights = _discriminant(*halves)
        columns.append((one @ weights, other @ weights))
    elif len(apart) > _FEW:
        sign = apart[kept] / np.abs(apart[kept]).max()
        for places in _groups(len(kept)):
            terms = [(rows[:, kept] * sign)[:, places].sum(axis=2) for rows in (one, other)]
            first = [rows[: len(rows) // 2] for rows in terms]
            variance = first[0].var(axis=0) + first[1].var(axis=0)
            reach = np.abs(sign)[places].sum(axis=1)
            weights = reach / (variance + _RIDGE * max(float(variance.mean()), _LEAST))
            columns.append((terms[0] @ weights, terms[1] @ weights))
    stacked = [np.stack(each, axis=1) for each in zip(*columns, strict=True)]
    return stacked[0], stacked[1]


def _discriminant(one: Vectors, other: Vectors) -> Vectors:
    """Source: Fisher 1936."""
    spread = np.atleast_2d(np.cov(one, rowvar=False) + np.cov(other, rowvar=False))
    ridge = _RIDGE * max(float(np.trace(spread)) / len(spread), _LEAST)
    values, vectors = np.linalg.eigh(spread)
    gap = vectors.T @ (other.mean(axis=0) - one.mean(axis=0))
    return np.asarray(vectors @ (gap / np.maximum(values, ridge)))


def _groups(size: int) -> list[NDArray[np.int64]]:
    """Places of single coordinates, of neighbouring pairs, and of pairs half a vector apart."""
    half = size // 2
    places = np.arange(2 * half)
    return [np.arange(size)[:, None], places.reshape(-1, 2), places.reshape(2, -1).T]


def clearest(one: Columns, other: Columns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The column whose means in the first halves are the most deviations apart."""
    halves = one[: len(one) // 2], other[: len(other) // 2]
    gap = np.abs(halves[1].mean(axis=0) - halves[0].mean(axis=0))
    spread = np.sqrt(halves[0].var(axis=0) + halves[1].var(axis=0))
    best = int(np.argmax(gap / np.maximum(spread, _RIDGE * gap + _LEAST)))
    sign = 1.0 if halves[1][:, best].mean() >= halves[0][:, best].mean() else -1.0
    return sign * one[:, best], sign * other[:, best]
