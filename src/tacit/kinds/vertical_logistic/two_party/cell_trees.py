"""A table as punctured trees, made once in a meeting, and its products with the other party's words.

    hold(channel, end, features)            the owner: its digits are the holes
    make(channel, end, rows, columns)       the other party
    held.scores(rows, width, outputs)       the owner's shares of X·v; `made.scores(rows, factors, width)` the other's
    held.gradient(rows, width, outputs)     the owner's shares of Xᵀ·r; `made.gradient(rows, factors, width)`

The other party sends one word a digit and output, the owner nothing. Rows are taken in blocks of bounded memory, one
message each. A tweak is taken for each matrix of factors from a counter that lives as long as the trees, in memory: a
new meeting makes new trees in a new session, so no tweak can come twice, and nothing has to be stored.

Trees take 160 bytes a cell at the maker and 360 at the holder; the leaves of small tables are kept, 1.3 kB a cell,
those of larger ones are made again for each block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto import ot
from tacit.crypto.counter import Counter
from tacit.crypto.fixed_key import Blocks
from tacit.crypto.ot.words import Words
from tacit.crypto.punctured import Holes, PuncturedTrees, Trees
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.two_party import products
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.kinds.vertical_logistic.two_party.products import Layout
from tacit.kinds.vertical_logistic.two_party.scales import DIGIT_BITS, DIGITS

__all__ = ["Held", "Made", "hold", "make", "memory"]

_BLOCK_TREES = 1 << 16  # whose leaves, 16 MB, are in memory at once
_KEPT_TREES = 1 << 19  # whose leaves, 128 MB, are kept
_FRAME = 64
MADE_BYTES, HELD_BYTES = 160, 360  # of memory for the trees of a cell
_LEAVES_BYTES = 16 << DIGIT_BITS  # of a tree


def _counter() -> Counter:
    return Counter(0, lambda _: None)  # nothing to store: the session of these trees ends with this process


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """What both have: the size of the table, and the leaves if they are kept."""

    channel: Channel
    columns: int
    kept: Blocks | None
    counter: Counter = field(default_factory=_counter)

    def _layout(self, rows: int, width: int) -> Layout:
        return Layout(rows, self.columns, DIGITS, DIGIT_BITS, 64, width)

    def _blocks(self, rows: Rows) -> Iterator[slice]:
        size = max(1, _BLOCK_TREES // (self.columns * DIGITS))
        return (slice(start, min(start + size, len(rows))) for start in range(0, len(rows), size))

    def _of(self, values: Any, rows: Rows) -> Any:
        """Of blocks or numbers of all trees (..., trees, ...) those of some rows: long pieces are copied at once."""
        each, first = self.columns * DIGITS, values.ndim > 1
        by_row = values.reshape(values.shape[0], -1, 2 * each) if first else values.reshape(-1, each)
        found = by_row[:, rows] if first else by_row[rows]
        return found.reshape(len(values), -1, 2) if first else found.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Made(_Cells):
    """The other party's table, at the maker of its trees."""

    trees: Trees = field(kw_only=True)

    def scores(self, rows: Rows, factors: Words, width: int) -> Words:
        """This party's shares of X·v for its words v, of shape (columns, outputs): (rows, outputs)."""
        found = np.zeros((len(rows), factors.shape[1]), dtype=np.uint64)
        for part, output, shares in self._given(rows, factors, width, by_row=False):
            found[part, output] = shares.sum(axis=1, dtype=np.uint64)
        return found

    def gradient(self, rows: Rows, factors: Words, width: int) -> Words:
        """This party's shares of Xᵀ·r for its words r, of shape (rows, outputs): (columns, outputs)."""
        found = np.zeros((self.columns, factors.shape[1]), dtype=np.uint64)
        for _, output, shares in self._given(rows, factors, width, by_row=True):
            found[:, output] += shares.sum(axis=0, dtype=np.uint64)
        return found

    def _given(self, rows: Rows, factors: Words, width: int, *, by_row: bool) -> Iterator[tuple[slice, int, Words]]:
        if not self.columns:
            return
        tweaks = self.counter.take(factors.shape[1])
        for part in self._blocks(rows):
            leaves, size = self._leaves(rows[part]), part.stop - part.start
            layout = self._layout(size, width)
            for output, tweak in enumerate(tweaks):
                own = factors[part, output][:, None] if by_row else factors[:, output][None]
                spread = np.broadcast_to(own, (size, self.columns))
                message, shares = products.give(self.trees.session, leaves, tweak, spread, layout)
                self.channel.send(Product(message))
                yield part, output, shares

    def _leaves(self, rows: Rows) -> Blocks:
        if self.kept is not None:
            kept: Blocks = self._of(self.kept, rows)
            return kept
        return Trees(self.trees.session, self.trees.depth, self._of(self.trees.seeds, rows)).leaves()


