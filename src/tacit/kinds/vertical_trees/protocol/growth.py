"""One tree, grown level by level from the histograms of all parties.

Of two children only the smaller one's histograms are asked for; the other's are the parent's without them. So sums of
a node are opened only if both children have `least` rows: a larger child alone would give the smaller away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.features import BoolArray, Chosen, Features, IntArray
from tacit.kinds.vertical_trees.protocol.rounding import Packed, pack, unpack
from tacit.kinds.vertical_trees.protocol.splits import FREE, Bounds, Columns, Rules, Split, Sums, best_splits, value
from tacit.kinds.vertical_trees.protocol.tree import LEAF, Tree

__all__ = ["Grown", "Options", "grow"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Options:
    """How trees grow."""

    depth: int = 5
    rules: Rules = field(default_factory=Rules)
    bits: int = 8  # of g and of h in a sum
    least: int = 64  # rows of a node whose sums are opened
    rows: float = 1.0  # the share of the rows that a tree is grown from
    features: float = 1.0  # the share of all parties' features that a tree may use

    def __post_init__(self) -> None:
        if self.depth < 1 or self.least < 1:
            raise ValueError(f"trees need a depth and a least number of rows above 0: {self.depth}, {self.least}")
        if not (0 < self.rows <= 1 and 0 < self.features <= 1):
            raise ValueError(f"shares of rows and features are above 0 and at most 1: {self.rows}, {self.features}")


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree, and the leaf of every row, also of those that it was not grown from."""

    tree: Tree
    leaf: IntArray


@dataclass(slots=True, eq=False)
class _Node:
    number: int
    rows: IntArray  # all rows that come here
    counted: IntArray  # those in the sums
    bounds: Bounds
    sums: list[IntArray] = field(default_factory=list)  # of each party, [features, bins]


def grow(
    sources: Sequence[Features], gradients: Floats, hessians: Floats, rows: IntArray, options: Options, rng: Generator
) -> Grown:
    """Grow one tree from `rows` (ascending); other rows are routed only.

    `gradients` and `hessians` have an entry for every row of the table, those of other rows are not used. The splits
    come from rounded numbers, the values of leaves from exact ones, which the active has itself.
    """
    counted = _part(rows, options.rows, rng)
    packed = _packed(gradients, hessians, counted, options, rng)
    columns = _columns(sources, options.features, rng)
    for source, own in zip(sources, columns, strict=True):
        source.start(packed.words, None if own.used.all() else own.used)
    drawn = _Drawn(gradients, hessians, options.rules.l2)
    root = _Node(drawn.add(), np.arange(len(gradients)), counted, FREE)
    level = [root]
    if len(counted) >= options.least:
        root.sums = [source.histograms([counted])[0] for source in sources]
    for depth in range(options.depth):
        parents = [node for node in level if node.sums]
        best = _best(parents, columns, packed, options.rules)
        found = [(node, party, split) for node, (party, split) in zip(parents, best, strict=True) if split is not None]
        pairs = _divided(sources, found, drawn)
        divided = {node.number for node, _, _ in found}
        for node in level:
            if node.number not in divided:
                drawn.leaf(node)
        if depth + 1 < options.depth:
            _open(sources, [node for node, _, _ in found], pairs, options.least)
        level = [child for pair in pairs for child in pair]
    for node in level:
        drawn.leaf(node)
    return drawn.grown(len(gradients))


def _part(rows: IntArray, share: float, rng: Generator) -> IntArray:
    if share == 1:
        return rows
    return np.sort(rng.permutation(rows)[: max(1, round(share * len(rows)))])


def _packed(gradients: Floats, hessians: Floats, counted: IntArray, options: Options, rng: Generator) -> Packed:
    found = pack(gradients[counted], hessians[counted], options.bits, rng)
    words = np.zeros(len(gradients), dtype=np.int64)
    words[counted] = found.words
    return Packed(words, found.gradient_unit, found.hessian_unit)


def _columns(sources: Sequence[Features], share: float, rng: Generator) -> list[Columns]:
    counts = [len(source.bins) for source in sources]
    used = np.ones(sum(counts), dtype=bool)
    if share < 1:
        used[:] = False
        used[rng.permutation(len(used))[: max(1, round(share * len(used)))]] = True
    parts = np.split(used, np.cumsum(counts)[:-1])
    return [Columns(s.bins, s.ordered, s.signs, part) for s, part in zip(sources, parts, strict=True)]


