"""The work of both parties for a passive's histograms: called by `bench.vertical_trees`.

    measured(rows, features, bins, depth)     the set-up and one tree: processor time and bytes, of both together

A tree is grown to its full depth on random bins, with the split in the middle of a feature at each node, and the
histograms of the smaller child only. A first tree is not timed: it makes the leaves that are kept, and its histograms
are compared with plain sums. Each party runs in a thread of its own, and its time is that of its thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from tacit.channel import LIMIT, Channel, run_parties
from tacit.crypto.counter import Counter
from tacit.kinds.vertical_trees.protocol import active, passive
from tacit.kinds.vertical_trees.protocol.features import Chosen, Features, IntArray, PlainFeatures
from tacit.kinds.vertical_trees.protocol.messages import Begun
from tacit.wire import Message, encode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of processor time and bytes, of both parties together.

    Args:
        exact: whether all histograms of the first tree were those of plain sums.
    """

    setup_seconds: float
    setup_bytes: int
    tree_seconds: float
    tree_bytes: int
    exact: bool


def measured(rows: int, features: int, bins: int, depth: int, *, hidden: bool = False, trees: int = 2) -> Measured:
    """The costs of one passive with a random table; those of a tree are means over `trees`."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, bins, (rows, features)).astype(np.uint8)
    words = rng.integers(-(2**40), 2**40, rows)
    table = passive.Table(cells, np.full(features, bins), np.ones(features, dtype=bool), np.zeros(features, np.int64))

    def first(channels: Mapping[str, Channel]) -> tuple[float, float, int, int, bool]:
        channel, counter = _Counted(channels["passive"]), Counter(0, lambda _: None)
        start = time.thread_time()
        met = active.meet(channel, rows, counter)
        remote = active.RemoteFeatures(channel, met, counter, hidden=hidden)
        setup, setup_bytes = time.thread_time() - start, channel.crossed()
        plain = PlainFeatures(cells, table.bins)
        pairs = zip(_tree(remote, words, depth), _tree(plain, words, depth), strict=True)
        exact = all(np.array_equal(one, other) for one, other in pairs)
        channel.crossed()
        start = time.thread_time()
        for _ in range(trees):
            for _ in _tree(remote, words, depth):
                pass
        spent = time.thread_time() - start
        remote.close()
        return setup, spent, setup_bytes, channel.crossed(), exact

    def second(channels: Mapping[str, Channel]) -> tuple[float, float, int, int, bool]:
        channel, counter = _Counted(channels["active"]), Counter(0, lambda _: None)
        start = time.thread_time()
        held = passive.meet(channel, table, counter)
        setup = time.thread_time() - start
        channel.begun.clear()
        passive.serve(channel, held, counter, 1, hidden=hidden)
        first_timed = channel.begun[len(channel.begun) // (trees + 1)]  # each tree has as many words as any other
        return setup, time.thread_time() - first_timed, 0, 0, True

    found = run_parties({"active": first, "passive": second})
    setup, spent, setup_bytes, tree_bytes, exact = found["active"]
    return Measured(
        setup + found["passive"][0], setup_bytes, (spent + found["passive"][1]) / trees, tree_bytes // trees, exact
    )


class _Counted:
    """A channel that adds up bytes, and notes the time of its thread when words begin to come."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._bytes = 0
        self.begun: list[float] = []

    def send(self, message: Message) -> None:
        self._bytes += len(encode(message))
        self._channel.send(message)

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        message = self._channel.recv(kind, limit)
        self._bytes += len(encode(cast(Message, message)))
        if isinstance(message, Begun):
            self.begun.append(time.thread_time())
        return message

    def close(self) -> None:
        self._channel.close()

    def crossed(self) -> int:
        """The bytes since the last call."""
        size, self._bytes = self._bytes, 0
        return size


def _tree(source: Features, words: IntArray, depth: int) -> Iterator[IntArray]:
    """Grow a full tree: at each level histograms of smaller children, and sides of all nodes."""
    source.start(words)
    level = asked = [np.arange(len(words))]
    for number in range(depth):
        yield from source.histograms(asked)
        feature = number % len(source.bins)
        left = np.arange(int(source.bins[feature])) < source.bins[feature] // 2
        sides = source.divide([Chosen(rows, feature, left) for rows in level])
        pairs = [(rows[side], rows[~side]) for rows, side in zip(level, sides, strict=True)]
        level, asked = [part for pair in pairs for part in pair], [min(pair, key=len) for pair in pairs]
