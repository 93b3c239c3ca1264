"""Trade-off curves: the errors that a claim leaves an attacker, and the test of scores against all of the curve.

    Curve               the least false negatives that a claim allows at each rate of false positives
    Curve.of(ledger)    of a run's releases; `gaussian_curve` of one Gaussian release, `claim_curve` of one (ε, δ)
    skellam_curve       of a number with Skellam noise
    test_curve          scores on two neighbouring inputs against the whole curve
    worst_of            of several tests, each made at a corrected confidence

One (ε, δ) touches the curve of noise in one place, where few outputs fall. The curve can be tested where many do: far
fewer samples then refute noise that is too small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, ive, ndtr, ndtri

from tacit.dp.accounting import Ledger
from tacit.dp.pricing import Method

__all__ = [
    "Curve",
    "CurveTest",
    "claim_curve",
    "gaussian_curve",
    "skellam_curve",
    "test_curve",
]

Rates = NDArray[np.float64]
Columns = NDArray[np.float64]  # a score of each output, or several: [outputs] or [outputs, scores]
_LINES = 120  # (ε, δ) that a curve is made of, denser at small ε, where most outputs fall
_LEAST_DELTA = 1e-9  # of them: no test has samples that would reach below
_TAIL = 120  # thresholds in each tail
_CAUTIONS = (1e-9, 1e-3, 1.0)  # of the failure probability, while choosing: the first that refutes
_FEWEST = 20  # samples of each input
_LARGEST_REACH = 1 << 20  # outputs on each side that are summed up; beyond, Skellam noise is Gaussian to six digits
_LARGEST_LOSS = 16.0  # e^-16 is no probability that samples tell from 0


@dataclass(frozen=True, slots=True)
class Curve:
    """What a claim says of an attacker who must tell two neighbouring inputs apart: every part of it holds.

    `lines` are (ε, δ) that hold together, in both directions; `mu` is of Gaussian noise: sensitivity over sigma.
    Convex and non-increasing, and its own inverse: which of the two inputs is called `one` does not matter.
    """

    lines: tuple[tuple[float, float], ...] = ()
    mu: float | None = None

    def __post_init__(self) -> None:
        if any(not (epsilon >= 0 and 0 <= delta <= 1) for epsilon, delta in self.lines):
            raise ValueError("lines must be pairs of an epsilon of at least 0 and a delta in [0, 1]")
        if self.mu is not None and not self.mu >= 0:
            raise ValueError(f"mu must be at least 0, got {self.mu!r}")

    @classmethod
    def of(cls, ledger: Ledger, method: Method = "pld") -> Curve:
        """The curve of all that a ledger holds; `method` is the one that its epsilon is told by.

        Guarantee: never above the true curve, since each (ε, δ) is an upper bound: no true claim is refuted.
        Source: Dong, Roth, Su 2022, Proposition 2.12: the supremum over ε of the (ε, δ) curves.
        """
        if not ledger.lines:
            return cls(((0.0, 0.0),))
        pure = ledger.pure_epsilon()
        top = min(pure, ledger.epsilon(_LEAST_DELTA, method))
        if math.isinf(top):
            return cls()
        lines = [(float(epsilon), ledger.delta(float(epsilon), method)) for epsilon in _grid(top)]
        if math.isfinite(pure):
            lines.append((pure, 0.0))
        return cls(tuple((epsilon, delta) for epsilon, delta in lines if delta < 1))

    def __call__(self, false_positives: ArrayLike) -> Rates:
        """The least false negatives at each rate of false positives; 0 where nothing is claimed.

        Source: Kairouz, Oh, Viswanath 2015, Theorem 2.1; Dong, Roth, Su 2022, Definition 2.6.
        """
        rates = np.clip(np.asarray(false_positives, dtype=np.float64), 0.0, 1.0)
        needed = np.zeros_like(rates)
        for epsilon, delta in self.lines:
            with np.errstate(over="ignore"):
                steep = 1 - delta - np.exp(np.log(np.maximum(rates, 1e-320)) + epsilon)
            needed = np.maximum(needed, np.maximum(steep, math.exp(-epsilon) * (1 - delta - rates)))
        if self.mu is not None:
            needed = np.maximum(needed, ndtr(-ndtri(rates) - self.mu))
        return np.asarray(needed)


def _grid(top: float) -> Rates:
    """Epsilons from 0 to `top`; of a large one most up to where samples reach."""
    reach = min(top, _LARGEST_LOSS)
    dense = reach * np.linspace(0.0, 1.0, _LINES) ** 1.5
    return dense if top <= _LARGEST_LOSS else np.concatenate([dense, np.linspace(reach, top, _LINES // 10)[1:]])


def gaussian_curve(multiplier: float) -> Curve:
    """The exact curve of one Gaussian release whose noise is `multiplier` times the sensitivity."""
    if not multiplier > 0:
        raise ValueError(f"multiplier must be above 0, got {multiplier!r}")
    return Curve(mu=1 / multiplier)


def claim_curve(epsilon: float, delta: float) -> Curve:
    """What one (ε, δ) says, if nothing more is claimed."""
    return Curve(((epsilon, delta),) if delta < 1 and math.isfinite(epsilon) else ())


@lru_cache(maxsize=16)
def skellam_curve(variance: float, shift: int) -> Curve:
    """The curve of one whole number, 0 or `shift`, with Skellam noise of `variance` added.

    Guarantee: from the exact probabilities, e^-v I_k(v) at k; each δ(ε) counts what they leave out.
    Source: Skellam 1946; its likelihood ratio is monotone, so that the tests with one threshold are the best ones.
    """
    reach = math.ceil(12 * math.sqrt(variance)) + shift + 40
    if reach > _LARGEST_REACH:
        return gaussian_curve(math.sqrt(variance) / shift * (1 - 1 / variance))
    places = np.arange(-reach, reach + 1)
    at = ive(np.abs(places), variance)
    other, one = at[shift:], at[:-shift]  # at the same output: of 0, and of `shift`
    left_out = max(0.0, 1 - float(other.sum())) + 1e-12
    kept = (other > 0) & (one > 0)
    losses = np.log(other[kept]) - np.log(one[kept])
    lines = []
    for epsilon in _grid(float(losses.max())):
        delta = float(np.maximum(0.0, other - math.exp(epsilon) * one).sum()) + left_out
        lines.append((float(epsilon), min(1.0, delta)))
    return Curve(tuple(line for line in lines if line[1] < 1))


@dataclass(frozen=True, slots=True)
class CurveTest:
    """Error rates of the attack that refutes the most: upper bounds that hold together with `confidence`."""

    false_positives: float  # `one` taken for `other`
    false_negatives: float
    needed: float  # false negatives that the claim needs at those false positives
    confidence: float
    samples: int
    curve: Curve = field(repr=False)

    @property
    def margin(self) -> float:
        """How far the attack is below what the claim needs, in deviations of a normal; not above 0 if it is not."""
        needed, made = float(ndtri(self.needed)), float(ndtri(self.false_negatives))
        return needed - made if not math.isinf(made - needed) else (-math.inf if made > needed else math.inf)

    @property
    def refuted(self) -> bool:
        """Whether the attack makes fewer errors than the claim allows anyone."""
        return self.false_negatives < self.needed

    def __str__(self) -> str:
        verdict = "below the" if self.refuted else "the claim allows down to"
        return (
            f"at most {self.false_positives:.3g} false positives and {self.false_negatives:.3g} false negatives, "
            f"{verdict} {self.needed:.3g}" + (" that the claim needs" if self.refuted else "") + f", with "
            f"{self.confidence:.5g} confidence ({self.samples} samples)"
        )


def test_curve(one: Columns, other: Columns, curve: Curve, *, confidence: float) -> CurveTest:
    """Test scores of outputs on two neighbouring inputs against the whole curve of a claim.

    The first half of the scores chooses what to look at: one of the scores (a column each), a threshold, extreme tails
    included, and on which side of it `other` is. The second half is judged.

    Guarantee: a true claim is refuted with probability at most 1 - confidence: the choice does not see the second half,
    and each of the two rates fails with half of 1 - confidence (Clopper and Pearson 1934).
    Assumes: samples are independent and in no order; scores may be learned from the first half, but from no more.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    one, other = _checked(one), _checked(other)
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"{one.shape[1]} scores of one input and {other.shape[1]} of the other: give as many")
    halves = len(one) // 2, len(other) // 2
    failure = (1 - confidence) / 2
    column, sign, threshold = _choose(one[: halves[0]], other[: halves[1]], curve, failure)
    fresh = sign * one[halves[0] :, column], sign * other[halves[1] :, column]
    positives = upper_rates(np.array([(fresh[0] >= threshold).sum()]), len(fresh[0]), failure)
    negatives = upper_rates(np.array([(fresh[1] < threshold).sum()]), len(fresh[1]), failure)
    return CurveTest(
        float(positives[0]),
        float(negatives[0]),
        float(curve(positives)[0]),
        confidence,
        len(one) + len(other),
        curve,
    )


