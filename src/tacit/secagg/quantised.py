"""Updates of a few bits under masks: clipped, rounded at random to 2^bits - 1 levels, and added up exactly.

A client sends whole numbers from -L to L, L = 2^(bits - 1) - 1, and the ring holds the sum of n of them: bits + log2(n)
bits for each column. Rounding is unbiased, so that its error shrinks in the mean over the clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from tacit.dp.release import check_positive
from tacit.errors import PeerError
from tacit.fixedpoint import FEWEST_BITS, Ints, finite_blocks, residues, signed, word_type
from tacit.randomness import secure_rng
from tacit.secagg.encode import Decoded
from tacit.secagg.packed_words import Words
from tacit.secagg.settings import Settings

FEWEST_LEVEL_BITS, MOST_LEVEL_BITS = 4, 32


@dataclass(frozen=True, slots=True)
class QuantisedEncoding:
    """Vectors of `values` numbers clipped to `clip` in magnitude, of up to `clients` clients, in `bits` each.

    With weights a client sends its numbers times w / largest_weight, so that each fits its bits, and w in digits of
    bits - 1 in columns of their own: the server learns the weighted mean and the total weight, and no single weight. A
    client of weight w has the part w / largest_weight of the levels: choose `largest_weight` no larger than needed.

    Args:
        largest_weight: whole weights from 1 to this; None for a plain mean.
    """

    values: int
    clip: float
    clients: int
    bits: int
    largest_weight: int | None = None

    def __post_init__(self) -> None:
        check_positive("clip", self.clip)
        if not FEWEST_LEVEL_BITS <= self.bits <= MOST_LEVEL_BITS:
            raise ValueError(f"bits must be from {FEWEST_LEVEL_BITS} to {MOST_LEVEL_BITS}, got {self.bits}")
        if self.values < 1 or not 1 <= self.clients < 2**31:
            raise ValueError(f"values and clients must be at least 1, got {self.values} and {self.clients}")
        if self.largest_weight is not None and not 1 <= self.largest_weight < 2**53:
            raise ValueError(f"largest_weight must be at least 1, got {self.largest_weight}")

    @property
    def levels(self) -> int:
        """The largest number that one client sends."""
        return (1 << (self.bits - 1)) - 1

    @property
    def step(self) -> float:
        """Between two levels of a client with the largest weight."""
        return self.clip / self.levels

    @property
    def modulus_bits(self) -> int:
        """Of the smallest ring that holds the sum of all clients, with its sign."""
        return max(FEWEST_BITS, (self.clients * self.levels).bit_length() + 1)

    @property
    def columns(self) -> int:
        """Ring words in a vector."""
        return self.values + self._digits

    @property
    def _digits(self) -> int:
        return 0 if self.largest_weight is None else -(-self.largest_weight.bit_length() // (self.bits - 1))

    def beyond(self, values: Any) -> int:
        """How many of these numbers are beyond the clip."""
        return int(np.count_nonzero(np.abs(np.asarray(values)) > self.clip))

    def encode(self, values: Any, weight: int = 1, rng: Generator | None = None) -> Words:
        """Ring words of one client. What is beyond the clip is clipped; rounding draws from the system by default.

        Guarantee: for numbers within the clip the expectation of a column, times `step`, is the number times
            w / largest_weight, up to 2^-52 of the clip.
        """
        most = self.largest_weight or 1
        if not 1 <= weight <= most or weight != int(weight):
            raise ValueError(f"weight must be a whole number in 1 .. {most}, got {weight!r}")
        rng = rng or secure_rng()
        words: Words = np.empty(self.columns, dtype=word_type(self.modulus_bits))
        for place, block in finite_blocks(values, self.values):
            scaled = np.clip(block / self.clip, -1.0, 1.0)
            scaled *= self.levels * (int(weight) / most)
            below = np.floor(scaled)
            scaled -= below
            numbers = below.astype(np.int64)
            numbers += rng.random(len(numbers)) < scaled
            words[place] = residues(numbers, self.modulus_bits)
        for digit in range(self._digits):
            words[self.values + digit] = (int(weight) >> (digit * (self.bits - 1))) & self.levels
        return words

    def signed(self, words: Words) -> Ints:
        """The numbers that words stand for, of one client or of a sum; those of the weight are left out."""
        return signed(words[: self.values], self.modulus_bits)

    def weight(self, words: Words, vectors: int) -> int:
        """The total weight of `vectors` summed vectors."""
        if self.largest_weight is None:
            return vectors
        digits = signed(words[self.values :], self.modulus_bits).tolist()
        total: int = sum(digit << (place * (self.bits - 1)) for place, digit in enumerate(digits))
        if min(digits) < 0 or not vectors <= total <= vectors * self.largest_weight:
            raise PeerError(f"{vectors} weights sum to {total}, at most {vectors * self.largest_weight} can be")
        return total

    def decode(self, words: Words, vectors: int) -> Decoded:
        """The mean of `vectors` summed vectors. A sum outside what they can reach is some client's fault."""
        kind = word_type(self.modulus_bits)
        if words.shape != (self.columns,) or words.dtype != kind:
            raise ValueError(f"words must be {self.columns} of {np.dtype(kind)}, got {words.shape} of {words.dtype}")
        if not 1 <= vectors <= self.clients:
            raise ValueError(f"vectors must be in 1 .. {self.clients}, got {vectors}")
        weight, numbers = self.weight(words, vectors), self.signed(words)
        unit = self.step * (self.largest_weight or 1)  # a level, of a client of weight 1
        reached = max(int(numbers.max()), -int(numbers.min()))
        reachable = min(vectors * self.levels, math.ceil(self.clip * weight / unit) + vectors)
        if reached > reachable:
            raise PeerError(f"a client sent more than it may: the sum reaches {reached} levels of {reachable}")
        return Decoded(np.multiply(numbers, unit / weight, dtype=np.float64), float(weight))

    def settings(self, **keys: Any) -> Settings:
        """Settings of an aggregation of such vectors."""
        return Settings(self.clients, self.columns, self.modulus_bits, **keys)
