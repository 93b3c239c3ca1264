"""What the active and one passive send each other for boosted trees, besides the messages of `tacit.oblivious`.

    pack_nodes(nodes, total), unpack_nodes(data, total, most)     rows of nodes as bytes, and back
    pack_flags(flags), unpack_flags(data, count)                  one bit each
    array_of(data, dtype, count, what)                            numbers of which there must be so many

A node crosses as its size and either the numbers of its rows (4 bytes each) or one bit for each row of the table,
whichever is shorter. Sizes are checked before anything is allocated for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.crypto.counter import MOST as MOST_TWEAK
from tacit.crypto.ot.transfers import check_length
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol.features import BoolArray, IntArray
from tacit.wire import Message

__all__ = [
    "FRAME",
    "MASK_BYTES",
    "MEETING_BYTES",
    "MOST_FEATURES",
    "MOST_REQUEST",
    "MOST_ROWS",
    "MOST_TOGETHER",
    "Begun",
    "Corrections",
    "Described",
    "Divide",
    "Open",
    "Over",
    "Prepared",
    "Rounds",
    "RoundsKept",
    "ShareSums",
    "Sides",
    "array_of",
    "node_bytes",
    "pack_flags",
    "pack_nodes",
    "unpack_flags",
    "unpack_nodes",
]

FRAME = 64  # bytes of a frame around its byte strings
MASK_BYTES = 32  # one bit for each of 256 bins
MOST_FEATURES = 1 << 16
MOST_ROWS = 1 << 24  # whose words, 8 bytes each, fit a message
MOST_REQUEST = 1 << 24  # bytes of a request with nodes: one node has at most an eighth of it
MOST_TOGETHER = 1 << 25  # rows of all nodes of a request, 8 bytes each once they are read
_SIZE = np.dtype("<u4")
Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
MEETING_BYTES = 16
Tweak = Annotated[int, msgspec.Meta(ge=0, le=MOST_TWEAK - 1)]
Meeting = Annotated[bytes, msgspec.Meta(min_length=MEETING_BYTES, max_length=MEETING_BYTES)]


class Described(Message, frozen=True, tag=150):
    """The passive's features as opaque numbers: of each its bins, whether they are in order, and its monotone sign.

    `session` names the punctured trees that this party still holds from an earlier meeting; empty for none.
    """

    rows: Count
    bins: bytes  # two bytes for each feature
    ordered: bytes  # one byte for each feature, 0 or 1
    signs: bytes  # one signed byte for each feature
    session: bytes


class Prepared(Message, frozen=True, tag=151):
    """The active's answer: the session whose trees both still hold, or nothing if they are made anew."""

    session: bytes


class Begun(Message, frozen=True, tag=152):
    """A value of each row is sent next, under this tweak: one `Corrections` for each used feature.

    `meeting` is random, and drawn anew by the active each time the parties meet: no word is used twice, even if both
    were restored from older copies. `rows` are those of the tree; nothing if all rows count and nodes stay hidden.
    """

    tweak: Tweak
    meeting: Meeting
    used: bytes  # one bit for each feature
    rows: bytes  # one node


class Corrections(Message, frozen=True, tag=153):
    """For each row a value plus the words of all leaves of its cell, of one feature: uniform to the passive."""

    words: bytes  # eight bytes for each row


class Open(Message, frozen=True, tag=154):
    """The rows of nodes whose sums by bin are due."""

    nodes: bytes


class ShareSums(Message, frozen=True, tag=155):
    """The passive's shares of the sums, of each node all bins of all used features."""

    words: bytes  # eight bytes each


class Divide(Message, frozen=True, tag=156):
    """Splits that were chosen: of each a feature, which of its bins go left, and the rows to divide.

    Without nodes the answer is due for all rows.
    """

    features: bytes  # four bytes each
    left: bytes  # 256 bits each
    nodes: bytes


