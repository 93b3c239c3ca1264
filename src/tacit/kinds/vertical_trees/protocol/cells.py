"""The passive's table as punctured trees, one for each cell (row, feature), made once and used for every tree.

    make(channel, end, rows, bins)             the active: its `Made`
    hold(channel, end, table, bins)            the passive: its `Held`; the hole of a cell is its bin
    made.leaves(feature, rows), held.leaves    the leaves again, as many as the feature has bins: (rows, bins, 2)

Features whose trees have the same depth are made in one go, block by block, so that nothing but seeds stays in memory:
32 bytes a cell at the active, 16 bytes for each level at the passive. Leaves are grown from them feature by feature. A
cell costs 16·L + 32·(L - 1) bytes once, L = log2 of its bins, rounded up.

Guarantee and assumptions: those of `tacit.crypto.punctured`; the active learns nothing about the bins. Both functions
return only when all cells are complete: what an interrupted set-up made is lost, and the next one begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto import ot
from tacit.crypto.fixed_key import Blocks, permutation
from tacit.crypto.punctured import answer_bytes, block, request_bytes
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BinArray, IntArray

__all__ = ["SEED_BYTES", "Held", "Made", "Rows", "hold", "make", "setup_bytes"]

SEED_BYTES = 32  # of a cell, at the active
Rows = slice | IntArray
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The active's trees of all cells: of each feature the two nodes of the first level, (2, rows, 2)."""

    session: bytes
    rows: int
    bins: IntArray
    seeds: tuple[Blocks, ...] = field(repr=False)

    def leaves(self, feature: int, rows: Rows) -> Blocks:
        """The leaves of one feature's cells: (rows, bins, 2)."""
        bins, growth = int(self.bins[feature]), _Growth(self.session)
        nodes: Blocks = np.ascontiguousarray(self.seeds[feature][:, rows].swapaxes(0, 1))
        for _ in range(1, _depth(bins)):
            nodes = growth.children(nodes, bins)
        return nodes

    def arrays(self) -> Arrays:
        """Everything as arrays, for a file that only this party may read; `of_arrays` reads them."""
        about: Arrays = {"session": _bytes(self.session), "rows": np.array([self.rows]), "bins": self.bins}
        return about | {f"seeds-{feature}": each for feature, each in enumerate(self.seeds)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Made:
        """The trees of these arrays; ValueError if they are not those of a table."""
        bins, rows = arrays["bins"], int(arrays["rows"][0])
        seeds = _listed(arrays, "seeds", [(2, rows, 2)] * len(bins))
        return cls(arrays["session"].tobytes(), rows, bins, seeds)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The passive's trees of all cells: of each feature the sibling of the path at each level, (depth, rows, 2)."""

    session: bytes
    table: BinArray = field(repr=False)
    bins: IntArray
    siblings: tuple[Blocks, ...] = field(repr=False)

    @property
    def rows(self) -> int:
        return len(self.table)

    def leaves(self, feature: int, rows: Rows) -> Blocks:
        """The leaves of one feature's cells: (rows, bins, 2); what stands at the hole of a cell has no meaning."""
        bins, growth = int(self.bins[feature]), _Growth(self.session)
        holes = self.table[rows, feature].astype(np.int64)
        nodes, numbers = np.zeros((len(holes), 2, 2), dtype=np.uint64), np.arange(len(holes))
        for level, siblings in enumerate(self.siblings[feature][:, rows]):
            nodes = growth.children(nodes, bins) if level else nodes
            half = 1 << level
            beside = holes & (half - 1) | (holes & half ^ half)
            if 2 * half <= bins:
                nodes[numbers, beside] = siblings
            else:
                present = np.flatnonzero(beside < bins)
                nodes[present, beside[present]] = siblings[present]
        return nodes

    def arrays(self) -> Arrays:
        """Everything as arrays, for a file that only this party may read; `of_arrays` reads them."""
        about: Arrays = {"session": _bytes(self.session), "table": self.table, "bins": self.bins}
        return about | {f"siblings-{feature}": each for feature, each in enumerate(self.siblings)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Held:
        """The trees of these arrays; ValueError if they are not those of a table."""
        bins, table = arrays["bins"], arrays["table"]
        siblings = _listed(arrays, "siblings", [(_depth(each), len(table), 2) for each in bins.tolist()])
        return cls(arrays["session"].tobytes(), table, bins, siblings)


def make(channel: Channel, end: ot.Sender, rows: int, bins: IntArray) -> Made:
    """Make the trees of the passive's cells; it calls `hold`."""
    _check_bins(bins)
    seeds: dict[int, Blocks] = {}
    for depth, features in _by_depth(bins):
        try:
            trees = oblivious.make_trees(channel, end, rows * len(features), depth)
        except MemoryError:  # a number of features that the other party made up must not look like this one's fault
            raise PeerError(
                f"the other party has {len(bins)} features: trees of {rows * len(bins)} cells take "
                f"{SEED_BYTES * rows * len(bins) / 1e9:,.1f} GB, more than this machine has: take fewer rows or columns"
            ) from None
        seeds |= dict(zip(features, np.split(trees.seeds, len(features), axis=1), strict=True))
    return Made(end.session, rows, bins, tuple(seeds[feature] for feature in range(len(bins))))


def hold(channel: Channel, end: ot.Receiver, table: BinArray, bins: IntArray) -> Held:
    """Hold the trees of this party's cells; `table` is [rows, features], every cell below its feature's bins."""
    _check_bins(bins)
    if table.ndim != 2 or table.shape[1] != len(bins) or not (table < bins).all():
        raise ValueError(f"a table of shape {table.shape} has cells beyond its {len(bins)} features' bins")
    siblings: dict[int, Blocks] = {}
    for depth, features in _by_depth(bins):
        holes = table.T[features].reshape(-1).astype(np.int64)
        trees = oblivious.hold_trees(channel, end, holes, depth)
        siblings |= dict(zip(features, np.split(trees.siblings, len(features), axis=1), strict=True))
    return Held(end.session, table, bins, tuple(siblings[feature] for feature in range(len(bins))))


def setup_bytes(rows: int, bins: IntArray) -> int:
    """The bytes that a set-up sends, of both parties, without frames and base transfers."""
    sent = 0
    for depth, features in _by_depth(bins):
        count = rows * len(features)
        size = block(depth)
        parts = [size] * (count // size) + [count % size] * (count % size > 0)
        sent += sum(request_bytes(part, depth) + answer_bytes(part, depth) for part in parts)
    return sent


def _depth(bins: int) -> int:
    return max(1, (bins - 1).bit_length())


def _by_depth(bins: IntArray) -> list[tuple[int, list[int]]]:
    depths = [_depth(each) for each in bins.tolist()]
    return [(depth, [j for j, each in enumerate(depths) if each == depth]) for depth in sorted(set(depths))]


def _check_bins(bins: IntArray) -> None:
    if len(bins) and not 2 <= int(bins.min()) <= int(bins.max()) <= MOST_BINS:
        raise ValueError(f"a feature has 2 to {MOST_BINS} bins, got {bins.min()} to {bins.max()}")


def _bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def _listed(arrays: Mapping[str, NDArray[Any]], name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[Blocks, ...]:
    found = tuple(arrays[f"{name}-{feature}"] for feature in range(len(shapes)))
    if [(each.shape, each.dtype) for each in found] != [(shape, np.dtype(np.uint64)) for shape in shapes]:
        raise ValueError(f"the arrays {name} are not those of the cells of {len(shapes)} features")
    return found


class _Growth:
    """Children of nodes, in arrays of shape (trees, nodes, 2), with the permutations of `tacit.crypto.punctured`.

    All left children come first, then the right ones, so node p has the children p and p + nodes: of a tree that is
    cut to its first leaves only the last level lacks some.
    """

    def __init__(self, session: bytes) -> None:
        self._left = permutation(session, "left children")
        self._right = permutation(session, "right children")

    def children(self, nodes: Blocks, most: int) -> Blocks:
        """The children of all nodes, at most `most` of each tree."""
        trees, count = nodes.shape[:2]
        right = min(count, most - count)
        found = np.empty((trees, count + right, 2), dtype=np.uint64)
        np.bitwise_xor(self._left.apply(nodes), nodes, out=found[:, :count])
        parents = nodes[:, :right]
        np.bitwise_xor(self._right.apply(parents), parents, out=found[:, count:])
        return found
