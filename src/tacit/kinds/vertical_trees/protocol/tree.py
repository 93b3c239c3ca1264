"""What is kept of trained trees: which party splits each node by which bins, and the values of the leaves.

A split of another party is opaque: a feature number and bin numbers. The edges of its bins stay with it, so the rows of
a prediction are routed together: see `prediction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BinArray, BoolArray, IntArray

__all__ = ["LEAF", "Ensemble", "Tree"]

Floats = NDArray[np.float64]

LEAF = -1  # instead of a party


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree as arrays with one entry per node; node 0 is the root, children come after their parent."""

    party: IntArray  # whose feature splits the node, LEAF for leaves
    feature: IntArray
    left: BoolArray  # [nodes, bins]: which bins go left
    children: IntArray  # [nodes, 2]: left and right
    value: Floats  # of leaves, 0 elsewhere
    gain: Floats  # of splits, 0 elsewhere

    def __post_init__(self) -> None:
        nodes = len(self.party)
        flat = all(array.shape == (nodes,) for array in (self.party, self.feature, self.value, self.gain))
        if not (nodes and flat and self.children.shape == (nodes, 2) and self.left.ndim == 2):
            raise ValueError("the arrays of a tree do not have one entry per node")
        if len(self.left) != nodes or self.left.shape[1] > MOST_BINS:
            raise ValueError(f"a tree has flags for at most {MOST_BINS} bins of each node")
        inner = np.flatnonzero(self.party != LEAF)
        below = self.children[inner]
        if not ((below > inner[:, None]).all() and (below < nodes).all() and len(np.unique(below)) == below.size):
            raise ValueError("a node of a tree has children that do not come after it, or are another's too")

    @property
    def depth(self) -> int:
        """Splits on the longest way from the root to a leaf."""
        depths = np.zeros(len(self.party), dtype=np.int64)
        for node in np.flatnonzero(self.party != LEAF):
            depths[self.children[node]] = depths[node] + 1
        return int(depths.max())

    def leaves(self, binned: Sequence[BinArray]) -> IntArray:
        """The leaf of every row, from the bins of all parties in one place."""
        at = np.zeros(len(binned[0]), dtype=np.int64)
        for node in np.flatnonzero(self.party != LEAF):  # parents come first
            rows = np.flatnonzero(at == node)
            goes_left = self.left[node][binned[self.party[node]][rows, self.feature[node]]]
            at[rows] = self.children[node][np.where(goes_left, 0, 1)]
        return at


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """All trees: tree i adds its leaf's value to the score of output i modulo the number of outputs."""

    base: Floats  # [outputs]
    trees: tuple[Tree, ...] = ()

    @property
    def outputs(self) -> int:
        return len(self.base)

    def scores(self, binned: Sequence[BinArray]) -> Floats:
        """The raw scores [rows, outputs] of rows whose bins are in one place."""
        found = np.tile(self.base, (len(binned[0]), 1))
        for place, tree in enumerate(self.trees):
            found[:, place % self.outputs] += tree.value[tree.leaves(binned)]
        return found

    def first(self, rounds: int) -> Ensemble:
        """The trees of the first rounds only."""
        return Ensemble(self.base, self.trees[: rounds * self.outputs])

    def importance(self, party: int, features: int) -> Floats:
        """The gain of all splits by each feature of one party."""
        found = np.zeros(features)
        for tree in self.trees:
            own = tree.party == party
            np.add.at(found, tree.feature[own], tree.gain[own])
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a file; `of_arrays` reads them."""
        most = max((tree.left.shape[1] for tree in self.trees), default=0)
        joined: dict[str, NDArray[Any]] = {
            "base": self.base,
            "nodes": np.array([len(tree.party) for tree in self.trees], dtype=np.int64),
            "left": np.zeros((0, most), dtype=bool),
            "children": np.zeros((0, 2), dtype=np.int64),
            "party": np.zeros(0, dtype=np.int64),
            "feature": np.zeros(0, dtype=np.int64),
            "value": np.zeros(0),
            "gain": np.zeros(0),
        }
        if self.trees:
            for name in ("children", "party", "feature", "value", "gain"):
                joined[name] = np.concatenate([getattr(tree, name) for tree in self.trees])
            pads = [((0, 0), (0, most - tree.left.shape[1])) for tree in self.trees]
            joined["left"] = np.concatenate([np.pad(t.left, pad) for t, pad in zip(self.trees, pads, strict=True)])
        return joined

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Ensemble:
        """The ensemble of these arrays; ValueError if they are not those of one."""
        nodes = arrays["nodes"]
        if (nodes < 1).any() or any(len(arrays[name]) != nodes.sum() for name in _OF_NODES):
            raise ValueError("the arrays of the trees do not have one entry per node")
        parts = {name: np.split(arrays[name], np.cumsum(nodes)[:-1]) for name in _OF_NODES}
        trees = (Tree(**{name: parts[name][place] for name in _OF_NODES}) for place in range(len(nodes)))
        return cls(arrays["base"], tuple(trees))


_OF_NODES = ("party", "feature", "left", "children", "value", "gain")
