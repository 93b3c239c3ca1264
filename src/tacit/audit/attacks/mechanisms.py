"""Auditors of mechanisms: samples on the two neighbouring inputs that are hardest to hide, and a bound from them.

    audit_laplace       vectors with Laplace noise
    audit_gaussian      vectors with Gaussian noise
    audit_bits          randomized response on bits: free ones, or one-hot
    audit_labels        randomized labels
    audit_skellam       the opened sum of a secure aggregation with noise shares
    audit_clipping      noisy sums of clipped gradients

Each takes the mechanism as a function, so that any implementation can be audited, and the claim that is made for it.
`samples` counts releases, half of them on each input. What is found is a lower bound on epsilon and a test of the
claim's whole trade-off curve; `confidence` is that of all tests of a finding together, however many pairs are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.audit.bounds import Scores, corrected, gaussian_bound, pure_bound, strongest
from tacit.audit.finding import Finding, LowerBound
from tacit.audit.separation import clearest, columns_of
from tacit.audit.tradeoff import Columns, Curve, claim_curve, gaussian_curve, skellam_curve, test_curve, worst_of
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_sigma
from tacit.fixedpoint import signed, word_type
from tacit.secagg.skellam import SkellamEncoding

__all__ = [
    "BRIEF",
    "MANY",
    "THOROUGH",
    "Effort",
    "audit_bits",
    "audit_clipping",
    "audit_gaussian",
    "audit_labels",
    "audit_laplace",
    "audit_skellam",
]

Rows = NDArray[Any]
Mechanism = Callable[[Rows], Rows]  # rows in, as many protected rows out
Sums = Callable[[Rows, int], Rows]  # gradients of records, a row each: so many noisy sums of them
SAMPLES = 1_000_000
CONFIDENCE = 0.999
_CHUNK = 1 << 21  # numbers that are protected at a time
_ROTATION = b"an audit's rotation, which is public"
_WIDE = 1024  # columns that one encoding fills with noise
_TOO_LONG = 100.0  # times the clipping norm: clipping is audited too
Pair = tuple[Columns, Columns]  # scores on two neighbouring inputs


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try."""

    samples: int = SAMPLES
    confidence: float = CONFIDENCE

    @property
    def each(self) -> int:
        return self.samples // 2


THOROUGH = Effort()
MANY = Effort(samples=4_000_000)  # where what tells the inputs apart is rare, and a sample cheap
BRIEF = Effort(samples=40_000)  # where each sample runs a whole client


def audit_laplace(mechanism: Mechanism, one: Rows, other: Rows, claim: Claim, *, effort: Effort = THOROUGH) -> Finding:
    """Audit noise whose likelihood falls with the L1 distance; `one` and `other` are neighbours under the claim."""
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)

    def score(rows: Rows) -> Columns:
        likelihood = (np.abs(rows - one) - np.abs(rows - other)).sum(axis=1)
        return np.stack([likelihood, rows @ (other - one)], axis=1)  # the second one shows the tails

    pair = _released(mechanism, one, score, effort.each), _released(mechanism, other, score, effort.each)
    return judged("distinguish two vectors", claim, claim_curve(claim.epsilon, claim.delta), [pair], effort)


def audit_gaussian(mechanism: Mechanism, one: Rows, other: Rows, claim: Claim, *, effort: Effort = THOROUGH) -> Finding:
    """Audit noise that is claimed to be Gaussian, on two vectors of a few numbers."""
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)

    def less(rows: Rows) -> Columns:
        return np.asarray(rows - one, dtype=np.float64)

    rows = _released(mechanism, one, less, effort.each), _released(mechanism, other, less, effort.each)
    pair = columns_of(*rows, other - one)
    return judged("distinguish two vectors", claim, curve_of_gaussian(claim), [pair], effort, gaussian=True)


def curve_of_gaussian(claim: Claim) -> Curve:
    """The curve of the Gaussian noise that has the claim's (epsilon, delta)."""
    if claim.delta == 0 or not 0 < claim.epsilon < np.inf:
        return claim_curve(claim.epsilon, claim.delta)
    return gaussian_curve(gaussian_sigma(claim.epsilon, claim.delta))


