"""Fixed-point scales of a training between two parties, chosen so that no value leaves its ring.

    scales(terms)                             bits of residues and of gradients; ValueError if a training does not fit
    step_scale(terms, scales, rate, rows)     how the learning rate of a step enters

A feature is a multiple of 2^-11 with 20 bits, so it lies within 256: five digits of four bits. A weight is a multiple
of 2^-24, as with a dealer. A score has 35 fraction bits. It is needed modulo 4096 only, for the cells of `lookup`:
words of 6 bytes. A linear regression takes all 8 bytes. A gradient is a sum over a batch of feature × residue. Its
largest value follows from the batch and from what the mean of |x| in a column may reach, which each party checks of its
own columns; its words have as many bytes as that takes, with two bits to spare for `lift`, and the residues get the
bits that are left of the last byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared.masked_table import largest_named
from tacit.kinds.vertical_logistic.shared.scales import WEIGHT, StepScale, check_decay
from tacit.kinds.vertical_logistic.shared.terms import REACH, Terms
from tacit.kinds.vertical_logistic.two_party.lookup import SCORE

DIGITS, DIGIT_BITS = 5, 4
FEATURE = SCORE - WEIGHT
LARGEST_FEATURE = math.ldexp((1 << (DIGITS * DIGIT_BITS - 1)) - 1, -FEATURE)
RATE = 12  # fraction bits of the rate's factor in a linear regression
_RESIDUE_LEAST, _RESIDUE_MOST = 13, 20
_SCORE_BYTES = {"logistic": 6, "linear": 8}


@dataclass(frozen=True, slots=True)
class Scales:
    """Fraction bits of residues, and bytes of the words that products are modulo."""

    residue: int
    gradient_bytes: int
    score_bytes: int

    @property
    def gradient_bits(self) -> int:
        return 8 * self.gradient_bytes


def scales(terms: Terms) -> Scales:
    """The scales of a training; ValueError if its batches, columns or rates do not fit 64 bits."""
    check_decay(terms)
    residue = 1.0 if terms.model == "logistic" else 2 * REACH
    largest = terms.largest_batch * terms.column_bound * residue * 2 * (2 if terms.l2 else 1)
    bits = math.ceil(math.log2(largest)) + FEATURE + 2
    width = -(-(bits + _RESIDUE_LEAST) // 8)
    if width > 8:
        raise ValueError(
            f"a batch of {terms.largest_batch} rows whose columns reach {terms.column_bound:g} on average needs "
            f"{bits + _RESIDUE_LEAST} bits, and 64 are there: take a smaller batch"
        )
    chosen = Scales(min(8 * width - bits, _RESIDUE_MOST), width, _SCORE_BYTES[terms.model])
    for rate in terms.rates:
        for rows in (terms.largest_batch, terms.counts[0] // terms.schedule.steps):
            step_scale(terms, chosen, rate, rows)
    return chosen


def step_scale(terms: Terms, scales: Scales, rate: float, rows: int) -> StepScale:
    """How a step over `rows` rows at this learning rate is scaled: its gradient is moved to the top of 64 bits."""
    exponent = math.frexp(rows / rate)[1]
    unit = scales.residue + FEATURE + 64 - scales.gradient_bits - WEIGHT
    if not 1 <= (shift := unit + exponent) <= 61:
        raise ValueError(
            f"a learning rate of {rate:g} for batches of {rows} rows does not fit the ring: take one from "
            f"{math.ldexp(rows, unit - 60):.2g} to {math.ldexp(rows, unit - 2):.2g}"
        )
    return StepScale(math.ldexp(rate / rows, exponent), shift, round(math.ldexp(rate * terms.l2, shift)))


def encoded(table: Floats, me: str, names: Sequence[str] = ()) -> NDArray[np.int64]:
    """Features as integers; ValueError for one that does not fit."""
    largest = np.abs(table).max(axis=0, initial=0.0)
    if len(largest) and (worst := float(largest.max())) > LARGEST_FEATURE:
        raise ValueError(
            f"{me}, {largest_named(largest, names)}: its largest absolute value is {worst:.4g}, and up to "
            f"{LARGEST_FEATURE:.4g} fits: standardise it (scale: true) or clip it"
        )
    return np.rint(table * math.ldexp(1.0, FEATURE)).astype(np.int64)
