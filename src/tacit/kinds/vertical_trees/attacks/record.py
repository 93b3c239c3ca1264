"""What each party sees of a training: the facts that attacks start from.

    Recorded(features)      answers as `features` does, and keeps what the active learned from the answers
    Record                  the same, frozen: words of each tree, opened nodes with their sums, divided nodes

The active's view of a passive is the whole record. The passive's view (`partition: shown`) is the rows of each opened
or divided node, without the words: `nodes_seen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.kinds.vertical_trees.protocol.features import BoolArray, Chosen, Features, IntArray
from tacit.kinds.vertical_trees.protocol.rounding import unpack


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """The sums by bin of one node."""

    tree: int
    rows: IntArray
    g: IntArray  # [features, bins]
    h: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Divided:
    """A node that this party's split divided."""

    tree: int
    rows: IntArray
    feature: int
    left_bins: BoolArray
    left: BoolArray  # one flag for each row


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A training as the active sees it through one party's features."""

    g: tuple[IntArray, ...]  # of each tree, one number a row
    h: tuple[IntArray, ...]
    opened: tuple[Opened, ...]
    divided: tuple[Divided, ...]

    @property
    def rows(self) -> int:
        return len(self.g[0])

    def first(self, trees: int) -> Record:
        """Of the first trees only."""
        return Record(
            self.g[:trees],
            self.h[:trees],
            tuple(each for each in self.opened if each.tree < trees),
            tuple(each for each in self.divided if each.tree < trees),
        )

    def nodes_seen(self) -> tuple[tuple[int, IntArray], ...]:
        """What the party itself sees with `partition: shown`: the tree and the rows of each node that it opened."""
        return tuple((each.tree, each.rows) for each in self.opened)


class Recorded:
    """One party's features, with a record of what their answers tell."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self.bins, self.ordered, self.signs = features.bins, features.ordered, features.signs
        self._words: list[IntArray] = []
        self._opened: list[Opened] = []
        self._divided: list[Divided] = []

    def start(self, words: IntArray, used: BoolArray | None = None) -> None:
        self._words.append(words.copy())
        self._features.start(words, used)

    def histograms(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        answers = self._features.histograms(nodes)
        tree = len(self._words) - 1
        for rows, sums in zip(nodes, answers, strict=True):
            self._opened.append(Opened(tree, rows.copy(), *unpack(sums)))
        return answers

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        answers = self._features.divide(chosen)
        tree = len(self._words) - 1
        for each, left in zip(chosen, answers, strict=True):
            self._divided.append(Divided(tree, each.node.copy(), each.feature, each.left, left))
        return answers

    def record(self) -> Record:
        halves = [unpack(words) for words in self._words]
        return Record(
            tuple(g for g, _ in halves), tuple(h for _, h in halves), tuple(self._opened), tuple(self._divided)
        )
