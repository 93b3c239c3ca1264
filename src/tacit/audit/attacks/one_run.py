"""A lower bound on epsilon from one run: many records take part or not, each by a fair coin, and an attacker guesses.

Source: Steinke, Nasr, Jagielski 2023, Privacy auditing with one (1) training run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from tacit.audit.bounds import corrected, strongest
from tacit.audit.finding import LowerBound

_LARGEST_EPSILON = 200.0


def p_value(records: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The most probable that `right` or more of `guesses` are right, under (epsilon, delta)-DP.

    Source: Theorem 3.1: with W ~ Binomial(guesses, e^eps / (1 + e^eps)) it is P[W >= v] + 2 m delta alpha, where alpha
    is the maximum over i of P[v > W >= v - i] / i.
    """
    if not 0 <= right <= guesses <= records or records < 1:
        raise ValueError(f"need 0 <= right <= guesses <= records, got {right}, {guesses} and {records}")
    if right == 0:
        return 1.0
    rate = float(expit(epsilon))
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, rate))
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, float(binom.sf(right - 1, guesses, rate)) + 2 * records * delta * alpha)


def epsilon_of_guesses(records: int, guesses: int, right: int, *, delta: float, confidence: float) -> float:
    """The largest epsilon that so many right guesses refute; 0 if none."""
    failure = 1 - confidence
    if p_value(records, guesses, right, 0.0, delta) >= failure:
        return 0.0
    low, high = 0.0, 1.0
    while high < _LARGEST_EPSILON and p_value(records, guesses, right, high, delta) < failure:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(records, guesses, right, middle, delta) < failure else (low, middle)
    return low


def one_run_bound(
    scores: NDArray[np.float64],
    took_part: NDArray[np.bool_],
    *,
    delta: float,
    confidence: float,
    guesses: Sequence[int] = (),
) -> LowerBound:
    """A lower bound from one score for each record, large where the attacker thinks that it took part.

    He guesses "in" for the largest scores and "out" for the smallest, half of `guesses` each, and abstains between.
    Several numbers of guesses are tried, and the confidence corrected for that.
    Guarantee: at most epsilon, with probability `confidence`, for adding or removing one record.
    Assumes: each record took part by a fair coin of its own, and `scores` was computed without the coins.
    """
    records = len(scores)
    if scores.shape != took_part.shape or records < 2 or np.isnan(scores).any():
        raise ValueError(f"need one number for each record, got {scores.shape} scores of {took_part.shape} records")
    tried = sorted(set(guesses or (2 * max(1, records // part // 2) for part in (1, 2, 4, 10))))
    if tried[0] < 2 or tried[-1] > records:
        raise ValueError(f"guesses must be in 2 .. {records}, got {tried[0]} .. {tried[-1]}")
    order = np.argsort(scores, kind="stable")
    each = corrected(confidence, len(tried))
    found = []
    for count in tried:
        out, kept = order[: count // 2], order[records - count // 2 :]
        right = int(took_part[kept].sum() + (~took_part[out]).sum())
        total = 2 * (count // 2)
        epsilon = epsilon_of_guesses(records, total, right, delta=delta, confidence=each)
        found.append(LowerBound(epsilon, delta, each, f"one run, {right} of {total} guesses right", records))
    best = strongest(found, confidence)
    return LowerBound(best.epsilon, delta, confidence, best.method, records)


def expected_limit(records: int, *, delta: float, confidence: float) -> float:
    """The largest epsilon that one run with so many records can show at all: every guess right."""
    return epsilon_of_guesses(records, records, records, delta=delta, confidence=confidence) if records else -math.inf
