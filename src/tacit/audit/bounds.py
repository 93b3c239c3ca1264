"""Lower bounds on epsilon from samples of a mechanism's outputs on two neighbouring inputs.

    attack_errors(one, other, ...)      a threshold chosen on one half of the scores, its error rates bounded on the
                                        other half, by Clopper and Pearson
    pure_bound, gaussian_bound          the epsilon that no mechanism with such error rates can be below
    strongest(bounds)                   the best of several tests, each made at a corrected confidence

Scores are what an attacker computes from one output: large for `other`, small for `one`. Any score gives a valid bound;
a poor one gives a low bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.audit.finding import LowerBound
from tacit.audit.tradeoff import upper_rates
from tacit.dp.gaussian import gaussian_epsilon

__all__ = [
    "Errors",
    "attack_errors",
    "clopper_pearson",
    "corrected",
    "epsilon_of_errors",
    "gaussian_bound",
    "gaussian_mu",
    "mu_of_errors",
    "pure_bound",
    "strongest",
]

Scores = NDArray[np.float64]
Rates = NDArray[np.float64]
_CANDIDATES = 400  # thresholds that are tried on the first half
_CAUTION = 1e-3  # of the failure probability, while choosing: else a threshold wins that was only lucky on its half
_FEWEST = 20  # samples of each input


@dataclass(frozen=True, slots=True)
class Errors:
    """Upper bounds on an attacker's error rates, which hold together with probability `confidence`."""

    false_positives: float  # `one` taken for `other`
    false_negatives: float
    confidence: float
    samples: int


def clopper_pearson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """The two-sided interval for a probability.

    Source: Clopper and Pearson 1934.
    """
    tail = (1 - confidence) / 2
    return 1 - upper_rate(trials - successes, trials, tail), upper_rate(successes, trials, tail)


def upper_rate(successes: int, trials: int, failure: float) -> float:
    """Above the true probability, except with probability `failure`."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"successes must be in 0 .. trials, got {successes} of {trials}")
    return float(upper_rates(np.array([successes]), trials, failure)[0])


Quality = Callable[[Rates, Rates], Rates]  # of pairs of error rates: the larger, the better for the attacker


def attack_errors(one: Scores, other: Scores, quality: Quality, confidence: float) -> Errors:
    """Error rates of the best threshold.

    Guarantee: the threshold is chosen by `quality` on the first half of the scores and the rates are counted on the
    second, so choosing costs no confidence; each of the two rates fails with half of 1 - confidence.
    Assumes: samples are independent and in no order.
    """
    one, other = _checked(one), _checked(other)
    half_one, half_other = len(one) // 2, len(other) // 2
    threshold = _best_threshold(one[:half_one], other[:half_other], quality, confidence)
    fresh_one, fresh_other = one[half_one:], other[half_other:]
    failure = (1 - confidence) / 2
    return Errors(
        upper_rate(int((fresh_one >= threshold).sum()), len(fresh_one), failure),
        upper_rate(int((fresh_other < threshold).sum()), len(fresh_other), failure),
        confidence,
        len(one) + len(other),
    )


def _best_threshold(one: Scores, other: Scores, quality: Quality, confidence: float) -> float:
    """Of some quantiles, dense in the tails: the one whose bounded rates are best."""
    tails = np.geomspace(1 / max(len(one), len(other)), 0.5, _CANDIDATES // 4)
    levels = np.concatenate([[0.0], tails, 1 - tails, [1.0]])
    candidates = np.unique(np.concatenate([np.quantile(one, levels), np.quantile(other, levels)]))
    candidates -= 1e-9 * np.maximum(1.0, np.abs(candidates))  # equal scores may differ in the last bits
    one, other = np.sort(one), np.sort(other)
    failure = (1 - confidence) / 2 * _CAUTION
    positives = len(one) - np.searchsorted(one, candidates)
    negatives = np.searchsorted(other, candidates)
    rates = upper_rates(positives, len(one), failure), upper_rates(negatives, len(other), failure)
    return float(candidates[np.argmax(quality(*rates))])


def epsilon_of_errors(false_positives: Rates, false_negatives: Rates, delta: float) -> Rates:
    """The least epsilon at which (epsilon, delta)-DP allows such error rates.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 2.1: 1 - FNR <= e^epsilon FPR + delta, and the same with both swapped.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(1 - delta - false_negatives, 0) / false_positives)
        other = np.log(np.maximum(1 - delta - false_positives, 0) / false_negatives)
    return np.asarray(np.maximum(0.0, np.fmax(one, other)))


