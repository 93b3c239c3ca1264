"""Which rows of a split go left: the active asks, the owner of the feature answers from its table.

    RemoteSides(channel, rows, bins, hidden).divide(chosen)   the active
    read(asked, table, hidden), answer(channel, table, read)  the owner: what was asked for, and its answer
    split_keys(asked), told_key(key, bins)                    each split as bytes: its feature, and its bins on a side
    told(left)                                                a split as its owner is told of it

A request names a feature and its bins that go left, by their numbers, and the rows, or none if they stay hidden: then
the answer is for all rows of the table, and the active looks up those of the node. Requests and answers are cut into
messages of bounded length.

The owner is told of the side of the feature's first bin. In trees that are grown now that is the left one (`splits`);
in those of release 0.2.0 it may be the right one, which had the higher labels of categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.channel import Channel
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BinArray, BoolArray, Chosen, IntArray
from tacit.kinds.vertical_trees.protocol.messages import (
    FRAME,
    MASK_BYTES,
    MOST_REQUEST,
    Divide,
    Over,
    Sides,
    array_of,
    node_bytes,
    pack_flags,
    pack_nodes,
    unpack_flags,
    unpack_nodes,
)

__all__ = ["SPLIT_BYTES", "Asked", "RemoteSides", "answer", "batches", "read", "split_keys", "told", "told_key"]

SPLIT_BYTES = 4 + MASK_BYTES  # of a key
_BATCH = MOST_REQUEST // 4  # bytes; a single node may need more
_SPLIT = MOST_BINS // 8 + 8  # bytes of a split without its rows


class RemoteSides:
    """The sides of rows by another party's features; `hidden`: it does not see the rows of nodes."""

    def __init__(self, channel: Channel, rows: int, bins: IntArray, *, hidden: bool = False) -> None:
        self._channel = channel
        self._rows = rows
        self._bins = bins
        self._hidden = hidden

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        """Of each chosen split one flag per row of its node: True goes left."""
        if (last := max((split.feature for split in chosen), default=-1)) >= len(self._bins):
            raise PeerError(
                f"trees split by feature {last + 1} of the other party, and it has {len(self._bins)}: it takes part "
                "with another part of the model"
            )
        lengths = [_SPLIT + self._length(len(split.node)) for split in chosen]
        return [found for part in batches(lengths) for found in self._divided(chosen[part])]

    def close(self) -> None:
        """Tell the other party that nothing more is asked."""
        self._channel.send(Over())

    def _length(self, size: int) -> int:
        return -(-self._rows // 8) if self._hidden else node_bytes(size, self._rows)

    def _divided(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        masks = np.zeros((len(chosen), MOST_BINS), dtype=bool)
        turned = np.zeros(len(chosen), dtype=bool)
        for place, split in enumerate(chosen):
            left = split.left[: self._bins[split.feature]]
            masks[place, : len(left)], turned[place] = told(left)
        features = np.array([split.feature for split in chosen], dtype="<u4").tobytes()
        nodes = b"" if self._hidden else pack_nodes([split.node for split in chosen], self._rows)
        self._channel.send(Divide(features, pack_flags(masks.reshape(-1)), nodes))
        sizes = [self._rows if self._hidden else len(split.node) for split in chosen]
        flags = self._channel.recv(Sides, -(-sum(sizes) // 8) + FRAME).flags
        found = np.split(unpack_flags(flags, sum(sizes), f"sides of {sum(sizes)} rows"), np.cumsum(sizes)[:-1])
        if self._hidden:
            found = [each[split.node] for each, split in zip(found, chosen, strict=True)]
        return [~each if turn else each for each, turn in zip(found, turned.tolist(), strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The splits of a request: of each its feature, its bins on the told side, and its rows; None for all rows."""

    features: list[int]
    sides: BoolArray  # [splits, bins]
    nodes: list[IntArray] | None


def read(asked: Divide, table: BinArray, *, hidden: bool) -> Asked:
    """What is asked of a table. PeerError if its parts do not fit each other or the table."""
    count, (total, columns) = len(asked.features) // 4, table.shape
    features = array_of(asked.features, "<u4", count, f"{count} splits").astype(np.int64)
    sides = unpack_flags(asked.left, count * MOST_BINS, f"bins of {count} splits").reshape(count, MOST_BINS)
    if count and features.max() >= columns:
        raise PeerError(f"a split of feature {features.max()} was asked for, and this party has {columns}")
    if hidden:
        if asked.nodes or count * -(-total // 8) > MOST_REQUEST:
            raise PeerError(
                "rows of nodes are to stay hidden from this party, and were sent, or too many splits at once"
            )
        return Asked(features.tolist(), sides, None)
    nodes = unpack_nodes(asked.nodes, total, count)
    if len(nodes) != count:
        raise PeerError(f"{count} splits of {len(nodes)} nodes were asked for")
    return Asked(features.tolist(), sides, nodes)


def answer(channel: Channel, table: BinArray, asked: Asked) -> tuple[int, int]:
    """Say for each split which rows of `table` are on the told side; how many splits and rows that were."""
    every = [np.arange(len(table))] * len(asked.features)
    nodes = every if asked.nodes is None else asked.nodes
    found = [side[table[rows, j]] for side, rows, j in zip(asked.sides, nodes, asked.features, strict=True)]
    channel.send(Sides(pack_flags(np.concatenate([np.empty(0, dtype=bool), *found]))))
    return len(found), sum(len(each) for each in found)


def told(left: BoolArray) -> tuple[BoolArray, bool]:
    """The bins on the side of the first bin, and whether that is the right side."""
    turned = len(left) > 0 and not left[0]
    return (~left if turned else left), turned


def told_key(key: bytes, bins: IntArray) -> bytes:
    """The key of a split as it is told, from one that names its left side, be it told or not."""
    feature = int.from_bytes(key[:4], "little")
    left = unpack_flags(key[4:], MOST_BINS, "bins of a split")
    left[: bins[feature]] = told(left[: bins[feature]])[0]
    return key[:4] + pack_flags(left)


def split_keys(asked: Divide) -> list[bytes]:
    """Each split that `read` has read, as SPLIT_BYTES bytes: its feature, and its bins on the told side."""
    count = len(asked.features) // 4
    return [
        asked.features[4 * place : 4 * place + 4] + asked.left[MASK_BYTES * place : MASK_BYTES * (place + 1)]
        for place in range(count)
    ]


def batches(lengths: Sequence[int]) -> Iterator[slice]:
    """Stretches of parts with these lengths in bytes that fit one message each."""
    start = used = 0
    for place, length in enumerate(lengths):
        if place > start and used + length > _BATCH:
            yield slice(start, place)
            start, used = place, 0
        used += length
    if start < len(lengths):
        yield slice(start, len(lengths))
