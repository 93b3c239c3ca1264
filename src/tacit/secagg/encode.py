"""From a client's floats to ring words and from their sum to a mean: plain, or weighted inside the mask.

The ring is chosen when the encoding is made, so that the largest possible sum cannot wrap; if even 64 bits are too few,
it is refused there. With weights a vector is [round(w x scale), w]: the server learns the weighted mean and the total
weight, and no single weight. `quantised` has vectors of a few bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from tacit.dp.release import check_positive
from tacit.errors import PeerError
from tacit.fixedpoint import FEWEST_BITS, MOST_BITS, Floats, Grid, Ring, finite_blocks, magnitude
from tacit.secagg.packed_words import Words
from tacit.secagg.settings import Settings


@dataclass(frozen=True, slots=True)
class Decoded:
    mean: Floats
    weight: float  # the total weight; the number of vectors where there are no weights


@dataclass(frozen=True, slots=True)
class Encoding:
    """Vectors of `values` numbers up to `bound` in magnitude, of up to `clients` clients.

    Args:
        largest_weight: whole weights from 1 to this; None for a plain mean.
        exact: take a ring of as many bits as the sums need, from 8 to 64; else of 32 or 64.
    """

    values: int
    bound: float
    clients: int
    fraction_bits: int = 20
    largest_weight: int | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        check_positive("bound", self.bound)
        if not -64 <= self.fraction_bits <= 64:
            raise ValueError(f"fraction_bits must be in [-64, 64], got {self.fraction_bits}")
        if self.values < 1 or self.clients < 1:
            raise ValueError(f"values and clients must be at least 1, got {self.values} and {self.clients}")
        if self.largest_weight is not None and self.largest_weight < 1:
            raise ValueError(f"largest_weight must be at least 1, got {self.largest_weight}")
        _ = self.ring  # refused here if it does not fit

    @property
    def ring(self) -> Ring:
        """The smaller ring in which no sum wraps."""
        grid = Grid(self.fraction_bits)
        weight = self.largest_weight or 1
        largest = self.clients * (self.bound * weight + grid.step)
        for bits in range(FEWEST_BITS, MOST_BITS + 1) if self.exact else (32, 64):
            one = math.ldexp(self.bound * weight, self.fraction_bits)  # of one client: a float64 must hold it
            if (
                one <= 2**53
                and max(math.ldexp(largest, self.fraction_bits), self.clients * weight) < 2 ** (bits - 1) - 1
            ):
                return Ring(bits, grid, largest)
        raise ValueError(
            f"{self.clients} clients with values up to {self.bound:g}, weights up to {weight} and {self.fraction_bits} "
            f"fraction bits could sum to {largest:.3g}, more than 64 bits hold: lower fraction_bits, bound or "
            "largest_weight"
        )

    @property
    def columns(self) -> int:
        """Ring words in a vector."""
        return self.values + (self.largest_weight is not None)

    def encode(self, values: Any, weight: int = 1, rng: Generator | None = None) -> Words:
        """Ring words of one client; rounded stochastically with `rng`. What is out of range is an error."""
        if self.largest_weight is None and weight != 1:
            raise ValueError(f"this encoding has no weights, got {weight}")
        if not 1 <= weight <= (self.largest_weight or 1) or weight != int(weight):
            raise ValueError(f"weight must be a whole number in 1 .. {self.largest_weight}, got {weight!r}")
        ring = self.ring
        words: Words = np.empty(self.columns, dtype=ring.dtype)
        for place, block in finite_blocks(values, self.values):
            largest = magnitude(block)
            if largest > self.bound:
                raise ValueError(
                    f"values reach {largest:.6g}, the encoding is made for {self.bound:g}: clip them first"
                )
            words[place] = ring.encode(block if self.largest_weight is None else block * weight, rng)
        if self.largest_weight is not None:
            words[-1] = int(weight)
        return words

    def decode(self, words: Words, vectors: int) -> Decoded:
        """The mean of `vectors` summed vectors. A sum outside what they can reach is some client's fault."""
        ring = self.ring
        if words.shape != (self.columns,) or words.dtype != ring.dtype:
            raise ValueError(
                f"words must be {self.columns} of {np.dtype(ring.dtype)}, got {words.shape} of {words.dtype}"
            )
        if not 1 <= vectors <= self.clients:
            raise ValueError(f"vectors must be in 1 .. {self.clients}, got {vectors}")
        weight = vectors
        if self.largest_weight is not None:
            weight, words = int(words[-1]) % 2**ring.modulus_bits, words[:-1]
            if not vectors <= weight <= vectors * self.largest_weight:
                raise PeerError(f"{vectors} weights sum to {weight}, at most {vectors * self.largest_weight} can be")
        reachable = self.bound * weight + ring.grid.step * vectors
        sums = Ring(ring.modulus_bits, ring.grid, reachable)
        try:
            mean = sums.decode(words)
        except ValueError as error:
            raise PeerError(f"a client sent more than it may: {error}") from None
        mean /= weight
        return Decoded(mean, float(weight))

    def settings(self, **keys: Any) -> Settings:
        """Settings of an aggregation of such vectors."""
        return Settings(self.clients, self.columns, self.ring.modulus_bits, **keys)
