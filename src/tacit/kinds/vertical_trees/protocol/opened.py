"""Which nodes of a tree were opened, as the passive sees them: a node is part of a known one, and none is too small.

The active takes the sums of a node's other child by subtraction. So a node of which a part is opened counts as two from
then on, and both must have `least` rows; an opened node that is no whole known node and no part of one would give the
sums of smaller sets of rows, and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.features import IntArray

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

    @property
    def count(self) -> int:
        """Nodes of which sums are known so far, opened or by subtraction."""
        return 2 * len(self._sizes) - 1

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
        self._node[rows] = len(self._sizes)
        self._sizes.append(len(rows))