@dataclass(frozen=True, slots=True, eq=False)
class Held(_Cells):
    """This party's own table: it holds the trees, and lacks a leaf of each."""

    trees: PuncturedTrees = field(kw_only=True)

    def scores(self, rows: Rows, width: int, outputs: int) -> Words:
        """The owner's shares of X·v for the other party's words v."""
        found = np.zeros((len(rows), outputs), dtype=np.uint64)
        for part, output, shares in self._taken(rows, width, outputs):
            found[part, output] = shares.sum(axis=1, dtype=np.uint64)
        return found

    def gradient(self, rows: Rows, width: int, outputs: int) -> Words:
        """The owner's shares of Xᵀ·r for the other party's words r."""
        found = np.zeros((self.columns, outputs), dtype=np.uint64)
        for _, output, shares in self._taken(rows, width, outputs):
            found[:, output] += shares.sum(axis=0, dtype=np.uint64)
        return found

    def _taken(self, rows: Rows, width: int, outputs: int) -> Iterator[tuple[slice, int, Words]]:
        if not self.columns:
            return
        tweaks = self.counter.take(outputs)
        for part in self._blocks(rows):
            holes = self._of(self.trees.holes, rows[part])
            leaves = self._leaves(rows[part], holes)
            layout = self._layout(part.stop - part.start, width)
            for output, tweak in enumerate(tweaks):
                message = self.channel.recv(Product, layout.message_bytes + _FRAME).words
                yield part, output, products.take(self.trees.session, leaves, holes, tweak, message, layout)

    def _leaves(self, rows: Rows, holes: Holes) -> Blocks:
        if self.kept is not None:
            kept: Blocks = self._of(self.kept, rows)
            return kept
        return PuncturedTrees(self.trees.session, holes, self._of(self.trees.siblings, rows)).leaves()


def memory(own: int, others: int) -> int:
    """The bytes that a party holds for the trees of so many cells of its own and of the other's."""
    leaves = sum(cells * DIGITS * _LEAVES_BYTES for cells in (own, others) if cells * DIGITS <= _KEPT_TREES)
    return own * HELD_BYTES + others * MADE_BYTES + leaves


class _Keeper:
    """Leaves of all trees, if the table is small."""

    def __init__(self, trees: int) -> None:
        self.leaves: Blocks | None = None
        if trees <= _KEPT_TREES:
            self.leaves = np.empty((1 << DIGIT_BITS, trees, 2), dtype=np.uint64)

    def keep(self, part: slice, leaves: Blocks) -> None:
        if self.leaves is not None:
            self.leaves[:, part] = leaves


def make(channel: Channel, end: ot.Sender, rows: int, columns: int) -> Made:
    """Make the trees of the other party's table."""
    count = rows * columns * DIGITS
    keeper = _Keeper(count)
    try:
        trees = oblivious.make_trees(channel, end, count, DIGIT_BITS, keeper.keep)
    except MemoryError:  # a number of columns that the other party made up must not end this one in a traceback
        raise PeerError(f"the other party has {columns} columns: {_too_large(rows * columns, MADE_BYTES)}") from None
    return Made(channel, columns, keeper.leaves, trees=trees)


def hold(channel: Channel, end: ot.Receiver, features: NDArray[np.int64]) -> Held:
    """Hold the trees of this party's table; the other party calls `make`."""
    rows, columns = features.shape
    holes: Holes = np.empty(0, dtype=np.int64)
    if columns:
        holes = products.digits_of(features, Layout(rows, columns, DIGITS, DIGIT_BITS))
    keeper = _Keeper(len(holes))
    try:
        trees = oblivious.hold_trees(channel, end, holes, DIGIT_BITS, keeper.keep)
    except MemoryError:
        raise ValueError(f"this party has {columns} columns: {_too_large(rows * columns, HELD_BYTES)}") from None
    return Held(channel, columns, keeper.leaves, trees=trees)


def _too_large(cells: int, each: int) -> str:
    return (
        f"trees of {cells} cells take {cells * each / 1e9:,.1f} GB, more than this machine has: take fewer rows or "
        "columns, or a dealer"
    )
