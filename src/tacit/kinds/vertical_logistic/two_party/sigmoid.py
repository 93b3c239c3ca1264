"""Shares of the sigmoid of a shared score, by a lookup that shows neither party anything.

    Grid(...)                                                the table: its size, and the units of scores and values
    index_down(share, grid), index_up(share, grid)           a party's share as an index: rounded down or up
    tables(share, masks, grid)                               the sender's tables, for `oblivious.send_tables`
    mask_words(rng, rows, grid, width)                            the sender's masks

A score is z·2^-score_bits, its shares words modulo 2^64. One party divides its share by the step of the table and
rounds down, the other one rounds up. The sum of both, modulo the number of entries, is the score in steps, rounded to
one of its neighbours; which one depends on the shares, which are uniform, so that its mean is the score itself: the
mean of the value is the sigmoid interpolated between entries. The sender turns the table by its own index and adds a
mask; the receiver looks up its index. The receiver's share is what it finds, the sender's is minus the mask.

The table covers scores from -span to below span, `Grid.span`. A score outside wraps around: bound it beforehand.

Guarantee: the sender learns nothing. The receiver learns an entry plus a uniform mask: with `width` 8 a uniform word;
    with a smaller width an integer within 2^(value_bits + 2 - 8·width) of a uniform one (`mask_distance`).
Assumes: what `tacit.crypto.ot` assumes; shares that are uniform (for the mean, not for privacy).
Source: one of many by Naor, Pinkas 1999; the rounding is stochastic rounding by the shares' own randomness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.crypto.ot.words import Words
from tacit.fixedpoint import Floats
from tacit.randomness import random_words

__all__ = ["Grid", "index_down", "index_up", "mask_distance", "mask_words", "shares_of", "sigmoid_table", "tables"]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of the sigmoid.

    Args:
        entries_bits: the table has 2^entries_bits entries.
        step_bits: an entry for every 2^-step_bits of the score.
        score_bits: scores are multiples of 2^-score_bits.
        value_bits: values are multiples of 2^-value_bits.
    """

    entries_bits: int = 8
    step_bits: int = 1
    score_bits: int = 20
    value_bits: int = 13

    def __post_init__(self) -> None:
        if not 1 <= self.entries_bits <= 16 or not self.step_bits < self.score_bits <= 48:
            raise ValueError(
                "a table has 2 to 2^16 entries, and steps above the grid of scores, which is at most 2^-48"
            )
        if not 1 <= self.value_bits <= 32:
            raise ValueError(f"values have 1 to 32 bits, got {self.value_bits}")

    @property
    def span(self) -> float:
        """Scores lie from -span to below span."""
        return math.ldexp(1.0, self.entries_bits - 1 - self.step_bits)


def sigmoid_table(grid: Grid) -> NDArray[np.uint64]:
    """The entries: first those of scores from 0 on, then those of negative ones, from -span on."""
    steps = np.arange(1 << grid.entries_bits)
    steps = np.where(steps < len(steps) // 2, steps, steps - len(steps))
    values: Floats = 1.0 / (1.0 + np.exp(-steps * math.ldexp(1.0, -grid.step_bits)))
    return np.rint(values * math.ldexp(1.0, grid.value_bits)).astype(np.uint64)


def index_down(share: Words, grid: Grid) -> NDArray[np.int64]:
    """The share in steps, rounded down."""
    return _modulo(share >> np.uint64(grid.score_bits - grid.step_bits), grid)


def index_up(share: Words, grid: Grid) -> NDArray[np.int64]:
    """The share in steps, rounded up."""
    return _modulo(np.uint64(0) - ((np.uint64(0) - share) >> np.uint64(grid.score_bits - grid.step_bits)), grid)


def tables(share: Words, masks: Words, grid: Grid) -> Words:
    """The sender's tables, one for each score: turned by its index, under its mask."""
    turned = index_down(share, grid)[:, None] + np.arange(1 << grid.entries_bits)
    entries: Words = sigmoid_table(grid)[turned & ((1 << grid.entries_bits) - 1)]
    return entries + masks[:, None]


def mask_words(rng: Generator, rows: int, grid: Grid, width: int = 8) -> Words:
    """Masks for entries of `width` bytes: uniform words, or integers to which a value is added without a carry out."""
    _check_width(grid, width)
    words = random_words(rng, rows)
    if width == 8:
        return words
    # 2^64 leaves a remainder of 2^(64 - 8·width) · (2^value_bits + 1) modulo `top`: so much, of 2^64, is not uniform.
    top = np.uint64((1 << 8 * width) - (1 << grid.value_bits) - 1)
    return words % top


def shares_of(masks: Words) -> Words:
    """The sender's shares of the values; the receiver's are the entries that it found."""
    return np.uint64(0) - masks


def mask_distance(grid: Grid, width: int = 8) -> float:
    """How far the word that the receiver finds may be from one that does not depend on the value (total variation)."""
    _check_width(grid, width)
    return 0.0 if width == 8 else math.ldexp(1.0, grid.value_bits + 2 - 8 * width)


def _check_width(grid: Grid, width: int) -> None:
    if not grid.value_bits + 8 < 8 * width <= 64:
        raise ValueError(f"entries of {grid.value_bits} bits and a mask take more than {width} bytes, and at most 8")


def _modulo(steps: Words, grid: Grid) -> NDArray[np.int64]:
    return (steps & np.uint64((1 << grid.entries_bits) - 1)).astype(np.int64)