def mu_of_errors(false_positives: Rates, false_negatives: Rates) -> Rates:
    """The least mu at which mu-GDP allows such error rates: Phi^-1(1 - FPR) - Phi^-1(FNR).

    Source: Dong, Roth, Su 2022, Definition 2.6.
    """
    positives, negatives = np.minimum(false_positives, 1.0), np.minimum(false_negatives, 1.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(np.maximum(0.0, -ndtri(positives) - ndtri(negatives)), nan=0.0))


def pure_bound(one: Scores, other: Scores, *, delta: float = 0.0, confidence: float) -> LowerBound:
    """A lower bound on epsilon at `delta`, whatever the mechanism.

    Guarantee: at most epsilon, with probability `confidence`, for every (epsilon, delta)-DP mechanism.
    """
    errors = attack_errors(one, other, lambda fp, fn: epsilon_of_errors(fp, fn, delta), confidence)
    rates = np.array([errors.false_positives]), np.array([errors.false_negatives])
    found = float(epsilon_of_errors(*rates, delta)[0])
    return LowerBound(found, delta, confidence, "Clopper-Pearson, threshold from a separate half", errors.samples)


def gaussian_bound(one: Scores, other: Scores, *, delta: float, confidence: float) -> LowerBound:
    """A lower bound on epsilon at `delta` for a mechanism that claims the trade-off curve of Gaussian noise.

    Far tighter than `pure_bound` at a small delta: there the (epsilon, delta) region is only touched where one output
    in 1/delta falls, while a Gaussian's curve can be tested where many do.
    Guarantee: at most the mechanism's epsilon, with probability `confidence`, if it is mu-GDP for some mu.
    Source: Nasr, Hayes, Steinke et al. 2023 (Tight auditing of differentially private machine learning), section 4.
    """
    mu = gaussian_mu(one, other, confidence=confidence)
    epsilon = gaussian_epsilon(1 / mu, delta) if mu > 0 else 0.0
    return LowerBound(
        epsilon,
        delta,
        confidence,
        f"Gaussian trade-off, mu at least {mu:.4g}, threshold from a separate half",
        len(one) + len(other),
        assumes="the trade-off curve is that of Gaussian noise, as the claim says",
    )


def gaussian_mu(one: Scores, other: Scores, *, confidence: float) -> float:
    """The same as a bound on mu: sensitivity over sigma."""
    errors = attack_errors(one, other, mu_of_errors, confidence)
    return float(mu_of_errors(np.array([errors.false_positives]), np.array([errors.false_negatives]))[0])


def corrected(confidence: float, tests: int) -> float:
    """The confidence at which each of `tests` must be made so that all hold with `confidence`.

    Source: Bonferroni: failures add up.
    """
    if not 0 < confidence < 1 or tests < 1:
        raise ValueError(f"confidence must be in (0, 1) and tests at least 1, got {confidence!r} and {tests!r}")
    return 1 - (1 - confidence) / tests


_CORRECTED = "tests, corrected"


def strongest(bounds: Iterable[LowerBound], confidence: float) -> LowerBound:
    """The best of bounds that were each made at `corrected(confidence, number of them)`."""
    tried = list(bounds)
    needed = corrected(confidence, len(tried))
    if any(bound.confidence < needed - 1e-12 for bound in tried):
        raise ValueError(f"each of {len(tried)} tests must be made at confidence {needed:.6g}")
    best = max(tried, key=lambda bound: bound.epsilon)
    told = best.method.endswith(_CORRECTED)  # where tests of several tests are compared
    method = best.method if len(tried) == 1 or told else f"{best.method}; the best of {len(tried)} {_CORRECTED}"
    return LowerBound(best.epsilon, best.delta, confidence, method, sum(b.samples for b in tried), best.assumes)


def _checked(scores: Scores) -> Scores:
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or len(array) < _FEWEST:
        raise ValueError(f"scores must be a vector of at least {_FEWEST}, got shape {array.shape}")
    if math.isnan(float(array.sum())) and np.isnan(array).any():
        raise ValueError("scores hold NaN: score every output")
    return array
