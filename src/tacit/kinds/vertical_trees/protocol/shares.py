"""Shares of one value of each row, at the bin of each of its cells, and their sums over nodes.

    Words(cells, keep)                 the words of all leaves of `Made` or `Held` cells, of one value after another
    given(words, value, values, corrections)     the active: the corrections of one feature, and its shares, by parts
    taken(words, value, table, corrections)      the passive: its shares
    added(parts, bins)                           their sum over all rows
    TreeShares(again)                            the shares of one tree after another, and their sums over nodes

W_k is the word of leaf k of a cell under a tweak. The active sends C = v + Σ W_k for its value v. The passive's share
of bin k is W_k, and C minus the others = v + W_b at its own bin b. The active's is -W_k (it keeps W_k). So the sums
over the rows of a node differ by the sum of their values in each bin, modulo 2^64, without an error.

W_k = π(K) ⊕ K, the low 64 bits, for the leaf K and a permutation π of its own for each meeting and tweak: no tweak is
added to each block, so that a leaf is read once and its word written once.

Guarantee: C is pseudo-random to the passive, which lacks one W_k of each cell, if no tweak comes twice for the same
    cells and the same `meeting`, also not after a restart. Tweaks come from a stored counter (`tacit.crypto.counter`);
    the meeting is a number that the active draws each time the parties meet, so that words are fresh even if both
    parties' folders were restored from older copies. Opened sums over a node tell the active the sum of its values in
    each bin, and no more.
Assumes: AES under different public keys is a family of independent ideal permutations; what `punctured` assumes. The
    passive's advantage is of the order of (p·q + p²)/2^128 for q evaluations of AES and p words that it lacks, one for
    each cell and tweak.
Source: `tacit.crypto.punctured`; π(x) ⊕ x for uniform x: Guo, Katz, Wang, Yu 2020, section 7.2, here under a key for
    each tweak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.counter import MOST as MOST_TWEAK
from tacit.crypto.fixed_key import BLOCK_BYTES, Blocks, Permutation, permutation
from tacit.kinds.vertical_trees.protocol.cells import Held, Made, Rows
from tacit.kinds.vertical_trees.protocol.features import BinArray, IntArray

__all__ = ["Parts", "Ring", "Shares", "TreeShares", "Value", "Words", "added", "given", "taken"]

Ring = NDArray[np.uint64]
Shares = NDArray[np.uint64]  # of one feature: (rows, bins)
Parts = Iterator[tuple[slice, Shares]]
KEPT_LEAVES = 1 << 25  # 512 MiB: those of larger tables are grown again for each tweak
KEPT_WORDS = 1 << 28  # 2 GiB: shares of larger tables are made again for each level
_LEAVES_AT_ONCE = 1 << 14  # 256 KiB
_ROWS_AT_ONCE = 1 << 11
_ROWS_JOINED = 16


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Which words hide a value of each row: those of one feature's cells under a tweak; `rows` None for all rows."""

    tweak: int
    meeting: bytes  # in which the tweak was taken
    feature: int
    rows: IntArray | None


