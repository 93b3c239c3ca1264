"""The party without labels: it holds its table in bins, and answers the active's requests.

    meet(channel, table, counter, saved)              the punctured trees of its cells
    serve(channel, held, counter, least, hidden)      answer until the training is over; what was told
    answer_splits(channel, table, hidden, known)      answer splits of new rows, for a prediction

The passive refuses, with a PeerError that ends the run, a tweak that is not its own next one, nodes that are not parts
of the tree's nodes so far, nodes below `least` rows, and splits of anything but a whole node of the tree, once
(`opened`), unless nodes are hidden from it: then it cannot tell, only the active keeps to `least`, and splits are
counted. With a `Plan` it refuses more rounds, trees and opened nodes than were agreed on, and in a prediction splits
that did not win in training.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto.counter import Counter
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.protocol import cells, shares, sides
from tacit.kinds.vertical_trees.protocol.cells import Held
from tacit.kinds.vertical_trees.protocol.features import BinArray, BoolArray, IntArray
from tacit.kinds.vertical_trees.protocol.messages import (
    FRAME,
    MOST_FEATURES,
    MOST_REQUEST,
    Begun,
    Corrections,
    Described,
    Divide,
    Open,
    Over,
    Prepared,
    Rounds,
    RoundsKept,
    ShareSums,
    array_of,
    unpack_flags,
    unpack_nodes,
)
from tacit.kinds.vertical_trees.protocol.opened import KnownNodes, Tally
from tacit.kinds.vertical_trees.protocol.shares import Parts, Ring, TreeShares, Value, Words

__all__ = ["Plan", "Table", "answer_splits", "meet", "serve"]

_IN_TRAINING: Any = Begun | Open | Divide | Rounds | Over
_IN_PREDICTION: Any = Divide | Over


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """This party's table in bins, and what the active is told about it: all but the cells.

    Args:
        cells: the bin of each cell, [rows, features].
        bins: of each feature their number.
        ordered: of each feature whether its bins are in order.
        signs: of each feature its monotone constraint: -1, 0 or 1.
    """

    cells: BinArray = field(repr=False)
    bins: IntArray
    ordered: BoolArray
    signs: IntArray

    def __post_init__(self) -> None:
        count = self.cells.shape[1]
        if not len(self.bins) == len(self.ordered) == len(self.signs) == count <= MOST_FEATURES:
            raise ValueError(f"{count} features need as many bins, orders and signs, and are at most {MOST_FEATURES}")


def meet(
    channel: Channel, table: Table, counter: Counter, saved: Held | None = None, rng: Generator | None = None
) -> Held:
    """Describe this party's features, and hold the trees of its cells; the active calls `active.meet`.

    What is returned is `saved`, if the active has its trees too and the table is the same. Otherwise it is new, and to
    be stored.
    """
    same = saved is not None and np.array_equal(saved.bins, table.bins) and np.array_equal(saved.table, table.cells)
    held = saved if same else None
    session = b"" if held is None else held.session
    _describe(channel, table, session)
    agreed = channel.recv(Prepared, FRAME + len(session)).session
    if agreed not in (b"", session):
        raise PeerError("the other party resumes with trees that this one does not hold: start all parties anew")
    if held is None or not agreed:
        held = cells.hold(channel, oblivious.receiver(channel, rng), table.cells, table.bins)
    oblivious.agree(channel, counter)
    return held


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training may ask for at most.

    Args:
        rounds: of the whole training.
        trees: of a round.
        nodes: of a tree whose sums are opened: those of the larger children follow from them.
    """

    rounds: int
    trees: int = 1
    nodes: int = 1


def serve(
    channel: Channel,
    held: Held,
    counter: Counter,
    least: int,
    *,
    hidden: bool = False,
    plan: Plan | None = None,
    after: Callable[[Rounds, Tally], None] = lambda rounds, tally: None,
) -> Tally:
    """Answer the active until it says that the training is over; what it was told.

    Args:
        plan: what is refused beyond; None: any number of trees.
        after: is called when the active says how many rounds are done, and must have stored what it needs when it
            returns.
    """
    if least < 1:
        raise ValueError(f"a node that is opened has at least 1 row, got {least}")
    server = _Server(channel, held, counter, least, hidden, plan)
    while True:
        message = channel.recv(_IN_TRAINING, MOST_REQUEST + FRAME)
        match message:
            case Over():
                return server.tally
            case Rounds():
                server.count(message)
                after(message, server.tally)
                channel.send(RoundsKept(message.done))
            case _:
                server.answer(message)


def answer_splits(
    channel: Channel, table: Table, *, hidden: bool = False, session: bytes = b"", known: Container[bytes] | None = None
) -> Tally:
    """Answer splits of the rows of `table` until the active says that its prediction is over; what it was told.

    Args:
        session: names the training; `prediction.meet` compares it.
        known: the splits that won in training, by `sides.split_keys`: others are refused. None: all are answered.
    """
    _describe(channel, table, session)
    tally = Tally()
    while not isinstance(asked := channel.recv(_IN_PREDICTION, MOST_REQUEST + FRAME), Over):
        if known is not None and any(key not in known for key in sides.split_keys(asked)):
            raise PeerError("a split was asked for that is not in the trees of the training: nothing was answered")
        tally.answered(*sides.answer(channel, table.cells, sides.read(asked, table.cells, hidden=hidden)))
    return tally


def _describe(channel: Channel, table: Table, session: bytes) -> None:
    bins, ordered, signs = table.bins.astype("<u2"), table.ordered.astype("u1"), table.signs.astype("i1")
    channel.send(Described(len(table.cells), bins.tobytes(), ordered.tobytes(), signs.tobytes(), session))


