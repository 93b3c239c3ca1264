"""Fixed-point scales, chosen so that no value leaves the ring; and what uniform masks fall short of uniform.

scales(terms)           fraction bits of features, residues and class weights; ValueError if a batch leaves too few
step_scale(...)         how the learning rate of a step enters: a factor from 1 to 2, and a shift
distances(terms)        statistical distances of everything that a party receives from uniform words

A gradient is a sum over a batch of feature x residue, both as integers. Its bits are those of the features' scale, of
the residues' scale (times the class weights') and of the largest sum of |x| over a batch, which each party checks on
its own columns. They must stay below 62 with the factor of the learning rate and L2 included. The residues get what is
left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.kinds.vertical_logistic.shared.terms import REACH, Terms

WEIGHT = 24  # fraction bits of weights
ARGUMENT = 24  # of the score, as the argument of a periodic function: 32-bit words, so a period of 2^8
ROW_WEIGHT = 8  # of class weights
RATE = 12  # of the rate's factor in a linear regression
_FEATURE, _FEATURE_LEAST = 16, 12
_RESIDUE, _RESIDUE_GOOD, _RESIDUE_LEAST = 29, 18, {"logistic": 16, "linear": 10}
_ROOM = 61  # bits of a gradient; truncation needs less than 62
_OVERSHOOT = 1.25  # of a residue beyond 1: error of the series and rounding of its coefficients


@dataclass(frozen=True, slots=True)
class Scales:
    """Fraction bits.

    Args:
        residue: before class weights; `cosine` bits of the dealer's sines and cosines and `coefficient` bits of the
            public factors add up to it. The latter are more: the rounding of each of the many factors counts in full,
            that of a cosine only times its coefficient.
        row_weight: 0 without class weights.
    """

    feature: int
    residue: int
    row_weight: int

    @property
    def cosine(self) -> int:
        return (self.residue - 3) // 2

    @property
    def coefficient(self) -> int:
        return self.residue - self.cosine

    @property
    def score(self) -> int:
        return self.feature + WEIGHT


@dataclass(frozen=True, slots=True)
class StepScale:
    """How a gradient becomes a change of weights.

    Args:
        factor: rate / rows, times a power of two: from 1 to 2. Residues carry it.
        shift: bits that truncation drops.
        decay: what a weight is multiplied with and added to its gradient: rate * l2 at the gradient's scale.
    """

    factor: float
    shift: int
    decay: int


def scales(terms: Terms) -> Scales:
    """The scales of a training; ValueError if its batches are too large for 64 bits."""
    check_decay(terms)
    residue = _OVERSHOOT if terms.model == "logistic" else 2 * REACH
    largest = terms.largest_batch * terms.column_bound * residue * 2 * (2 if terms.l2 else 1)
    row_weight = ROW_WEIGHT if terms.weighted else 0
    room = _ROOM - math.ceil(math.log2(largest)) - row_weight
    feature = min(_FEATURE, max(_FEATURE_LEAST, room - _RESIDUE_GOOD))
    left = min(_RESIDUE, room - feature)
    if left < (least := _RESIDUE_LEAST[terms.model]):
        raise ValueError(
            f"a batch of {terms.largest_batch} rows whose columns reach {terms.column_bound:g} on average leaves "
            f"{left} bits of 64 for a residue, and {least} are needed: take a smaller batch"
        )
    chosen = Scales(feature, left, row_weight)
    for rate in terms.rates:
        for rows in (terms.largest_batch, terms.counts[0] // terms.schedule.steps):
            step_scale(terms, chosen, rate, rows)
    return chosen


def check_decay(terms: Terms) -> None:
    """ValueError if l2 makes weights grow instead of shrink."""
    if max(terms.rates) * terms.l2 > 1:
        raise ValueError(
            f"learning rate {max(terms.rates):g} times l2 {terms.l2:g} is above 1, and weights would grow at each "
            "step: lower one of them"
        )


def step_scale(terms: Terms, scales: Scales, rate: float, rows: int) -> StepScale:
    """How a step over `rows` rows at this learning rate is scaled."""
    exponent = math.frexp(rows / rate)[1]  # exact, unlike a logarithm: all parties must find the same
    shift = scales.residue + scales.row_weight + scales.feature + exponent - WEIGHT
    if not 1 <= shift <= 61:
        raise ValueError(
            f"a learning rate of {rate:g} for batches of {rows} rows does not fit the ring: take one from "
            f"{math.ldexp(rows, scales.residue + scales.row_weight + scales.feature - WEIGHT - 60):.2g} to "
            f"{math.ldexp(rows, scales.residue + scales.row_weight + scales.feature - WEIGHT - 2):.2g}"
        )
    return StepScale(
        factor=math.ldexp(rate / rows, exponent), shift=shift, decay=round(math.ldexp(rate * terms.l2, shift))
    )


def distances(terms: Terms, columns: int = 1000) -> dict[str, float]:
    """How far from uniform is what a party receives over a whole training, by opening; the sum bounds them all.

    Guarantee: every mask is uniform over the ring of what it hides and used once, so given uniform masks each opening
        is uniform whatever the tables hold: its distance is 0. Masks are streams of AES-128 in counter mode, whose
        blocks are all different: q blocks are q(q-1)/2^129 from uniform ones, for an ideal cipher.
    Source: the switching lemma, Bellare and Rogaway 2006, Lemma 1.

    Args:
        columns: features of all parties together, where they are not known yet.
    """
    held_out = terms.counts[1]
    cells = columns * terms.outputs
    step = 4 * cells + (terms.largest_batch * terms.outputs) * (2 * terms.harmonics + 6)
    figures = 2 * cells + held_out * terms.outputs * (2 * terms.harmonics + terms.buckets + 8)
    evaluations = {"epoch": len(terms.rates), "end": 1, "never": 0}[terms.figures]
    streams = [(terms.rows * columns + terms.own_words, 1), (step, terms.schedule.total), (figures, evaluations)]
    parties = len(terms.parties)
    blocks = parties * sum(count * (words / 2) ** 2 for words, count in streams) / 2.0**129
    keys = (parties * (1 + terms.schedule.total + evaluations)) ** 2 / 2.0**129
    exact = ["features", "weights", "scores", "residues", "gradients", "scores held out"]
    return {**dict.fromkeys(exact, 0.0), "streams of masks": blocks, "keys of streams": keys}