def audit_bits(
    mechanism: Mechanism,
    claim: Claim,
    *,
    width: int,
    inputs: Literal["free", "one-hot"] = "free",
    effort: Effort = MANY,
) -> Finding:
    """Audit a mechanism on vectors of `width` bits: all zeros against all ones, or two one-hot vectors."""
    if width < 1 or (inputs == "one-hot" and width < 2):
        raise ValueError(f"width must be at least 1, and 2 for one-hot vectors, got {width}")
    one, other = np.zeros(width, dtype=np.uint8), np.ones(width, dtype=np.uint8)
    if inputs == "one-hot":
        one, other = np.eye(2, width, dtype=np.uint8)
    apart = other.astype(np.float64) - one

    def score(rows: Rows) -> Columns:
        return np.asarray(rows @ apart, dtype=np.float64)[:, None]

    pair = _released(mechanism, one, score, effort.each), _released(mechanism, other, score, effort.each)
    other_inputs = "other pairs of inputs" if inputs == "free" else "inputs that are not one-hot"
    curve = claim_curve(claim.epsilon, claim.delta)
    return judged(f"distinguish two vectors of {inputs} bits", claim, curve, [pair], effort, not_tested=(other_inputs,))


def audit_labels(mechanism: Mechanism, claim: Claim, *, classes: int, effort: Effort = THOROUGH) -> Finding:
    """Audit a mechanism on labels 0 .. classes - 1: each label against the next one, with every set of answers."""
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    labels = [(label, (label + 1) % classes) for label in range(classes if classes > 2 else 1)]
    each = effort.samples // len(labels) // 2
    pairs = []
    for one, other in labels:
        answers = [np.asarray(mechanism(np.full(each, label, dtype=np.int64))) for label in (one, other)]
        pairs.append(_answer_scores(answers[0], answers[1], classes))
    return judged("distinguish two labels", claim, claim_curve(claim.epsilon, claim.delta), pairs, effort)