class _Server:
    """One passive in one training: the shares of the current tree, and what it has told."""

    def __init__(
        self, channel: Channel, held: Held, counter: Counter, least: int, hidden: bool, plan: Plan | None
    ) -> None:
        self.tally = Tally()
        self._channel = channel
        self._held = held
        self._counter = counter
        self._least = least
        self._hidden = hidden
        self._words = Words(held)
        self._known: KnownNodes | None = None
        self._root: IntArray | None = None
        self._shares = TreeShares(self._again)
        self._corrections: dict[int, Ring] = {}
        self._tweak, self._meeting = -1, b""
        self._plan = plan
        self._done = -1  # rounds, as the active said last
        self._most_values = 0  # received in all, by the plan
        self._trees = 0  # of a round, as the active said first
        self._splits = 0  # if nodes are hidden
        self._nodes = 0  # of the current tree, if they are shown

    def count(self, rounds: Rounds) -> None:
        """Allow the words of one more round, if the plan has one."""
        plan = self._plan
        if plan is None:
            return
        trees = self._trees or rounds.trees
        if not self._done < rounds.done <= plan.rounds or not 1 <= rounds.trees == trees <= plan.trees:
            raise PeerError(
                f"{rounds.done} rounds of {rounds.trees} trees are done, and at most {plan.rounds} of {plan.trees} "
                "were agreed on, each told once and of as many trees as the first"
            )
        self._done, self._trees = rounds.done, trees
        more = rounds.trees * (plan.nodes if self._hidden else 1) if rounds.done < plan.rounds else 0
        self._most_values = self.tally.values + more

    def answer(self, message: Begun | Open | Divide) -> None:
        match message:
            case Begun() if self._hidden:
                self._add_up(message)
            case Begun():
                self._begin(message)
            case Open():
                self._open(message)
            case Divide():
                self._divide(message)

    def _begin(self, begun: Begun) -> None:
        """Take the words of a tree's rows."""
        used = self._used(begun)
        nodes = unpack_nodes(begun.rows, self._held.rows, 1)
        rows = nodes[0] if nodes else np.empty(0, dtype=np.int64)
        self._known, self._root = KnownNodes(rows, self._held.rows, self._least), rows
        self._corrections, self._nodes = {}, 0
        self._shares.begin(len(rows))
        for feature in used:
            self._corrections[feature] = self._received(len(rows))
            self._shares.add(feature, int(self._held.bins[feature]), self._again(feature))

    def _open(self, asked: Open) -> None:
        """Send this party's share sums of nodes."""
        if self._known is None or self._root is None:
            raise PeerError("sums of nodes were asked for before the words of a tree, or although nodes are hidden")
        nodes = unpack_nodes(asked.nodes, self._held.rows, len(self._root) // self._least)
        self._nodes += len(nodes)
        if self._plan is not None and self._nodes > self._plan.nodes:
            raise PeerError(f"sums of {self._nodes} nodes of a tree were asked for: {self._plan.nodes} were agreed on")
        self._known.open(nodes)
        places = [np.searchsorted(self._root, rows) for rows in nodes]
        self._send(self._shares.sums(places, self._held.bins))

    def _add_up(self, begun: Begun) -> None:
        """Take the words of all rows, and send their share sums: those of a node that this party does not see."""
        used, rows = self._used(begun), self._held.rows
        if begun.rows:
            raise PeerError("rows of nodes are to stay hidden from this party, and were sent: set `partition` alike")
        found = [shares.added(self._taken(j, None, self._received(rows)), int(self._held.bins[j])) for j in used]
        self._send(np.concatenate([np.empty(0, dtype=np.uint64), *found])[None])

    def _divide(self, asked: Divide) -> None:
        """Say on which side rows are. A node is divided once, so there are no more splits than nodes."""
        splits = sides.read(asked, self._held.table, hidden=self._hidden)
        if splits.nodes is None:
            self._splits += len(splits.features)
            if self._splits > (most := 2 * self.tally.values):
                raise PeerError(f"{self._splits} splits were asked for, and there are at most {most} nodes to divide")
        elif self._known is None:
            raise PeerError("splits were asked for before the words of a tree")
        else:
            self._known.divide(splits.nodes)
        self.tally.answered(*sides.answer(self._channel, self._held.table, splits))
        self.tally.won.update(sides.split_keys(asked))

    def _used(self, begun: Begun) -> list[int]:
        """The features of which words come next; their tweak counts as used from now on."""
        count = len(self._held.bins)
        flags = unpack_flags(begun.used, count, f"flags of {count} features")
        if begun.tweak != self._counter.next:
            raise PeerError(
                f"words came under tweak {begun.tweak}, and {self._counter.next} is due: start both parties again"
            )
        if self._plan is not None and self.tally.values >= self._most_values:
            raise PeerError(
                f"words of more trees or nodes came than the {self._most_values} that were agreed on so far"
            )
        self._tweak, self._meeting = self._counter.take()[0], begun.meeting
        self.tally.values += 1
        used: list[int] = np.flatnonzero(flags).tolist()
        return used

    def _send(self, sums: Ring) -> None:
        self._channel.send(ShareSums(sums.astype("<u8").tobytes()))
        self.tally.nodes += len(sums)
        self.tally.sums += sums.size

    def _received(self, rows: int) -> Ring:
        message = self._channel.recv(Corrections, 8 * rows + FRAME).words
        return array_of(message, "<u8", rows, f"words of {rows} rows")

    def _again(self, feature: int) -> Parts:
        return self._taken(feature, self._root, self._corrections[feature])

    def _taken(self, feature: int, rows: IntArray | None, corrections: Ring) -> Parts:
        value = Value(self._tweak, self._meeting, feature, rows)
        return shares.taken(self._words, value, self._held.table, corrections)
