"""Canaries: records made to be recognised, and what their traces in a trained model say about epsilon.

The attacker makes canaries whose gradients do not overlap with each other, so that each leaves its trace where no
other does. A coin for each decides whether it is trained on. From the finished model he scores each canary and guesses.
How often he is right bounds the epsilon of the training from below, whatever was claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import beta

Scores = NDArray[np.float64]
Coins = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CanaryAudit:
    """What the attacker found: no smaller epsilon than this holds at `delta`, with `confidence`."""

    epsilon: float
    delta: float
    confidence: float
    true_positive_rate: float
    false_positive_rate: float


def audit_canaries(
    train: Callable[[Coins], Scores],
    *,
    canaries: int,
    delta: float,
    rng: Generator,
    runs: int = 1,
    confidence: float = 0.95,
) -> CanaryAudit:
    """Train `runs` times, each with about half of the canaries, and bound epsilon from below by the guesses.

    `train` takes for each canary whether it is in the data and returns for each a score, high where it looks as if.
    Half of the scores choose a threshold; the other half is judged by it.

    Guarantee: a training that is (delta)-DP at an epsilon below the returned one shows it with probability at most
    1 - confidence.
    Assumes: the score of a canary does not depend on the coins of the others, so that guesses are independent. That
    holds where gradients of canaries do not overlap and the loss is linear in them, as for one-hot features.
    Source: Jagielski, Ullman, Oprea 2020, section 3; Clopper and Pearson 1934.
    """
    if canaries < 4 or runs < 1:
        raise ValueError(f"at least 4 canaries and one run are needed to guess, got {canaries} and {runs}")
    coins = rng.random((runs, canaries)) < 0.5
    scores = np.stack([np.asarray(train(members), dtype=np.float64) for members in coins])
    if scores.shape != coins.shape or not np.isfinite(scores).all():
        raise ValueError(f"train must return one finite score for each of the {canaries} canaries")
    coins, scores = coins.ravel(), scores.ravel()
    choosing = rng.permutation(len(coins)) < len(coins) // 2
    threshold = _best_threshold(scores[choosing], coins[choosing], delta, confidence)
    return lower_bound(scores[~choosing], coins[~choosing], threshold, delta, confidence)


def lower_bound(scores: Scores, coins: Coins, threshold: float, delta: float, confidence: float) -> CanaryAudit:
    """From guesses "in" above a threshold that was chosen on other data.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 2.1: e^epsilon >= (TPR - delta) / FPR and (TNR - delta) / FNR. Four
    one-sided intervals share what confidence leaves.
    """
    inside, outside = scores[coins] >= threshold, scores[~coins] >= threshold
    failure = (1 - confidence) / 4
    hits, alarms = int(inside.sum()), int(outside.sum())
    first = _log_ratio(hits, len(inside), alarms, len(outside), delta, failure)
    second = _log_ratio(len(outside) - alarms, len(outside), len(inside) - hits, len(inside), delta, failure)
    rates = (hits / max(1, len(inside)), alarms / max(1, len(outside)))
    return CanaryAudit(max(0.0, first, second), delta, confidence, *rates)


def _best_threshold(scores: Scores, coins: Coins, delta: float, confidence: float) -> float:
    candidates = np.quantile(scores, np.linspace(0.002, 0.998, 250))
    bounds = [lower_bound(scores, coins, float(each), delta, confidence).epsilon for each in candidates]
    return float(candidates[int(np.argmax(bounds))])


def _log_ratio(right: int, of_right: int, wrong: int, of_wrong: int, delta: float, failure: float) -> float:
    """log((rate of right answers - delta) / rate of wrong ones), both at the careful end of their intervals."""
    least = float(beta.ppf(failure, right, of_right - right + 1)) if right else 0.0
    most = float(beta.ppf(1 - failure, wrong + 1, of_wrong - wrong)) if wrong < of_wrong else 1.0
    return math.log((least - delta) / most) if least > delta else -math.inf
