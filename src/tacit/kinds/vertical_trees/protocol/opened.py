"""Which nodes of a tree were opened, as the passive sees them: a node is part of a known one, and none is too small.

    known.open(nodes)       nodes whose sums are asked for
    known.divide(nodes)     nodes that splits divide

The active takes the sums of a node's other child by subtraction. So a node of which a part is opened counts as two from
then on, and both must have `least` rows; an opened node that is no whole known node and no part of one would give the
sums of smaller sets of rows, and is refused.

A split divides one whole node of those known, once. With it come rows that are in no sum (held out, or not drawn for
the tree), which only move down: from a node to the parts that are opened of it later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.features import BoolArray, IntArray

__all__ = ["KnownNodes", "Tally"]


@dataclass(slots=True)
class Tally:
    """What a passive has told the active so far.

    Args:
        values: words of each row that were received: one for each tree, or for each node if nodes are hidden.
        nodes: of which sums were sent.
        sums: numbers among them, one for each bin of each used feature.
        splits: that were answered.
        sides: bits among the answers, one for each row of a split.
        won: how often each split was answered in training, by `split_key`.
    """

    values: int = 0
    nodes: int = 0
    sums: int = 0
    splits: int = 0
    sides: int = 0
    won: Counter[bytes] = field(default_factory=Counter)

    def answered(self, splits: int, rows: int) -> None:
        """Count answers to splits."""
        self.splits += splits
        self.sides += rows


class KnownNodes:
    """The nodes of one tree of `rows` out of `total`: first all of them, then parts."""

    def __init__(self, rows: IntArray, total: int, least: int) -> None:
        if len(rows) < least:
            raise PeerError(f"a tree of {len(rows)} rows: this party opens no node below {least}")
        self._least = least
        self._node = np.full(total, -1, dtype=np.int64)
        self._node[rows] = 0
        self._sizes = [len(rows)]
        self._parents = [-1]
        self._divided: set[int] = set()
        self._routed = np.full(total, -1, dtype=np.int64)  # the node with which a row in no sum was divided last,
        self._since = np.zeros(total, dtype=np.int64)  # and how many nodes there were then

    def open(self, nodes: Sequence[IntArray]) -> None:
        """Check nodes that are asked for, and divide the known ones. PeerError if this would open too few rows."""
        for rows in nodes:
            self._open(rows)

    def _open(self, rows: IntArray) -> None:
        if not len(rows):
            raise PeerError("a node without rows was asked for")
        parent = int(self._node[rows[0]])
        if parent < 0 or (self._node[rows] != parent).any():
            raise PeerError(f"a node of {len(rows)} rows was asked for that is not part of one node of the tree so far")
        rest = self._sizes[parent] - len(rows)
        if not rest:
            return  # the whole node: its sums are known already, or follow by subtraction
        if min(rest, len(rows)) < self._least:
            raise PeerError(
                f"a node of {len(rows)} rows was asked for, which leaves {rest} of its parent's: this party opens no "
                f"node below {self._least}; set `least` alike at all parties"
            )
        self._sizes[parent] = rest
        self._divided.discard(parent)
        self._node[rows] = len(self._sizes)
        self._sizes.append(len(rows))
        self._parents.append(parent)

    def divide(self, nodes: Sequence[IntArray]) -> None:
        """Check nodes that splits divide. PeerError if one is not a whole node of the tree, or was divided before."""
        for rows in nodes:
            self._divide(rows)

    def _divide(self, rows: IntArray) -> None:
        found = self._node[rows]
        summed = found[found >= 0]
        node = int(summed[0]) if len(summed) else -1
        if node < 0 or (summed != node).any() or len(summed) != self._sizes[node] or node in self._divided:
            raise PeerError(
                f"a split of {len(rows)} rows was asked for, of which {len(summed)} are in the tree's sums: a split "
                "divides one whole node whose sums are known, and each of them once"
            )
        self._divided.add(node)
        others = rows[found < 0]
        if not self._follow(others, node).all():
            raise PeerError(f"a split of {len(rows)} rows was asked for, of which some are in another node already")
        self._routed[others], self._since[others] = node, len(self._sizes)

    def _follow(self, rows: IntArray, node: int) -> BoolArray:
        """Of each row in no sum whether it can be in a node: that it was divided with, or a part opened since then."""
        at, since = self._routed[rows], self._since[rows]
        found: BoolArray = (at < 0) | (at == node)
        while (parent := self._parents[node]) >= 0:
            found |= (at == parent) & (since <= node)
            node = parent
        return found