test_curve.__test__ = False  # type: ignore[attr-defined]  # not a test of pytest's


def worst_of(tests: Sequence[CurveTest], confidence: float) -> tuple[int, CurveTest]:
    """The test that refutes the most, or comes closest, and its place.

    Guarantee: holds with `confidence`, if each was made at the confidence that `bounds.corrected` tells for so many.
    """
    needed = 1 - (1 - confidence) / len(tests)
    if any(test.confidence < needed - 1e-12 for test in tests):
        raise ValueError(f"each of {len(tests)} tests must be made at confidence {needed:.6g}")
    place = max(range(len(tests)), key=lambda at: (tests[at].refuted, tests[at].margin))
    return place, replace(tests[place], confidence=confidence, samples=sum(test.samples for test in tests))


def _choose(one: Columns, other: Columns, curve: Curve, failure: float) -> tuple[int, float, float]:
    """Column, side and threshold that refute with the most to spare, or come closest."""
    found: list[tuple[int, float, float]] = []
    counts = []
    for column in range(one.shape[1]):
        for sign in (1.0, -1.0):
            ones, others = np.sort(sign * one[:, column]), np.sort(sign * other[:, column])
            thresholds = _thresholds(ones, others)
            found += [(column, sign, float(threshold)) for threshold in thresholds]
            counts.append((len(ones) - np.searchsorted(ones, thresholds), np.searchsorted(others, thresholds)))
    positives, negatives = (np.concatenate(each) for each in zip(*counts, strict=True))
    best = 0
    for caution in _CAUTIONS:
        rates = (
            upper_rates(positives, len(one), failure * caution),
            upper_rates(negatives, len(other), failure * caution),
        )
        with np.errstate(invalid="ignore"):  # in deviations of a normal: differences in the tails count too
            margins = np.nan_to_num(ndtri(curve(rates[0])) - ndtri(rates[1]), nan=-np.inf)
        best = int(np.argmax(margins))
        if margins[best] > 0:
            break
    return found[best]


