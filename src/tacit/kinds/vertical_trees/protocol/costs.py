"""How much the active and one passive send each other, before anything is sent.

    costs(rows, bins, depth, hidden)     of the set-up, and of one tree at most
    memory(rows, bins)                   that the active needs for the cells and words of one passive

A tree of depth D has 2^(D-1) nodes of which sums are asked for: the root, and one of two children at each level below
but the last. Frames and base transfers (about 5 kB) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.kinds.vertical_trees.protocol.cells import SEED_BYTES, setup_bytes
from tacit.kinds.vertical_trees.protocol.features import IntArray
from tacit.kinds.vertical_trees.protocol.messages import MASK_BYTES
from tacit.kinds.vertical_trees.protocol.shares import KEPT_LEAVES, KEPT_WORDS

__all__ = ["Costs", "costs", "memory"]

_LEAF_BYTES, _WORD_BYTES = 16, 8  # of each bin of a cell


@dataclass(frozen=True, slots=True)
class Costs:
    """Of both parties together.

    Args:
        setup: bytes, once for a table.
        tree: bytes, if all features are used and the passive wins every split.
        sums: numbers that a tree opens to the active.
        exchanges: round trips of a tree: sums and sides of each level.
    """

    setup: int
    tree: int
    sums: int
    exchanges: int


def costs(rows: int, bins: IntArray, depth: int, *, hidden: bool = False) -> Costs:
    """What a passive with so many rows and bins of each feature costs."""
    nodes, splits = 1 << (depth - 1), (1 << depth) - 1
    bits = -(-rows // 8)
    words = 8 * rows * len(bins) * (nodes if hidden else 1)
    sums = int(bins.sum()) * nodes
    shown = 0 if hidden else bits * (1 + nodes) + 4 * (nodes + depth)
    if hidden:
        answers = splits * (MASK_BYTES + 4 + bits)
    else:
        answers = splits * (MASK_BYTES + 8) + sum(bits * (1 << level) + bits for level in range(depth))
    exchanges = nodes + depth if hidden else 2 * depth
    return Costs(setup_bytes(rows, bins), words + 8 * sums + shown + answers, sums, exchanges)


def memory(rows: int, bins: IntArray) -> int:
    """About how many bytes the active holds for one passive: seeds, and leaves and words unless they are too many."""
    leaves = rows * int(bins.sum())
    kept = leaves if leaves <= KEPT_LEAVES else 0
    return SEED_BYTES * rows * len(bins) + _LEAF_BYTES * kept + _WORD_BYTES * min(leaves, KEPT_WORDS)
