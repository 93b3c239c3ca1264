"""Lower bounds on ε from outputs of other people's code on two neighbouring inputs.

    measure(one, other, ...)    both bounds, and the noise and the distance that were seen

`one` and `other` are functions without arguments: each call runs the code on that input and returns numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.audit.bounds import Errors, Quality, corrected, epsilon_of_errors, mu_of_errors, upper_rate
from tacit.audit.finding import LowerBound
from tacit.audit.tradeoff import upper_rates
from tacit.dp.gaussian import gaussian_epsilon

Vectors = NDArray[np.float64]  # a row an output
Scores = NDArray[np.float64]
Draw = Callable[[], ArrayLike]

_LARGEST_OUTPUT = 4096  # numbers
_FEW = 32  # coordinates of which all covariances are estimated
_RIDGE = 1e-12  # of the mean variance: a coordinate without noise gets a large weight, not an infinite one
_LEAST = 1e-100
_CAUTION = 0.1  # of the failure probability, while a threshold is chosen
_SPARE = 1.3  # more outputs than a refutation needs at the least
_NORMAL = 1.96  # deviations on both sides of a normal with 95%
_FEWEST = 100  # outputs in each part, however slow the code is


@dataclass(frozen=True, slots=True)
class Effort:
    """How many outputs of each input: to learn scores, to choose among them, and to judge."""

    learn: int = 1000
    choose: int = 2000
    judge: int = 4000
    most: int = 300_000  # to judge one input, if a claim can only be refuted with so many
    seconds: float = 40.0  # of all calls: fewer outputs are drawn if the code is slow

    def __post_init__(self) -> None:
        if min(self.learn, self.choose, self.judge) < _FEWEST:
            raise ValueError(f"each part needs at least {_FEWEST} outputs, got {self}")

    def less(self) -> Effort:
        """For a reading of a claim that is not judged."""
        return Effort(self.learn, self.choose, max(_FEWEST, self.judge // 4), 0, self.seconds / 4)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen of a mechanism."""

    bounds: tuple[LowerBound, ...]
    mu: float | None  # at least: distance over sigma, if the noise is Gaussian; None where that is not assumed
    distance: float  # between the mean outputs
    sigma: float  # of the noise along the line between them
    sigma_error: float  # half the width of its interval of 95%, for Gaussian noise
    samples: int

    def differs_from(self, sigma: float) -> bool:
        """Whether the noise is clearly not that of a stated `sigma`."""
        return abs(self.sigma - sigma) > 3 * self.sigma_error + 1e-9 * sigma


def measure(
    one: Draw, other: Draw, *, epsilon: float, delta: float, gaussian: bool, confidence: float, effort: Effort
) -> Measured:
    """Bounds on the ε of code that claims `epsilon` at `delta`.

    Guarantee: each bound is at most the code's ε, all together with probability `confidence`; the Gaussian one if the
    noise is Gaussian. Scores, thresholds and sizes are chosen on outputs that do not count.
    Assumes: the outputs of separate calls are independent.
    Source: Nasr, Hayes, Steinke et al. 2023 for the Gaussian bound; Clopper and Pearson 1934 for the rates.
    """
    each = corrected(confidence, 2 if gaussian else 1)
    started = time.perf_counter()
    learned = drawn(one, _FEWEST), drawn(other, _FEWEST)
    affordable = effort.seconds * 2 * _FEWEST / max(time.perf_counter() - started, 1e-9)  # calls
    if learned[0].shape[1] != learned[1].shape[1]:
        raise ValueError("the inputs give outputs of different sizes, which tell them apart: release as many numbers")
    if learned[0].shape[1] > 1:
        more = _afforded(effort.learn, 0.1 * affordable)
        learned = np.concatenate([learned[0], drawn(one, more)]), np.concatenate([learned[1], drawn(other, more)])
    scores = _scores(*learned)
    chosen = _afforded(effort.choose, 0.1 * affordable)
    second = scores(drawn(one, chosen)), scores(drawn(other, chosen))
    rules = [_best_rule(*second, lambda fp, fn: epsilon_of_errors(fp, fn, delta), each)]
    if gaussian:
        rules.append(_best_rule(*second, mu_of_errors, each))
    counts = _counts(second, rules[0], (epsilon, delta), each, effort, affordable)
    third = scores(drawn(one, counts[0])), scores(drawn(other, counts[1]))
    errors = [rule.errors(*third, each) for rule in rules]
    bounds = [_any_bound(errors[0], delta)]
    mu = None
    if gaussian:
        mu = _float(mu_of_errors, errors[1])
        bounds.append(_gaussian_bound(mu, errors[1], delta))
    return Measured(tuple(bounds), mu, *_line(*third), sum(counts))


