"""Shares of a function of a shared score, by a table lookup of one of many that shows neither party anything.

    Grid(entries_bits, step_bits)                       the table: its size, and the step between its scores
    look_up_first(channel, end, share, grid, table)     the sender, which also chooses each score's table
    look_up_second(channel, end, share, grid, width)    the receiver
    interpolated(function, grid)                        entries whose interpolation is right on average

A score is z·2^-SCORE, its shares words modulo 2^48. The sender divides its share by the step of the table and rounds
down, the receiver rounds up. The sum of both, modulo the number of entries, is the score in steps, rounded to one of
its neighbours; which one depends on the shares, which are uniform, so that the mean is the score itself: the mean of
the value is the function interpolated between entries. The sender turns the table by its own index and adds a mask; the
receiver looks up its index. The receiver's share is what it finds, the sender's is minus the mask.

A score outside the table would wrap around. So both first look up, in the same way, in which cell of 16 it lies, of 256
cells from -2048 to 2048, and get shares of how many cells it must be moved to lie in the table: none, if the score is
within `Grid.reach`; otherwise it ends in the outermost cells of its side, between `Grid.saturated` and the end. A share
of the cells moved is added to each index. The function must be flat there.

Guarantee: the sender learns nothing. The receiver learns an entry plus a uniform mask, modulo 2^(8·width), and cells
    plus a uniform mask.
Assumes: what `tacit.crypto.ot` assumes; shares that are uniform (for the mean, not for privacy); scores up to
    `LARGEST`.
Source: one of many by Naor, Pinkas 1999; the rounding is stochastic rounding by the shares' own randomness.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto import ot
from tacit.crypto.ot.words import Words
from tacit.fixedpoint import Floats
from tacit.randomness import random_words

__all__ = ["LARGEST", "SCORE", "Grid", "Table", "added", "index", "interpolated", "look_up_first", "look_up_second"]

SCORE = 35  # fraction bits of scores: 11 of a feature and 24 of a weight
CELL_BITS, CELLS_BITS = 4, 8  # a cell is 2^4 wide, and there are 2^8 of them
LARGEST = math.ldexp((1 << (CELLS_BITS - 1)) - 1, CELL_BITS)  # 2032: a larger score is taken for another one
_AT_ONCE = 1 << 12  # scores of one message
Indices = NDArray[np.int64]
Table = Callable[[slice, Indices], Words]  # the entries of some scores at these places, as words


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of 2^entries_bits entries, one for every 2^-step_bits of the score.

    The first half of the entries are those of scores from 0 on, the second half those of negative ones.
    """

    entries_bits: int = 8
    step_bits: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.step_bits < SCORE or self.entries_bits > 16 or not 4 <= self.cells <= 128:
            raise ValueError("a table has at most 2^16 entries, and reaches from 32 to 1024")

    @property
    def cells(self) -> int:
        """Of 16, from one end of the table to the other."""
        return 1 << max(0, self.entries_bits - self.step_bits - CELL_BITS)

    @property
    def reach(self) -> float:
        """Scores up to here have their own entry."""
        return math.ldexp(self.cells / 2 - 2, CELL_BITS)

    @property
    def saturated(self) -> float:
        """Scores beyond `reach` get the entry of some score from here on."""
        return math.ldexp(self.cells / 2 - 3, CELL_BITS)

    @property
    def scores(self) -> Floats:
        """Of all entries."""
        steps = np.arange(1 << self.entries_bits)
        return np.asarray(np.where(steps < len(steps) // 2, steps, steps - len(steps)) * 2.0**-self.step_bits)

    @property
    def moves(self) -> Words:
        """How many cells a score in each of the 256 cells is moved, modulo `cells`."""
        cells = np.arange(1 << CELLS_BITS)
        cells = np.where(cells < len(cells) // 2, cells, cells - len(cells))
        last = self.cells // 2 - 2
        moved = np.clip(cells, -last, last) - cells
        return (moved % self.cells).astype(np.uint64)


def interpolated(function: Callable[[Floats], Floats], grid: Grid) -> Floats:
    """Entries of a smooth function such that its interpolation has the right mean between any two of them.

    A straight line through points of a curve is off by step²/12 · f'' on average: the entries are lower by that much.
    """
    step = math.ldexp(1.0, -grid.step_bits)
    scores = grid.scores
    middle = function(scores)
    return np.asarray(middle - (function(scores - step) - 2 * middle + function(scores + step)) / 12)


def index(share: Words, places: int, bits: int, *, second: bool) -> Indices:
    """The share divided by 2^places, rounded down, or up at the second party: modulo 2^bits."""
    low = (np.uint64(0) - share) >> np.uint64(places) if second else share >> np.uint64(places)
    steps = np.uint64(0) - low if second else low
    return (steps & np.uint64((1 << bits) - 1)).astype(np.int64)


def look_up_first(
    channel: Channel,
    end: ot.Sender,
    share: Words,
    grid: Grid,
    table: Table,
    width: int,
    rng: Generator,
    *,
    split: int = 0,
) -> Words:
    """The sender's shares of each score's entry, modulo 2^(8·width); `share` is one list of words.

    Args:
        split: an entry holds two numbers, one in so many low bits: each is shared by itself.
    """
    found = np.empty(len(share), dtype=np.uint64)
    for part in _parts(len(share)):
        moved = _cells_first(channel, end, share[part], grid, rng)
        own = index(share[part], SCORE - grid.step_bits, grid.entries_bits, second=False) + _steps(moved, grid)
        entries = (own[:, None] + np.arange(1 << grid.entries_bits)) & ((1 << grid.entries_bits) - 1)
        masks = random_words(rng, len(own))
        oblivious.send_tables(channel, end, added(table(part, entries), masks[:, None], split), width)
        found[part] = added(~masks, np.uint64(1) + np.uint64(1 << split if split else 0), split)
    return found


def look_up_second(channel: Channel, end: ot.Receiver, share: Words, grid: Grid, width: int) -> Words:
    """The receiver's shares."""
    found = np.empty(len(share), dtype=np.uint64)
    for part in _parts(len(share)):
        cell = index(share[part], SCORE + CELL_BITS, CELLS_BITS, second=True)
        moved = oblivious.receive_entries(channel, end, cell, CELLS_BITS, 1).astype(np.int64)
        own = index(share[part], SCORE - grid.step_bits, grid.entries_bits, second=True) + _steps(moved, grid)
        places = own & ((1 << grid.entries_bits) - 1)
        found[part] = oblivious.receive_entries(channel, end, places, grid.entries_bits, width)
    return found


def added(one: Words, other: Any, split: int) -> Words:
    """The sum; with a split, of the low bits and of those above apart, without a carry between them."""
    total = one + other
    if not split:
        return np.asarray(total)
    low = np.uint64((1 << split) - 1)
    return np.asarray(((one & ~low) + (other & ~low)) | (total & low))


def _cells_first(channel: Channel, end: ot.Sender, share: Words, grid: Grid, rng: Generator) -> Indices:
    """The sender's shares of the number of cells that each score is moved."""
    cell = index(share, SCORE + CELL_BITS, CELLS_BITS, second=False)
    masks = random_words(rng, len(share)) & np.uint64(grid.cells - 1)
    turned = grid.moves[(cell[:, None] + np.arange(1 << CELLS_BITS)) & ((1 << CELLS_BITS) - 1)]
    oblivious.send_tables(channel, end, (turned + masks[:, None]) & np.uint64(grid.cells - 1), 1)
    return -masks.astype(np.int64)


def _steps(cells: Indices, grid: Grid) -> Indices:
    return cells << (CELL_BITS + grid.step_bits)


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE)]