class Words:
    """The words of one party's cells. Leaves are kept if there are at most `keep` of them."""

    def __init__(self, cells: Made | Held, keep: int = KEPT_LEAVES) -> None:
        self.cells = cells
        self._kept: dict[int, Blocks] | None = {} if cells.rows * int(cells.bins.sum()) <= keep else None

    def parts(self, value: Value) -> Parts:
        """The words that hide a value, (rows, bins), part by part.

        What is done with a part while it is in the cache is done at little cost.
        """
        feature, rows = value.feature, value.rows
        count = self.cells.rows if rows is None else len(rows)
        if count == self.cells.rows:
            rows = None  # in ascending order these are all: their leaves need not be copied
        hashed = _permutation(self.cells.session, value)
        step = max(1, _LEAVES_AT_ONCE // int(self.cells.bins[feature]))
        for start in range(0, count, step):
            part = slice(start, min(start + step, count))
            leaves = self._leaves(feature, part if rows is None else rows[part])
            yield part, hashed.apply(leaves)[..., 0] ^ leaves[..., 0]

    def _leaves(self, feature: int, rows: Rows) -> Blocks:
        if self._kept is None:
            return self.cells.leaves(feature, rows)
        if feature not in self._kept:
            self._kept[feature] = self._all_leaves(feature)
        kept: Blocks = self._kept[feature][rows]
        return kept

    def _all_leaves(self, feature: int) -> Blocks:
        bins = int(self.cells.bins[feature])
        found = np.empty((self.cells.rows, bins, BLOCK_BYTES // 8), dtype=np.uint64)
        step = max(1, _LEAVES_AT_ONCE // bins)
        for start in range(0, self.cells.rows, step):
            part = slice(start, start + step)
            found[part] = self.cells.leaves(feature, part)
        return found


def given(words: Words, value: Value, values: Ring, corrections: Ring) -> Parts:
    """The active's shares of one feature's cells (to be subtracted), part by part.

    With each part its corrections, one for each of the `values`, are written to `corrections`.
    """
    for part, own in words.parts(value):
        np.add(_row_sums(own), values[part], out=corrections[part])
        yield part, own


def taken(words: Words, value: Value, table: BinArray, corrections: Ring) -> Parts:
    """The passive's shares of one feature's cells, part by part; the `table` is that of its bins."""
    holes = table[:, value.feature] if value.rows is None else table[value.rows, value.feature]
    for part, own in words.parts(value):
        # What stands at the hole is in the sum, and added to the difference: it cancels out.
        own[np.arange(len(own)), holes[part]] += corrections[part] - _row_sums(own)
        yield part, own


def added(parts: Parts, bins: int) -> Ring:
    """The sums of all rows, by bin."""
    found = np.zeros(bins, dtype=np.uint64)
    for _, own in parts:
        found += _bin_sums(own)
    return found


class TreeShares:
    """One party's shares of one tree after another, for all used features.

    Args:
        again: makes the shares of a feature again, as `add` got them.
        keep: words of shares that are kept; the others are made again for each sum.
    """

    def __init__(self, again: Callable[[int], Parts], keep: int = KEPT_WORDS) -> None:
        self._again = again
        self._keep = self._room = keep
        self._rows = 0
        self._shares: dict[int, Shares | None] = {}
        self._free: list[Shares] = []  # memory of the tree before: new pages would take as long as the words

    def begin(self, rows: int) -> None:
        """Forget the tree before; the next one has so many rows."""
        self._free = [each for each in self._shares.values() if each is not None and len(each) == rows]
        self._shares, self._room, self._rows = {}, self._keep, rows

    def add(self, feature: int, bins: int, parts: Parts) -> None:
        """Take the shares of the next feature."""
        self._room -= self._rows * bins
        self._shares[feature] = None
        if self._room >= 0:
            self._shares[feature] = self._joined(parts, bins)
        else:
            for _ in parts:  # corrections are made on the way
                pass

    def sums(self, nodes: Sequence[IntArray], bins: IntArray) -> Ring:
        """Of each node the sums of its rows, for all bins of all features in order: (nodes, bins of all features).

        A node is given by the places of its rows in the shares; `bins` are those of all features, used or not.
        """
        found = [np.empty((len(nodes), 0), dtype=np.uint64)]
        for feature, shares in self._shares.items():
            whole = self._joined(self._again(feature), int(bins[feature])) if shares is None else shares
            found.append(_sums(whole, nodes))
        return np.concatenate(found, axis=1)

    def _joined(self, parts: Parts, bins: int) -> Shares:
        place = next((i for i, each in enumerate(self._free) if each.shape[1] == bins), None)
        whole = np.empty((self._rows, bins), dtype=np.uint64) if place is None else self._free.pop(place)
        for part, own in parts:
            whole[part] = own
        return whole


def _sums(shares: Shares, nodes: Sequence[IntArray]) -> Ring:
    found = np.zeros((len(nodes), shares.shape[1]), dtype=np.uint64)
    for total, places in zip(found, nodes, strict=True):
        if len(places) == len(shares):  # places are in ascending order, so these are all rows
            total += _bin_sums(shares)
            continue
        for start in range(0, len(places), _ROWS_AT_ONCE):
            total += _bin_sums(shares.take(places[start : start + _ROWS_AT_ONCE], axis=0))
    return found


def _row_sums(shares: Shares) -> Ring:
    """The sum of each row: three times as fast as `sum`, which begins anew for each of these short rows."""
    found: Ring = np.einsum("ij->i", shares)
    return found


def _bin_sums(shares: Shares) -> Ring:
    """The sum of each bin: rows are taken some at a time, as numpy is slow at adding short ones."""
    bins = shares.shape[1]
    whole = len(shares) - len(shares) % _ROWS_JOINED
    found: Ring = np.add.reduce(shares[:whole].reshape(-1, _ROWS_JOINED * bins), axis=0)
    found = np.add.reduce(np.concatenate([found.reshape(-1, bins), shares[whole:]]), axis=0)
    return found


def _permutation(session: bytes, value: Value) -> Permutation:
    if not 0 <= value.tweak < MOST_TWEAK:
        raise ValueError(f"a tweak is a number from 0 to below 2^63, got {value.tweak}")
    return permutation(session, f"words of leaves under tweak {value.tweak} of {value.meeting.hex()}")