def _answer_scores(one: Rows, other: Rows, classes: int) -> Pair:
    """The log-ratio of each answer's frequencies. They are counted on the first halves, which choose the threshold."""
    counts = [np.bincount(answers[: len(answers) // 2], minlength=classes) + 0.5 for answers in (one, other)]
    ratios = np.log(counts[1] / counts[0])
    return ratios[one][:, None], ratios[other][:, None]


def audit_skellam(
    encoding: SkellamEncoding,
    *,
    delta: float,
    honest: int | None = None,
    effort: Effort = BRIEF,
    rng: Generator | None = None,
) -> Finding:
    """Audit the sum of `honest` clients' vectors: of one client either the longest vector or nothing.

    The attacker knows the vectors of all others, and the noise of the colluders; `honest` counts the others, as many
    as the encoding is sized for by default. All vectors go through `encode`. The claim is the encoding's own event;
    what is tested is the sum of all columns, whose noise has exact probabilities.
    """
    honest = encoding.fewest - encoding.colluders if honest is None else honest
    ledger = Ledger("client", "zero-out")
    ledger.spend(event := encoding.event())
    claim = Claim(ledger.epsilon(delta, "rdp"), delta, "client", "zero-out")
    columns = encoding.columns
    shift = int(np.ceil(columns * (encoding.scale * encoding.clip / columns**0.5) - 1e-6))
    lengths = 0.0, _TOO_LONG * encoding.clip
    one, other = (opened_sums(encoding, length, honest, effort.each, rng).sum(axis=1)[:, None] for length in lengths)
    found = judged(
        "distinguish a client's vector from nothing in the opened sum",
        claim,
        skellam_curve(columns * event.variance, shift),
        [(one, other)],
        effort,
        gaussian=True,
        not_tested=("vectors other than one long coordinate", "a sum whose masks fail: see masks and gradients"),
    )
    if found.audited is None or not found.audited.assumes:
        return found
    nearly = "the trade-off curve is Gaussian, as that of Skellam noise nearly is if it is large"
    return replace(found, audited=replace(found.audited, assumes=nearly))


def opened_sums(
    encoding: SkellamEncoding, length: float, honest: int, count: int, rng: Generator | None = None
) -> NDArray[np.float64]:
    """So many sums of `honest` vectors, in the direction of the first one, of that `length`; the others are nothing.

    A vector of one long coordinate is spread evenly over all columns. So one encoding of many columns, with the same
    noise in each, makes many sums of few columns.
    """
    if honest < 1:
        raise ValueError(f"{honest} honest survivors leave no client whose noise protects: use more survivors")
    values = max(_WIDE, encoding.columns)
    noise = encoding.noise_multiplier * encoding.l2_sensitivity
    wide = replace(encoding, values=values)
    wide = replace(wide, noise_multiplier=noise / wide.l2_sensitivity)  # the same variance in each column
    vector, nothing = np.zeros(values), np.zeros(values)
    vector[0] = length
    direction = np.sign(_turned(wide))
    found = []
    for _ in range(-(-count * encoding.columns // values)):
        total = signed(wide.encode(vector, _ROTATION, rng), wide.modulus_bits).astype(np.float64)
        for _ in range(honest - 1):
            total += signed(wide.encode(nothing, _ROTATION, rng), wide.modulus_bits)
        found.append((total * direction).reshape(-1, encoding.columns))
    return np.concatenate(found)[:count]


@lru_cache(maxsize=4)
def _turned(encoding: SkellamEncoding) -> NDArray[np.float64]:
    """Where the public rotation puts the first coordinate: found by decoding the unit vectors, as any server can."""
    columns = np.eye(encoding.columns, dtype=word_type(encoding.modulus_bits))
    return np.array([encoding.decode(column, encoding.fewest, _ROTATION)[0] for column in columns])


def audit_clipping(
    sums: Sums, claim: Claim, *, clip: float, width: int, sizes: Sequence[int] = (1, 2, 4, 8), effort: Effort = THOROUGH
) -> Finding:
    """Audit noisy sums of gradients clipped to `clip`: one enormous record, alone and among records that oppose it.

    If gradients are averaged over micro-batches before they are clipped, the record outweighs the others of its
    micro-batch, and removing it turns their clipped mean around: up to 2 `clip` instead of `clip`.
    """
    direction = np.zeros(width)
    direction[0] = clip
    each = effort.samples // len(sizes) // 2
    pairs = []
    for size in sizes:
        opposing = np.tile(-direction if size > 1 else 0 * direction, (max(1, size - 1), 1))
        with_it = np.vstack([opposing, 1000.0 * size * direction])
        rows = [np.asarray(sums(records, each), dtype=np.float64) for records in (opposing, with_it)]
        pairs.append(columns_of(rows[0], rows[1], direction))
    return judged(
        "distinguish sums with and without one record",
        claim,
        curve_of_gaussian(claim),
        pairs,
        effort,
        gaussian=True,
        not_tested=("records in another order",),
    )


def _of_gaussian(one: Scores, other: Scores, delta: float, confidence: float) -> LowerBound:
    """By the Gaussian curve, and by one that assumes nothing, in case the noise has no such curve at all."""
    each = corrected(confidence, 2)
    bounds = (
        gaussian_bound(one, other, delta=delta, confidence=each),
        pure_bound(one, other, delta=delta, confidence=each),
    )
    return replace(strongest(bounds, confidence), samples=len(one) + len(other))  # both tests use the same ones


def _released(mechanism: Mechanism, vector: Rows, score: Callable[[Rows], Columns], count: int) -> Columns:
    """Scores of `count` releases of one vector."""
    rows = max(1, _CHUNK // vector.size)
    parts = [score(mechanism(np.tile(vector, (min(rows, count - start), 1)))) for start in range(0, count, rows)]
    return np.concatenate(parts)


def judged(
    attack: str,
    claim: Claim,
    curve: Curve,
    pairs: Sequence[Pair],
    effort: Effort,
    *,
    gaussian: bool = False,
    not_tested: tuple[str, ...] = (),
    names: Sequence[str] = (),
) -> Finding:
    """A lower bound on epsilon and a test of the curve, each the best of all pairs.

    `names` of the pairs, if they have any: the attack then tells which one came closest. Half of what the tests may
    fail by is for the bounds and half for the curve, shared among the pairs.
    """
    half = corrected(effort.confidence, 2)
    each = corrected(half, len(pairs))
    bounds, tests = [], []
    for one, other in pairs:
        scores = clearest(one, other)
        bounds.append(
            _of_gaussian(*scores, claim.delta, each)
            if gaussian and claim.delta > 0
            else pure_bound(*scores, delta=claim.delta, confidence=each)
        )
        tests.append(test_curve(one, other, curve, confidence=each))
    place, test = worst_of(tests, half)
    return Finding(
        attack=f"{attack}; closest in {names[place]}" if names else attack,
        adversary="anyone who sees the release",
        sees=f"the release; knows the two inputs that it may come from, neighbours by {claim.relation}",
        protection=str(claim),
        proved=claim,
        audited=strongest(bounds, half),
        not_tested=(*not_tested, "time and memory that the mechanism takes"),
        curve=test,
    )
