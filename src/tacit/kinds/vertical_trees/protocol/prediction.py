"""Raw scores of new rows, which are routed among the parties that own the splits.

    meet(channel, rows, hidden)               the active: a passive that answers splits of new rows
    scores(ensemble, sources, rows, hidden)   the active: raw scores [rows, outputs]

A passive calls `passive.answer_splits`. The rows of all trees move down level by level: each party is asked once a
level for the splits of its features in a group of trees, for the rows that come there. So a prediction takes as many
exchanges as trees have levels, for each group of trees.

With `hidden` a passive is asked for all rows and for all of its splits, also those that no row reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.active import described
from tacit.kinds.vertical_trees.protocol.features import BoolArray, Chosen, IntArray
from tacit.kinds.vertical_trees.protocol.sides import RemoteSides
from tacit.kinds.vertical_trees.protocol.tree import LEAF, Ensemble, Tree

__all__ = ["Source", "leaves", "meet", "scores"]

Floats = NDArray[np.float64]
_AT_ONCE = 1 << 24  # leaves of rows that are found together, 8 bytes each


class Source(Protocol):
    """One party's features, for routing rows."""

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        """Of each chosen split one flag per row of its node: True goes left."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stop:
    """Rows that came to a node of a tree."""

    tree: int
    node: int
    rows: IntArray


def meet(channel: Channel, rows: int, *, hidden: bool = False, session: bytes = b"") -> RemoteSides:
    """The splits of a passive's features for new rows. Call its `close` in the end. `session` names the training."""
    columns, trained = described(channel, rows)
    if trained != session:
        raise PeerError("the parts of the model are of different trainings: give those of the same one")
    return RemoteSides(channel, rows, columns.bins, hidden=hidden)


def scores(ensemble: Ensemble, sources: Sequence[Source], rows: int, *, hidden: bool = False) -> Floats:
    """The raw scores of new rows, [rows, outputs]; `sources` are in the order of the training."""
    found = np.tile(ensemble.base, (rows, 1))
    step = max(1, _AT_ONCE // max(1, rows))
    for start in range(0, len(ensemble.trees), step):
        trees = ensemble.trees[start : start + step]
        for place, (tree, at) in enumerate(zip(trees, leaves(trees, sources, rows, hidden=hidden), strict=True), start):
            found[:, place % ensemble.outputs] += tree.value[at]
    return found


def leaves(trees: Sequence[Tree], sources: Sequence[Source], rows: int, *, hidden: bool = False) -> list[IntArray]:
    """Of each tree the leaf of every row."""
    found = [np.zeros(rows, dtype=np.int64) for _ in trees]
    level = [_Stop(tree, 0, np.arange(rows)) for tree in range(len(trees))]
    while level:
        inner: dict[int, list[_Stop]] = {}
        for stop in level:
            party = int(trees[stop.tree].party[stop.node])
            if party == LEAF:
                found[stop.tree][stop.rows] = stop.node
            elif len(stop.rows) or hidden:
                inner.setdefault(party, []).append(stop)
        level = []
        for party, stops in sorted(inner.items()):
            level += _divided(trees, sources[party], stops)
    return found


def _divided(trees: Sequence[Tree], source: Source, stops: Sequence[_Stop]) -> list[_Stop]:
    asked = [
        Chosen(stop.rows, int(trees[stop.tree].feature[stop.node]), trees[stop.tree].left[stop.node]) for stop in stops
    ]
    found = []
    for stop, left in zip(stops, source.divide(asked), strict=True):
        one, other = trees[stop.tree].children[stop.node].tolist()
        sides = [_Stop(stop.tree, one, stop.rows[left]), _Stop(stop.tree, other, stop.rows[~left])]
        # Trees of release 0.2.0 have the first bin on either side: the order must not show on which (see `splits`).
        found += sides if trees[stop.tree].left[stop.node, 0] else sides[::-1]
    return found