def _thresholds(ones: Columns, others: Columns) -> Columns:
    """Quantiles of both, dense in the tails, and just beyond the most extreme of each; the scores are sorted."""
    tails = np.geomspace(1 / max(len(ones), len(others)), 0.5, _TAIL)
    levels = np.concatenate([[0.0], tails, 1 - tails, [1.0]])
    inner = np.concatenate([np.quantile(ones, levels), np.quantile(others, levels)])
    inner -= 1e-9 * np.maximum(1.0, np.abs(inner))  # equal scores may differ in the last bits
    beyond = [np.nextafter(each, np.inf) for each in (ones[-1], others[-1])]
    return np.asarray(np.unique(np.concatenate([inner, beyond])))


def upper_rates(successes: NDArray[np.int64], trials: int, failure: float) -> Rates:
    """Above the true probability of each, except with probability `failure`.

    Source: Clopper and Pearson 1934.
    """
    rates = betainccinv(successes + 1, np.maximum(trials - successes, 1), failure)
    return np.asarray(np.where(successes == trials, 1.0, rates), dtype=np.float64)


def _checked(scores: Columns) -> Columns:
    array = np.asarray(scores, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) < _FEWEST or not array.shape[1]:
        raise ValueError(f"scores must be of at least {_FEWEST} outputs, a column a score, got shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError("scores hold NaN: score every output")
    return array
