"""Auditors of mechanisms: samples on the two neighbouring inputs that are hardest to hide, and a bound from them.

    audit_laplace       vectors with Laplace noise
    audit_gaussian      vectors with Gaussian noise
    audit_bits          randomized response on bits: free ones, or one-hot
    audit_labels        randomized labels
    audit_skellam       the opened sum of a secure aggregation with noise shares
    audit_clipping      noisy sums of clipped gradients

Each takes the mechanism as a function, so that any implementation can be audited, and the claim that is made for it.
`samples` counts releases, half of them on each input. An auditor that tries several pairs corrects for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.audit.bounds import Scores, corrected, gaussian_bound, pure_bound, strongest
from tacit.audit.finding import Claim, Finding, LowerBound
from tacit.dp import noise
from tacit.secagg.skellam import SkellamEncoding

Rows = NDArray[Any]
Mechanism = Callable[[Rows], Rows]  # rows in, as many protected rows out
Sums = Callable[[Rows, int], Rows]  # gradients of records, a row each: so many noisy sums of them
SAMPLES = 1_000_000
CONFIDENCE = 0.999
_CHUNK = 1 << 21  # numbers that are protected at a time
_ROTATION = b"an audit's rotation, which is public"


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

    def score(rows: Rows) -> Scores:
        return np.asarray((np.abs(rows - one) - np.abs(rows - other)).sum(axis=1))

    scores = _released(mechanism, one, score, effort.each), _released(mechanism, other, score, effort.each)
    return _finding(
        "distinguish two vectors", claim, pure_bound(*scores, delta=claim.delta, confidence=effort.confidence)
    )


def audit_gaussian(mechanism: Mechanism, one: Rows, other: Rows, claim: Claim, *, effort: Effort = THOROUGH) -> Finding:
    """Audit noise that is claimed to be Gaussian, along the line between `one` and `other`."""
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    apart = other - one

    def score(rows: Rows) -> Scores:
        return np.asarray((rows - one) @ apart, dtype=np.float64)

    scores = _released(mechanism, one, score, effort.each), _released(mechanism, other, score, effort.each)
    return _finding("distinguish two vectors", claim, _of_gaussian(*scores, claim.delta, effort.confidence))


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

    def score(rows: Rows) -> Scores:
        return np.asarray(rows @ apart, dtype=np.float64)

    scores = _released(mechanism, one, score, effort.each), _released(mechanism, other, score, effort.each)
    bound = pure_bound(*scores, delta=claim.delta, confidence=effort.confidence)
    other_inputs = "other pairs of inputs" if inputs == "free" else "inputs that are not one-hot"
    return _finding(f"distinguish two vectors of {inputs} bits", claim, bound, (other_inputs,))


def audit_labels(mechanism: Mechanism, claim: Claim, *, classes: int, effort: Effort = THOROUGH) -> Finding:
    """Audit a mechanism on labels 0 .. classes - 1: each label against the next one, with every set of answers."""
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    pairs = [(label, (label + 1) % classes) for label in range(classes if classes > 2 else 1)]
    confidence, each = corrected(effort.confidence, len(pairs)), effort.samples // len(pairs) // 2
    bounds = []
    for one, other in pairs:
        answers = [np.asarray(mechanism(np.full(each, label, dtype=np.int64))) for label in (one, other)]
        scores = _answer_scores(answers[0], answers[1], classes)
        bounds.append(pure_bound(*scores, delta=claim.delta, confidence=confidence))
    return _finding("distinguish two labels", claim, strongest(bounds, effort.confidence))


def _answer_scores(one: Rows, other: Rows, classes: int) -> tuple[Scores, Scores]:
    """The log-ratio of each answer's frequencies. They are counted on the first halves, which choose the threshold."""
    counts = [np.bincount(answers[: len(answers) // 2], minlength=classes) + 0.5 for answers in (one, other)]
    ratios = np.log(counts[1] / counts[0])
    return ratios[one], ratios[other]


def audit_skellam(
    encoding: SkellamEncoding,
    claim: Claim,
    *,
    survivors: int | None = None,
    effort: Effort = BRIEF,
    rng: Generator | None = None,
) -> Finding:
    """Audit the sum of `survivors` vectors, `fewest` by default: of one client either the longest vector or nothing.

    The attacker knows the vectors of all others, and the noise of `colluders` of them. One client's vector goes through
    `encode`; the others send nothing but their noise.
    """
    survivors = encoding.fewest if survivors is None else survivors
    longest = np.zeros(encoding.values)
    longest[0] = encoding.clip
    direction = np.sign(_turned(encoding, longest))
    scores = [
        np.asarray(opened_sums(encoding, vector, survivors, effort.each, rng) @ direction)
        for vector in (np.zeros(encoding.values), longest)
    ]
    found = _of_gaussian(scores[0], scores[1], claim.delta, effort.confidence)
    if found.assumes:
        found = replace(
            found, assumes="the trade-off curve is Gaussian, as that of Skellam noise nearly is if it is large"
        )
    not_tested = ("vectors other than one long coordinate", "a sum whose masks fail: see masks and gradients")
    return _finding("distinguish a client's vector from nothing in the opened sum", claim, found, not_tested)


def opened_sums(
    encoding: SkellamEncoding, vector: Rows, survivors: int, count: int, rng: Generator | None = None
) -> NDArray[np.float64]:
    """So many sums of `survivors` vectors, one of them `vector` and the others nothing, less the colluders' noise."""
    honest = survivors - encoding.colluders
    if honest < 1:
        raise ValueError(f"{survivors} survivors with {encoding.colluders} colluders leave nobody: take more survivors")
    signed = np.int32 if encoding.modulus_bits == 32 else np.int64
    own = np.stack([encoding.encode(vector, _ROTATION, rng) for _ in range(count)]).view(signed)
    others = noise.skellam(encoding.share_variance, (honest - 1, *own.shape), rng).sum(axis=0)
    return np.asarray(own.astype(np.float64) + others)


def _turned(encoding: SkellamEncoding, vector: Rows) -> NDArray[np.float64]:
    """Where the public rotation puts a vector: found by decoding the unit vectors, as any server can."""
    units = np.eye(encoding.columns)
    columns = units.astype(np.uint32) if encoding.modulus_bits == 32 else units.astype(np.uint64)
    back = np.stack([encoding.decode(column, encoding.fewest, _ROTATION) for column in columns])
    return np.asarray(back @ vector)


def audit_clipping(
    sums: Sums, claim: Claim, *, clip: float, width: int, sizes: Sequence[int] = (1, 2, 4, 8), effort: Effort = THOROUGH
) -> Finding:
    """Audit noisy sums of gradients clipped to `clip`: one enormous record, alone and among records that oppose it.

    Where gradients are averaged over micro-batches before they are clipped, the record outweighs the others of its
    micro-batch, and removing it turns their clipped mean around: up to 2 `clip` instead of `clip`.
    """
    direction = np.zeros(width)
    direction[0] = clip
    confidence, each = corrected(effort.confidence, len(sizes)), effort.samples // len(sizes) // 2
    bounds = []
    for size in sizes:
        opposing = np.tile(-direction if size > 1 else 0 * direction, (max(1, size - 1), 1))
        with_it = np.vstack([opposing, 1000.0 * size * direction])
        scores = [np.asarray(sums(records, each) @ direction) for records in (opposing, with_it)]
        bounds.append(_of_gaussian(scores[0], scores[1], claim.delta, confidence))
    not_tested = ("records in another order",)
    return _finding(
        "distinguish sums with and without one record", claim, strongest(bounds, effort.confidence), not_tested
    )


def _of_gaussian(one: Scores, other: Scores, delta: float, confidence: float) -> LowerBound:
    """By the Gaussian curve, and by one that assumes nothing, in case the noise has no such curve at all."""
    each = corrected(confidence, 2)
    bounds = (
        gaussian_bound(one, other, delta=delta, confidence=each),
        pure_bound(one, other, delta=delta, confidence=each),
    )
    return replace(strongest(bounds, confidence), samples=len(one) + len(other))  # both tests use the same ones


def _released(mechanism: Mechanism, vector: Rows, score: Callable[[Rows], Scores], count: int) -> Scores:
    """Scores of `count` releases of one vector."""
    rows = max(1, _CHUNK // vector.size)
    parts = [score(mechanism(np.tile(vector, (min(rows, count - start), 1)))) for start in range(0, count, rows)]
    return np.concatenate(parts)


def _finding(attack: str, claim: Claim, audited: LowerBound, not_tested: tuple[str, ...] = ()) -> Finding:
    return Finding(
        attack=attack,
        adversary="whoever sees the release",
        sees=f"the release; knows the two inputs that it may come from, neighbours by {claim.relation}",
        protection=str(claim),
        proved=claim,
        audited=audited,
        not_tested=(*not_tested, "time and memory that the mechanism takes"),
    )
