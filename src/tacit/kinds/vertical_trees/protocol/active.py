"""A passive's features at the active, over a channel.

    meet(channel, rows, counter, saved)       what the passive has, and the punctured trees of its cells
    RemoteFeatures(channel, met, counter)     `Features` whose sums and sides the passive helps with, for one meeting
    say_rounds(channels, done, trees)         tell all passives how many rounds are done; they have stored it

For each tree the active sends one word for each row and used feature (`shares`), once the first node, that of all
rows of the tree, is asked for. Then it sends rows of nodes and gets share sums, to which it adds its own. Sums are
exact modulo 2^64; those that do not add up to the values of the node's rows are refused.

With `hidden` the passive gets new words for each node instead, of zero for rows that are not in it, and no rows; it
adds up all of them. A split that won is then answered for all rows.

Guarantee: what `shares` says. The passive sees the rows of each tree and node, unless they are hidden, which of its
    features a tree may use, which of them and of their bins won, and how many nodes are opened. The active sees the
    sums of opened nodes by bin, and sides of rows: with `hidden`, also of rows that are not in the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tacit import oblivious
from tacit.channel import Channel, recv_first
from tacit.crypto.counter import Counter
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import cells, shares
from tacit.kinds.vertical_trees.protocol.cells import Made
from tacit.kinds.vertical_trees.protocol.features import MOST_BINS, BoolArray, Chosen, IntArray
from tacit.kinds.vertical_trees.protocol.messages import (
    FRAME,
    MEETING_BYTES,
    MOST_FEATURES,
    MOST_ROWS,
    Begun,
    Corrections,
    Described,
    Open,
    Prepared,
    Rounds,
    RoundsKept,
    ShareSums,
    array_of,
    node_bytes,
    pack_flags,
    pack_nodes,
)
from tacit.kinds.vertical_trees.protocol.shares import Parts, Ring, TreeShares, Value, Words
from tacit.kinds.vertical_trees.protocol.sides import RemoteSides, batches
from tacit.randomness import secure_rng

__all__ = ["Description", "Met", "RemoteFeatures", "described", "meet", "say_rounds"]

_SESSION_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """What the active learns about a passive's features before any tree."""

    bins: IntArray
    ordered: BoolArray
    signs: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """A passive's features, and the trees of its cells.

    Args:
        fresh: whether the trees were made in this meeting, and are to be stored.
    """

    described: Description
    made: Made
    fresh: bool


def meet(channel: Channel, rows: int, counter: Counter, saved: Made | None = None, rng: Generator | None = None) -> Met:
    """Hear of the passive's features, and make the trees of its cells, unless both hold those of an earlier meeting.

    Either way both parties then skip all tweaks that one of them has used. The passive calls `passive.meet`.
    """
    columns, session = described(channel, rows)
    made = saved
    if saved is None or (saved.session, saved.rows, *saved.bins) != (session, rows, *columns.bins):
        made = None
    channel.send(Prepared(b"" if made is None else session))
    if made is None:
        made = cells.make(channel, oblivious.sender(channel, rng), rows, columns.bins)
    oblivious.agree(channel, counter)
    return Met(columns, made, made is not saved)


def described(channel: Channel, rows: int) -> tuple[Description, bytes]:
    """The passive's features of `rows` rows, and the session whose trees it holds."""
    if not 1 <= rows <= MOST_ROWS:
        raise ValueError(f"trees are grown from 1 to {MOST_ROWS} rows, got {rows}")
    message = recv_first(channel, Described, 4 * MOST_FEATURES + _SESSION_BYTES + FRAME)
    count = len(message.ordered)
    bins = array_of(message.bins, "<u2", count, f"bins of {count} features").astype(np.int64)
    signs = array_of(message.signs, "i1", count, f"signs of {count} features").astype(np.int64)
    ordered = array_of(message.ordered, "u1", count, f"orders of {count} features")
    if message.rows != rows:
        raise PeerError(f"the other party has {message.rows} rows, this one {rows}: align the tables first")
    if count and not (2 <= bins.min() <= bins.max() <= MOST_BINS and ordered.max() <= 1 and abs(signs).max() <= 1):
        raise PeerError(f"features have 2 to {MOST_BINS} bins, an order of 0 or 1 and a sign of -1, 0 or 1")
    return Description(bins, ordered.astype(bool), signs), message.session


def say_rounds(channels: Iterable[Channel], done: int, trees: int) -> None:
    """Tell all passives that so many rounds of so many trees are done, and wait until they have stored their part."""
    channels = list(channels)
    for channel in channels:
        channel.send(Rounds(done, trees))
    for channel in channels:
        if (kept := channel.recv(RoundsKept, FRAME).done) != done:
            raise PeerError(f"the other party stored {kept} rounds, and {done} are done: start both parties again")