class Sides(Message, frozen=True, tag=157):
    """One bit for each row of each split, in order: 1 goes left."""

    flags: bytes


class Over(Message, frozen=True, tag=158):
    """Nothing more is asked."""


class Rounds(Message, frozen=True, tag=159):
    """So many rounds are done, of so many trees each: at the start of a training, and after each round."""

    done: int
    trees: int


class RoundsKept(Message, frozen=True, tag=160):
    """The passive's answer: it has stored which of its splits won. Only then the active stores its trees."""

    done: int


def node_bytes(size: int, total: int) -> int:
    """The length of a node with so many rows of `total`, without its size."""
    return min(_SIZE.itemsize * size, -(-total // 8))


def pack_nodes(nodes: Sequence[IntArray], total: int) -> bytes:
    """Rows of nodes (ascending) of a table with `total` rows: their number, their sizes, and each node."""
    sizes = np.array([len(nodes), *(len(rows) for rows in nodes)], dtype=_SIZE)
    return b"".join([sizes.tobytes(), *(_packed(rows, total) for rows in nodes)])


def unpack_nodes(data: bytes, total: int, most: int) -> list[IntArray]:
    """The nodes that `pack_nodes` wrote, at most `most` of them. PeerError if rows are not ascending or too large."""
    width = _SIZE.itemsize
    count = int(np.frombuffer(data[:width], dtype=_SIZE)[0]) if len(data) >= width else 0
    if len(data) < width * (1 + count) or count > most:
        raise PeerError(f"a message with {count} nodes and {len(data)} bytes; at most {most} nodes are allowed here")
    sizes = np.frombuffer(data, dtype=_SIZE, count=count, offset=width).tolist()
    if max(sizes, default=0) > total:
        raise PeerError(f"a node with {max(sizes)} rows of a table with {total}")
    if sum(sizes) > MOST_TOGETHER:
        raise PeerError(f"{count} nodes with {sum(sizes):,} rows at once: at most {MOST_TOGETHER:,} are taken")
    check_length(data, width * (1 + count) + sum(node_bytes(size, total) for size in sizes), f"{count} nodes")
    nodes, start = [], width * (1 + count)
    for size in sizes:
        end = start + node_bytes(size, total)
        nodes.append(_unpacked(data[start:end], size, total))
        start = end
    return nodes


def pack_flags(flags: BoolArray) -> bytes:
    """One bit for each flag."""
    return np.packbits(flags, bitorder="little").tobytes()


def unpack_flags(data: bytes, count: int, what: str) -> BoolArray:
    """`count` flags; PeerError if there are more or fewer bytes than they need."""
    check_length(data, -(-count // 8), what)
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count, bitorder="little").astype(bool)


def array_of(data: bytes, dtype: Any, count: int, what: str) -> NDArray[Any]:
    """`count` numbers; PeerError if there are more or fewer."""
    check_length(data, count * np.dtype(dtype).itemsize, what)
    return np.frombuffer(data, dtype=dtype)


def _packed(rows: IntArray, total: int) -> bytes:
    if _as_numbers(len(rows), total):
        return rows.astype(_SIZE).tobytes()
    flags = np.zeros(total, dtype=bool)
    flags[rows] = True
    return pack_flags(flags)


def _unpacked(data: bytes, size: int, total: int) -> IntArray:
    if _as_numbers(size, total):
        rows = np.frombuffer(data, dtype=_SIZE).astype(np.int64)
        if len(rows) and (rows[-1] >= total or (np.diff(rows) <= 0).any()):
            raise PeerError(f"the rows of a node are numbers below {total} in ascending order")
        return rows
    rows = np.flatnonzero(unpack_flags(data, total, "a node"))
    if len(rows) != size:
        raise PeerError(f"a node of {size} rows holds {len(rows)}")
    return rows


def _as_numbers(size: int, total: int) -> bool:
    return _SIZE.itemsize * size <= -(-total // 8)
