"""Scores with the interval of a bootstrap over records, which are taken as independent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.finding import Score

CONFIDENCE = 0.95
_RESAMPLES = 500


def mean_score(metric: str, values: NDArray[Any], baseline: float, *, smaller_is_worse: bool = False) -> Score:
    """The mean of one value for each record."""
    return resampled(metric, lambda drawn: float(values[drawn].mean()), len(values), baseline, smaller_is_worse)


def resampled(
    metric: str,
    measure: Callable[[NDArray[np.int64]], float],
    records: int,
    baseline: float,
    smaller_is_worse: bool = False,
) -> Score:
    """What `measure` makes of records, some of them several times: of all, and of those that a bootstrap draws."""
    rng = np.random.default_rng(0)
    drawn = [measure(rng.integers(0, records, records)) for _ in range(_RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    found = measure(np.arange(records))
    return Score(metric, found, float(low), float(high), CONFIDENCE, baseline, records, smaller_is_worse)
