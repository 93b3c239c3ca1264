"""Which rows of a split go left: the active asks, the owner of the feature answers from its table.

    RemoteSides(channel, rows, hidden).divide(chosen)      the active
    answer(channel, table, asked, hidden)                  the owner
    split_keys(asked)                                      each split as bytes: its feature, and its bins that go left

A request names a feature and its bins that go left, by their numbers, and the rows, or none if they stay hidden: then
the answer is for all rows of the table, and the active looks up those of the node. Requests and answers are cut into
messages of bounded length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tacit.channel import Channel
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BinArray, BoolArray, Chosen
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

__all__ = ["SPLIT_BYTES", "RemoteSides", "answer", "batches", "split_keys"]

SPLIT_BYTES = 4 + MASK_BYTES  # of a key
_BATCH = MOST_REQUEST // 4  # bytes; a single node may need more
_SPLIT = MOST_BINS // 8 + 8  # bytes of a split without its rows


class RemoteSides:
    """The sides of rows by another party's features; `hidden`: it does not see the rows of nodes."""

    def __init__(self, channel: Channel, rows: int, *, hidden: bool = False) -> None:
        self._channel = channel
        self._rows = rows
        self._hidden = hidden

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        """Of each chosen split one flag per row of its node: True goes left."""
        lengths = [_SPLIT + self._length(len(split.node)) for split in chosen]
        return [found for part in batches(lengths) for found in self._divided(chosen[part])]

    def close(self) -> None:
        """Tell the other party that nothing more is asked."""
        self._channel.send(Over())

    def _length(self, size: int) -> int:
        return -(-self._rows // 8) if self._hidden else node_bytes(size, self._rows)

    def _divided(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        masks = np.zeros((len(chosen), MOST_BINS), dtype=bool)
        for mask, split in zip(masks, chosen, strict=True):
            mask[: len(split.left)] = split.left
        features = np.array([split.feature for split in chosen], dtype="<u4").tobytes()
        nodes = b"" if self._hidden else pack_nodes([split.node for split in chosen], self._rows)
        self._channel.send(Divide(features, pack_flags(masks.reshape(-1)), nodes))
        sizes = [self._rows if self._hidden else len(split.node) for split in chosen]
        flags = self._channel.recv(Sides, -(-sum(sizes) // 8) + FRAME).flags
        found = np.split(unpack_flags(flags, sum(sizes), f"sides of {sum(sizes)} rows"), np.cumsum(sizes)[:-1])
        return [each[split.node] for each, split in zip(found, chosen, strict=True)] if self._hidden else found


def answer(channel: Channel, table: BinArray, asked: Divide, *, hidden: bool) -> tuple[int, int]:
    """Say for each split which rows of `table` go left; how many splits and rows that were."""
    count, (total, columns) = len(asked.features) // 4, table.shape
    features = array_of(asked.features, "<u4", count, f"{count} splits").astype(np.int64)
    masks = unpack_flags(asked.left, count * MOST_BINS, f"bins of {count} splits").reshape(count, MOST_BINS)
    if count and features.max() >= columns:
        raise PeerError(f"a split of feature {features.max()} was asked for, and this party has {columns}")
    if hidden and (asked.nodes or count * -(-total // 8) > MOST_REQUEST):
        raise PeerError("rows of nodes are to stay hidden from this party, and were sent, or too many splits at once")
    nodes = [np.arange(total)] * count if hidden else unpack_nodes(asked.nodes, total, count)
    if len(nodes) != count:
        raise PeerError(f"{count} splits of {len(nodes)} nodes were asked for")
    sides = [mask[table[rows, j]] for mask, rows, j in zip(masks, nodes, features.tolist(), strict=True)]
    channel.send(Sides(pack_flags(np.concatenate([np.empty(0, dtype=bool), *sides]))))
    return count, sum(len(rows) for rows in nodes)


def split_keys(asked: Divide) -> list[bytes]:
    """Each split that `answer` has answered, as SPLIT_BYTES bytes: its feature, and which of its bins go left."""
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
