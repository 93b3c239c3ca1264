"""Integer distributions as alias tables: one 64-bit word and two look-ups a draw.

A table holds integer weights of `weight_bits` bits that sum to 2^weight_bits, and draws from them exactly: a word picks
a column and is compared with the first bits of the column's threshold; on a tie (about one draw in 2^50) further words
decide. The only error is that of rounding the masses to integers and cutting the tails. It is added up while the table
is built and kept as `log2_distance`: it may be far below the smallest float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import gmpy2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.randomness import random_words

_CHUNK = 1 << 14  # words a pass: fastest on the machines tried, all buffers in the second-level cache
_GUARD_BITS = 128  # of the floating-point masses beyond the integer weights


@dataclass(frozen=True, slots=True)
class AliasTable:
    """A symmetric distribution on the integers."""

    index_bits: int
    first_word: NDArray[np.uint64]  # a column's number in the top bits, its threshold's first bits below
    threshold: tuple[int, ...]  # whole, for ties
    threshold_bits: int
    outcome: NDArray[np.int64]  # outcome[2 * column + (word >= threshold)]
    log2_distance: float

    def draw(self, count: int, rng: Generator) -> NDArray[np.int64]:
        result = np.empty(count, dtype=np.int64)
        columns = np.empty(_CHUNK, dtype=np.uint64)
        thresholds = np.empty(_CHUNK, dtype=np.uint64)
        shift = np.uint64(64 - self.index_bits)
        for start in range(0, count, _CHUNK):
            part = result[start : start + _CHUNK]
            word = random_words(rng, len(part))
            # The column is below 2^63, so that its signed view is the same number.
            column = np.right_shift(word, shift, out=columns[: len(part)]).view(np.int64)
            first = np.take(self.first_word, column, out=thresholds[: len(part)], mode="clip")
            above = word >= first
            for tie in np.flatnonzero(word == first):
                above[tie] = self._at_or_above(int(column[tie]), rng)
            column <<= 1
            column += above
            np.take(self.outcome, column, out=part, mode="clip")
        return result

    def _at_or_above(self, column: int, rng: Generator) -> bool:
        """Whether the rest of a uniform number is at or above the rest of the threshold; their first words agree."""
        left = self.threshold_bits - (64 - self.index_bits)
        words = random_words(rng, -(-left // 64)).tobytes()
        return int.from_bytes(words, "little") >> (-left % 64) >= self.threshold[column] & ((1 << left) - 1)


def mass_precision(weight_bits: int) -> gmpy2.context:
    """The floating-point context in which the masses of a table are to be computed."""
    return gmpy2.context(gmpy2.get_context(), precision=weight_bits + _GUARD_BITS)


def symmetric_table(masses: Sequence[gmpy2.mpfr], log2_tail: float, weight_bits: int) -> AliasTable:
    """The table of P(X = k) = P(X = -k) proportional to `masses[k]`, for k from 0.

    Args:
        masses: computed in `mass_precision(weight_bits)` by at most 2^60 roundings each.
        log2_tail: a bound on log2 P(|X| >= len(masses)), which the table leaves out.
        weight_bits: of the integers that the masses are rounded to.
    """
    with mass_precision(weight_bits):
        scale = gmpy2.mpfr(2) ** weight_bits / (masses[0] + 2 * sum(masses[1:]))
        exact = [mass * scale for mass in masses]
        weights = [int(gmpy2.rint(weight)) for weight in exact]
        weights[0] += 2**weight_bits - weights[0] - 2 * sum(weights[1:])
        moved = abs(weights[0] - exact[0]) + 2 * sum(abs(w - e) for w, e in zip(weights[1:], exact[1:], strict=True))
        # Half of what moved, the relative error of the masses (below 2^-60 units of weight), and the tail.
        log2_moved = float(gmpy2.log2(moved / 2 + gmpy2.exp2(-60))) - weight_bits
    index_bits, thresholds, aliases = _vose(weights + weights[1:], weight_bits)
    outcomes = [*range(len(weights)), *range(-1, -len(weights), -1)]
    outcomes += [0] * (len(aliases) - len(outcomes))
    threshold_bits = weight_bits - index_bits
    below_index = 64 - index_bits
    first = [(k << below_index) | (t >> (threshold_bits - below_index)) for k, t in enumerate(thresholds)]
    return AliasTable(
        index_bits=index_bits,
        first_word=np.array(first, dtype=np.uint64),
        threshold=tuple(thresholds),
        threshold_bits=threshold_bits,
        outcome=np.array([outcomes[k] for pair in enumerate(aliases) for k in pair], dtype=np.int64),
        log2_distance=float(np.logaddexp2(log2_moved, log2_tail)),
    )


def symmetric_log2_distance(count: int, log2_tail: float, weight_bits: int) -> float:
    """A bound on the `log2_distance` of any `symmetric_table` of `count` masses.

    Each of the count - 1 pairs of weights moves by at most 1 in rounding, the weight of 0 by as much as all of them
    together: half of that is count - 1. The last unit is for the error of the masses.
    """
    return float(np.logaddexp2(math.log2(count) - weight_bits, log2_tail))


def _vose(weights: list[int], weight_bits: int) -> tuple[int, list[int], list[int]]:
    """Vose's construction (1991) in exact integers: bits of a column number, each column's threshold and alias."""
    index_bits = max(1, (len(weights) - 1).bit_length())
    size = 1 << index_bits
    capacity = 1 << (weight_bits - index_bits)
    left = weights + [0] * (size - len(weights))
    threshold = [capacity - 1] * size
    alias = list(range(size))  # a full column is its own alias: its threshold decides nothing
    small = [column for column, weight in enumerate(left) if weight < capacity]
    large = [column for column, weight in enumerate(left) if weight >= capacity]
    while small:
        under = small.pop()
        over = large[-1]
        threshold[under] = left[under]
        alias[under] = over
        left[over] -= capacity - left[under]
        if left[over] < capacity:
            small.append(large.pop())
    return index_bits, threshold, alias