def _best(nodes: list[_Node], columns: list[Columns], packed: Packed, rules: Rules) -> list[tuple[int, Split | None]]:
    """Of each node the party with the best split, and that split; of equal ones that of the first party."""
    if not nodes:
        return []
    best: list[tuple[int, Split | None]] = [(LEAF, None)] * len(nodes)
    for party, own in enumerate(columns):
        sums = Sums(*unpack(np.stack([node.sums[party] for node in nodes])), packed.gradient_unit, packed.hessian_unit)
        for place, split in enumerate(best_splits(sums, own, [node.bounds for node in nodes], rules)):
            before = best[place][1]
            if split is not None and (before is None or split.gain > before.gain):
                best[place] = (party, split)
    return best


def _divided(
    sources: Sequence[Features], found: list[tuple[_Node, int, Split]], drawn: _Drawn
) -> list[tuple[_Node, _Node]]:
    """The children of every node with a split. A party is asked once for all its splits of a level."""
    flags: dict[int, BoolArray] = {}
    for party, source in enumerate(sources):
        own = [(node, split) for node, winner, split in found if winner == party]
        if own:
            answers = source.divide([Chosen(node.rows, split.feature, split.left) for node, split in own])
            flags |= {node.number: answer for (node, _), answer in zip(own, answers, strict=True)}
    pairs = []
    for node, party, split in found:
        left = flags[node.number]
        sides = [node.rows[left], node.rows[~left]]
        counted = sides  # if all rows are in the sums, which is most often so
        if len(node.counted) < len(node.rows):
            flagged = left[np.searchsorted(node.rows, node.counted)]
            counted = [node.counted[flagged], node.counted[~flagged]]
        pair = (
            _Node(drawn.add(), sides[0], counted[0], split.bounds[0]),
            _Node(drawn.add(), sides[1], counted[1], split.bounds[1]),
        )
        drawn.split(node.number, party, split, (pair[0].number, pair[1].number))
        pairs.append(pair)
    return pairs


def _open(sources: Sequence[Features], parents: list[_Node], pairs: list[tuple[_Node, _Node]], least: int) -> None:
    """Get the sums of all children that may be split: those of the smaller ones from the parties."""
    asked = []
    for parent, (left, right) in zip(parents, pairs, strict=True):
        small, large = (left, right) if len(left.counted) <= len(right.counted) else (right, left)
        if len(small.counted) >= least:
            asked.append((parent, small, large))
    if not asked:
        return
    for party, source in enumerate(sources):
        answers = source.histograms([small.counted for _, small, _ in asked])
        for (parent, small, large), answer in zip(asked, answers, strict=True):
            small.sums.append(answer)
            large.sums.append(parent.sums[party] - answer)


class _Drawn:
    """The tree so far."""

    def __init__(self, gradients: Floats, hessians: Floats, l2: float) -> None:
        self._gradients, self._hessians, self._l2 = gradients, hessians, l2
        self._splits: list[tuple[int, Split, tuple[int, int]] | None] = []
        self._values: list[float] = []
        self._leaves: list[_Node] = []

    def add(self) -> int:
        self._splits.append(None)
        self._values.append(0.0)
        return len(self._splits) - 1

    def split(self, number: int, party: int, split: Split, children: tuple[int, int]) -> None:
        self._splits[number] = (party, split, children)

    def leaf(self, node: _Node) -> None:
        gradient, hessian = float(self._gradients[node.counted].sum()), float(self._hessians[node.counted].sum())
        self._values[node.number] = value(gradient, hessian, self._l2, node.bounds)
        self._leaves.append(node)

    def grown(self, rows: int) -> Grown:
        nodes = len(self._splits)
        most = max((len(found[1].left) for found in self._splits if found), default=1)
        party, feature = np.full(nodes, LEAF), np.zeros(nodes, dtype=np.int64)
        left, children = np.zeros((nodes, most), dtype=bool), np.zeros((nodes, 2), dtype=np.int64)
        gain = np.zeros(nodes)
        for number, found in enumerate(self._splits):
            if found is not None:
                party[number], feature[number], gain[number] = found[0], found[1].feature, found[1].gain
                left[number, : len(found[1].left)], children[number] = found[1].left, found[2]
        leaf = np.zeros(rows, dtype=np.int64)
        for node in self._leaves:
            leaf[node.rows] = node.number
        return Grown(Tree(party, feature, left, children, np.array(self._values), gain), leaf)