def drawn(draw: Draw, count: int) -> Vectors:
    """`count` outputs, a row each."""
    rows: Vectors | None = None
    for place in range(count):
        output = numbers_of(draw())
        if rows is None:
            if not 0 < output.size <= _LARGEST_OUTPUT:
                raise ValueError(
                    f"an output has {output.size} numbers: release from 1 to {_LARGEST_OUTPUT}, a part is enough"
                )
            rows = np.empty((count, output.size))
        if output.size != rows.shape[1]:
            raise ValueError(
                f"outputs on one input have {rows.shape[1]} and {output.size} numbers: release as many in each call"
            )
        rows[place] = output
    if rows is None or not np.isfinite(rows).all():
        raise ValueError("an output holds numbers that are not finite: nothing is hidden if they tell the inputs apart")
    return rows


def numbers_of(released: object) -> Vectors:
    """What code released, as numbers; ValueError if it is something else."""
    try:
        return np.asarray(released, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        kind = type(released).__name__
        raise ValueError(f"an output is {kind} and not numbers: release a number or an array of numbers") from None


def _afforded(count: int, affordable: float) -> int:
    return max(_FEWEST, min(count, int(affordable)))


@dataclass(frozen=True, slots=True)
class _Scorer:
    """Scores of outputs, a column each: a linear one, and one that sees unlike variances."""

    weights: Vectors
    centres: tuple[Vectors, Vectors]
    variances: tuple[Vectors, Vectors]

    def __call__(self, outputs: Vectors) -> Scores:
        logs = [
            -((outputs - centre) ** 2 / variance + np.log(variance)).sum(axis=1)
            for centre, variance in zip(self.centres, self.variances, strict=True)
        ]
        return np.stack([outputs @ self.weights, logs[1] - logs[0]], axis=1)


def _scores(one: Vectors, other: Vectors) -> _Scorer:
    """The likelihood ratio for normal noise: with one covariance (Fisher 1936), and with variances of each input."""
    gap = other.mean(axis=0) - one.mean(axis=0)
    variances = one.var(axis=0), other.var(axis=0)
    floor = _RIDGE * max(float((variances[0] + variances[1]).mean()), float((gap**2).mean()), _LEAST)
    if len(gap) <= _FEW:
        spread = np.atleast_2d(np.cov(one, rowvar=False) + np.cov(other, rowvar=False))
        values, vectors = np.linalg.eigh(spread)
        weights = vectors @ ((vectors.T @ gap) / np.maximum(values, floor))
    else:
        weights = gap / np.maximum(variances[0] + variances[1], floor)
    length = max(float(np.linalg.norm(weights)), _LEAST)
    raised = np.maximum(variances[0], floor), np.maximum(variances[1], floor)
    return _Scorer(weights / length, (one.mean(axis=0), other.mean(axis=0)), raised)


@dataclass(frozen=True, slots=True)
class _Rule:
    """An output is taken for `other` if its score reaches the threshold."""

    column: int
    threshold: float

    def counts(self, one: Scores, other: Scores) -> tuple[int, int]:
        """False positives and false negatives."""
        return int((one[:, self.column] >= self.threshold).sum()), int((other[:, self.column] < self.threshold).sum())

    def errors(self, one: Scores, other: Scores, confidence: float) -> Errors:
        positives, negatives = self.counts(one, other)
        failure = (1 - confidence) / 2
        rates = upper_rate(positives, len(one), failure), upper_rate(negatives, len(other), failure)
        return Errors(*rates, confidence, len(one) + len(other))


def _best_rule(one: Scores, other: Scores, quality: Quality, confidence: float) -> _Rule:
    """Of every column, the threshold whose bounded error rates are best."""
    failure = (1 - confidence) / 2 * _CAUTION
    best: tuple[float, _Rule] | None = None
    for column in range(one.shape[1]):
        ones, others = np.sort(one[:, column]), np.sort(other[:, column])
        places = np.unique(np.concatenate([ones, others, [(ones[-1] + others[0]) / 2]]))
        places = np.concatenate([places, [np.nextafter(places[-1], np.inf)]])
        rates = (
            upper_rates(len(ones) - np.searchsorted(ones, places), len(ones), failure),
            upper_rates(np.searchsorted(others, places), len(others), failure),
        )
        values = quality(*rates)
        top = int(np.argmax(values))
        if best is None or values[top] > best[0]:
            best = float(values[top]), _Rule(column, float(places[top]))
    assert best is not None  # noqa: S101 -- there are two columns
    return best[1]


def _counts(
    second: tuple[Scores, Scores],
    rule: _Rule,
    claim: tuple[float, float],
    confidence: float,
    effort: Effort,
    affordable: float,
) -> tuple[int, int]:
    """How many outputs of each input to judge: more of one, if the rates seen so far could refute the claim.

    A rate of e^-ε is told from a larger one by about -log(failure) e^ε outputs.
    """
    epsilon, delta = claim
    usual = _afforded(effort.judge, 0.3 * affordable)
    one, other = second
    positives, negatives = rule.counts(one, other)
    rates = positives / len(one), negatives / len(other)
    counts = [usual, usual]
    if epsilon < 30:
        scarce = 0 if rates[0] <= rates[1] else 1
        needed = -math.log((1 - confidence) / 2) * math.exp(epsilon) / max(1e-3, 1 - delta - rates[1 - scarce])
        possible = rates[scarce] * math.exp(epsilon) < 1 - delta - rates[1 - scarce]
        wanted = math.ceil(_SPARE * needed)
        if possible and usual < wanted <= min(effort.most, 0.6 * affordable):
            counts[scarce] = wanted
    return counts[0], counts[1]


def _float(quality: Quality, errors: Errors) -> float:
    return float(quality(np.array([errors.false_positives]), np.array([errors.false_negatives]))[0])


def _any_bound(errors: Errors, delta: float) -> LowerBound:
    found = _float(lambda fp, fn: epsilon_of_errors(fp, fn, delta), errors)
    return LowerBound(found, delta, errors.confidence, "Clopper-Pearson on fresh outputs", errors.samples)


def _gaussian_bound(mu: float, errors: Errors, delta: float) -> LowerBound:
    epsilon = 0.0 if mu <= 0 else math.inf if delta == 0 else gaussian_epsilon(1 / mu, delta)
    method = f"Gaussian trade-off, mu at least {mu:.4g}, by Clopper-Pearson on fresh outputs"
    return LowerBound(epsilon, delta, errors.confidence, method, errors.samples, assumes="the noise is Gaussian")


def _line(one: Scores, other: Scores) -> tuple[float, float, float]:
    """The distance of the mean outputs along Fisher's line, the noise along it, and half the interval of the noise.

    For noise that is alike in all coordinates, the line is the one between the means.
    """
    ones, others = one[:, 0], other[:, 0]
    freedom = len(ones) + len(others) - 2
    squares = float(((ones - ones.mean()) ** 2).sum() + ((others - others.mean()) ** 2).sum())
    sigma = math.sqrt(squares / freedom)
    return abs(float(others.mean()) - float(ones.mean())), sigma, _NORMAL * sigma / math.sqrt(2 * freedom)