class RemoteFeatures:
    """A passive's features. `hidden`: it does not see the rows of nodes.

    The first node that is asked for after `start` holds all rows of the tree, and later ones are parts of it.
    """

    def __init__(
        self, channel: Channel, met: Met, counter: Counter, *, hidden: bool = False, rng: Generator | None = None
    ) -> None:
        self.bins, self.ordered, self.signs = met.described.bins, met.described.ordered, met.described.signs
        self._channel = channel
        self._rows = met.made.rows
        self._counter = counter
        self._meeting = (rng or secure_rng()).bytes(MEETING_BYTES)
        self._hidden = hidden
        self._words = Words(met.made)
        self._sides = RemoteSides(channel, self._rows, self.bins, hidden=hidden)
        self._values: Ring = np.zeros(self._rows, dtype=np.uint64)
        self._used: list[int] = []
        self._tweak = -1
        self._root: IntArray | None = None  # the rows of the tree, once the passive has its words
        self._shares = TreeShares(self._again)

    def start(self, words: IntArray, used: BoolArray | None = None) -> None:
        """Begin a tree; what `Features.start` says. Nothing is sent yet."""
        if words.shape != (self._rows,):
            raise ValueError(f"{self._rows} rows need as many words, not {words.shape}")
        self._values = words.astype(np.int64).view(np.uint64)
        self._used = list(range(len(self.bins))) if used is None else np.flatnonzero(used).tolist()
        self._root = None

    def histograms(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        """The sums of nodes, opened to the active only."""
        if not self._used:
            return [self._spread(np.empty(0, dtype=np.uint64)) for _ in nodes]
        if self._hidden:
            return [self._hidden_sums(rows) for rows in nodes]
        asked = [rows for rows in nodes if len(rows)]
        found = iter(self._shown_sums(asked) if asked else [])
        return [next(found) if len(rows) else self._spread(np.zeros(self._width, dtype=np.uint64)) for rows in nodes]

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        """The sides of the rows of splits that were chosen."""
        return self._sides.divide(chosen)

    def close(self) -> None:
        """Tell the passive that nothing more is asked."""
        self._sides.close()

    @property
    def _width(self) -> int:
        return int(self.bins[self._used].sum())

    def _shown_sums(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        """The sums of nodes with rows, which the passive sees."""
        root = self._begun(nodes) if self._root is None else self._root
        places = [_places(rows, root) for rows in nodes]
        lengths = [max(8 * self._width, 4 + node_bytes(len(rows), self._rows)) for rows in nodes]
        return [sums for part in batches(lengths) for sums in self._opened(nodes[part], places[part])]

    def _begun(self, nodes: Sequence[IntArray]) -> IntArray:
        """The rows of the tree, after their words were sent."""
        if len(nodes) != 1:
            raise ValueError(f"the first node of a tree is that of all its rows, got {len(nodes)} nodes")
        (root,) = nodes
        self._root = root
        self._shares.begin(len(root))
        for feature, parts in self._given(self._values[root], root):
            self._shares.add(feature, int(self.bins[feature]), parts)
        return root

    def _opened(self, nodes: Sequence[IntArray], places: Sequence[IntArray]) -> list[IntArray]:
        self._channel.send(Open(pack_nodes(nodes, self._rows)))
        own = self._shares.sums(places, self.bins)  # while the passive adds up its own
        return self._checked(nodes, self._received(len(nodes)) - own)

    def _hidden_sums(self, rows: IntArray) -> IntArray:
        """The sums of a node that the passive does not see: new words for all rows, zero outside the node."""
        values = np.zeros_like(self._values)
        values[rows] = self._values[rows]
        own = [shares.added(parts, int(self.bins[feature])) for feature, parts in self._given(values, None)]
        return self._checked([rows], self._received(1) - np.concatenate(own))[0]

    def _given(self, values: Ring, rows: IntArray | None) -> Iterator[tuple[int, Parts]]:
        """Of each used feature this party's shares under a new tweak; their corrections are sent once they are used."""
        used = np.zeros(len(self.bins), dtype=bool)
        used[self._used] = True
        self._tweak = self._counter.take()[0]
        packed = b"" if rows is None else pack_nodes([rows], self._rows)
        self._channel.send(Begun(self._tweak, self._meeting, pack_flags(used), packed))
        sent = np.empty(len(values), dtype=np.uint64)
        for feature in self._used:
            yield feature, shares.given(self._words, self._value(feature, rows), values, sent)
            self._channel.send(Corrections(sent.astype("<u8").tobytes()))

    def _received(self, nodes: int) -> Ring:
        """The passive's share sums of so many nodes."""
        message = self._channel.recv(ShareSums, 8 * nodes * self._width + FRAME).words
        return array_of(message, "<u8", nodes * self._width, f"sums of {nodes} nodes").reshape(nodes, -1)

    def _checked(self, nodes: Sequence[IntArray], sums: Ring) -> list[IntArray]:
        """The sums of nodes: over the bins of each feature they are the sum of the values of the node's rows."""
        bins = self.bins[self._used]
        added = np.add.reduceat(sums, np.cumsum(bins) - bins, axis=1)
        values = np.array([self._values[rows].sum() for rows in nodes], dtype=np.uint64)
        if (added != values[:, None]).any():
            raise PeerError(
                "the sums of a node do not add up to the gradients of its rows: the other party's answer is wrong, and "
                "the tree would be too"
            )
        return [self._spread(each) for each in sums]

    def _spread(self, sums: Ring) -> IntArray:
        """Sums of the used features one after another as an array [features, most bins]."""
        found = np.zeros((len(self.bins), int(self.bins.max(initial=0))), dtype=np.int64)
        used = np.zeros((len(self.bins), 1), dtype=bool)
        used[self._used] = True
        found[used & (np.arange(found.shape[1]) < self.bins[:, None])] = sums.view(np.int64)
        return found

    def _again(self, feature: int) -> Parts:
        return self._words.parts(self._value(feature, self._root))

    def _value(self, feature: int, rows: IntArray | None) -> Value:
        return Value(self._tweak, self._meeting, feature, rows)


def _places(rows: IntArray, root: IntArray) -> IntArray:
    """The places of a node's rows among those of the tree."""
    places = np.searchsorted(root, rows)
    if len(rows) and (places[-1] >= len(root) or (root[places] != rows).any()):
        raise ValueError(f"a node of {len(rows)} rows has some that are not in its tree")
    return places
