"""Canaries: records made to be recognised, and what their traces in a trained model say about epsilon.

The attacker makes canaries whose gradients do not overlap with each other, so that each leaves its trace where no
other does. A coin for each decides whether it is trained on. From the finished model he scores each canary and guesses.
How often he is right bounds the epsilon of the training from below, whatever was claimed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.audit.bounds import Scores, pure_bound
from tacit.audit.finding import LowerBound

Coins = NDArray[np.bool_]
_FEWEST = 100  # guesses: half of them choose a threshold


def audit_canaries(
    train: Callable[[Coins], Scores],
    *,
    canaries: int,
    delta: float,
    rng: Generator,
    runs: int = 1,
    confidence: float = 0.95,
) -> LowerBound:
    """Train `runs` times, each with about half of the canaries, and bound epsilon from below by the guesses.

    `train` takes for each canary whether it is in the data and returns for each a score, high where it looks as if.
    Half of the scores, taken at random, choose a threshold; the other half is judged by it.

    Guarantee: at most the epsilon of the training at `delta`, with probability `confidence`.
    Assumes: the score of a canary does not depend on the coins of the others, so that guesses are independent. That
    holds where gradients of canaries do not overlap and the loss is linear in them, as for one-hot features.
    Source: Jagielski, Ullman, Oprea 2020, section 3; for the bound see `bounds.pure_bound`.
    """
    if canaries * runs < _FEWEST:
        raise ValueError(f"at least {_FEWEST} guesses are needed, got {canaries} canaries in {runs} runs: make more")
    coins = rng.random((runs, canaries)) < 0.5
    scores = np.stack([np.asarray(train(members), dtype=np.float64) for members in coins])
    if scores.shape != coins.shape or not np.isfinite(scores).all():
        raise ValueError(f"train must return one finite score for each of the {canaries} canaries")
    order = rng.permutation(coins.size)
    coins, scores = coins.ravel()[order], scores.ravel()[order]
    return pure_bound(scores[~coins], scores[coins], delta=delta, confidence=confidence)
