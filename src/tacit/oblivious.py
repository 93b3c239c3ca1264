"""Oblivious transfer and punctured trees between two parties over a channel.

    receiver(channel), sender(channel)                      one end each of a session: base transfers, once a meeting
    send_random, receive_random                             one of two random blocks
    send_pairs, receive_chosen                              one of two messages
    send_correlated, receive_correlated                     words x and x + choice · difference
    send_tables, receive_entries                            one of 2^L table entries
    make_trees, hold_trees                                  many trees, of which the holder misses a leaf each
    agree(channel, counter)                                 both advance to the larger of their next tweaks

The two parties call the functions of a pair at the same place of their protocols, with the same numbers of transfers.
The mathematics, its guarantees and assumptions are in `tacit.crypto.ot` and `tacit.crypto.punctured`; both parties are
semi-honest. A message that is longer than the right one is refused before it is read, one that is shorter before it is
used.

What crosses: points of the base transfers (uniform elements of the group), the receiver's columns (pseudo-random), and
the sender's hidden blocks, of which the receiver opens its part. `Tweak` is a count of the words that were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from tacit.channel import Channel
from tacit.crypto import ot, punctured
from tacit.crypto.counter import MOST as MOST_TWEAKS
from tacit.crypto.counter import Counter
from tacit.crypto.fixed_key import Blocks
from tacit.crypto.ot import base, one_of_many, transfers
from tacit.crypto.ot.extension import message_bytes
from tacit.crypto.ot.words import Bits, Words, word_bytes
from tacit.crypto.punctured import PuncturedTrees, Trees
from tacit.errors import PeerError
from tacit.wire import Message

__all__ = [
    "Answer",
    "Columns",
    "Hidden",
    "Offer",
    "Sums",
    "Tweak",
    "agree",
    "hold_trees",
    "make_trees",
    "receive_chosen",
    "receive_correlated",
    "receive_entries",
    "receive_random",
    "receiver",
    "send_correlated",
    "send_pairs",
    "send_random",
    "send_tables",
    "sender",
]

M = TypeVar("M", bound=Message)
Keep = Callable[[slice, Blocks], None]
FRAME = 64  # bytes of a frame around its byte string
LEAP = 1 << 40  # tweaks that a party may be ahead


class Offer(Message, frozen=True, tag=140):
    """Two points of the receiver, with which base transfers begin."""

    points: bytes


class Answer(Message, frozen=True, tag=141):
    """The sender's points, one for each of its secret bits."""

    points: bytes


class Columns(Message, frozen=True, tag=142):
    """The receiver's choices, hidden by streams."""

    rows: bytes


class Hidden(Message, frozen=True, tag=143):
    """The sender's messages, words or tables, hidden by blocks of which the receiver has some."""

    data: bytes


class Sums(Message, frozen=True, tag=144):
    """For each level of each tree the xors of its nodes on either side, hidden likewise."""

    blocks: bytes


class Tweak(Message, frozen=True, tag=145):
    """The next tweak that the sender of this message has not used."""

    number: int


def receiver(channel: Channel, rng: Generator | None = None) -> ot.Receiver:
    """The end that chooses; the other party calls `sender`."""
    invitation = ot.invite(rng)
    channel.send(Offer(invitation.message))
    return invitation.receiver(_recv(channel, Answer, base.ANSWER_BYTES).points)


def sender(channel: Channel, rng: Generator | None = None) -> ot.Sender:
    """The end that gets both blocks; the other party calls `receiver`."""
    reply, end = ot.join(_recv(channel, Offer, base.OFFER_BYTES).points, rng)
    channel.send(Answer(reply))
    return end


def send_pairs(channel: Channel, end: ot.Sender, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> None:
    """Send one of two rows of bytes in each transfer: that of `first` for choice 0, of `second` for choice 1."""
    zeros, ones = send_random(channel, end, len(first))
    channel.send(Hidden(transfers.hide_pairs(end.session, zeros, ones, first, second)))


def receive_chosen(channel: Channel, end: ot.Receiver, choices: ArrayLike, width: int) -> NDArray[np.uint8]:
    """The chosen rows of `width` bytes."""
    blocks = receive_random(channel, end, choices)
    message = _recv(channel, Hidden, 2 * len(blocks) * width).data
    return transfers.open_chosen(end.session, choices, blocks, message, width)


def send_correlated(channel: Channel, end: ot.Sender, differences: Words, bits: Bits = 64) -> Words:
    """Random words x; the receiver gets x + choice · difference."""
    kept, message = transfers.correlate(*send_random(channel, end, len(differences)), differences, bits)
    channel.send(Hidden(message))
    return kept


def receive_correlated(channel: Channel, end: ot.Receiver, choices: ArrayLike, bits: Bits = 64) -> Words:
    """The words x + choice · difference."""
    blocks = receive_random(channel, end, choices)
    message = _recv(channel, Hidden, len(blocks) * word_bytes(bits)).data
    return transfers.correlated(choices, blocks, message, bits)


def send_tables(channel: Channel, end: ot.Sender, entries: Words, width: int = 8) -> None:
    """Offer tables of 2^L entries, in an array of shape (tables, 2^L); of each entry the low `width` bytes."""
    tables, size = entries.shape
    bits = size.bit_length() - 1
    if size != 1 << bits or not 1 <= bits <= one_of_many.MOST_BITS:
        raise ValueError(f"a table has a power of two of entries, up to 2^{one_of_many.MOST_BITS}, got {size}")
    zeros, ones = (blocks.reshape(tables, bits, 2) for blocks in send_random(channel, end, tables * bits))
    channel.send(Hidden(one_of_many.hide_tables(end.session, zeros, ones, entries, width)))


def receive_entries(channel: Channel, end: ot.Receiver, indices: ArrayLike, bits: int, width: int = 8) -> Words:
    """The entry of each table at its index, of `bits` bits; modulo 2^(8·width)."""
    blocks = receive_random(channel, end, one_of_many.index_bits(indices, bits)).reshape(-1, bits, 2)
    message = _recv(channel, Hidden, len(blocks) * width << bits).data
    return one_of_many.open_entries(end.session, indices, blocks, message, width)


def make_trees(channel: Channel, end: ot.Sender, count: int, depth: int, keep: Keep | None = None) -> Trees:
    """Make `count` trees of 2^depth leaves; the other party calls `hold_trees`.

    Args:
        keep: is called with the leaves of each block of trees, and which trees these are.
    """
    seeds = np.empty((2, count, 2), dtype=np.uint64)
    for part in _blocks(count, depth):
        size = part.stop - part.start
        message = _recv(channel, Columns, punctured.request_bytes(size, depth)).rows
        trees, leaves, reply = punctured.answer(end, message, size, depth)
        channel.send(Sums(reply))
        seeds[:, part] = trees.seeds
        if keep is not None:
            keep(part, leaves)
    return Trees(end.session, depth, seeds)


def hold_trees(
    channel: Channel, end: ot.Receiver, holes: NDArray[np.int64], depth: int, keep: Keep | None = None
) -> PuncturedTrees:
    """Hold trees of 2^depth leaves without the leaf `holes[i]` of tree i. `keep` is as in `make_trees`.

    The request for the next block is sent before the answer to the last one is awaited, so that both parties work.
    """
    siblings = np.empty((depth, len(holes), 2), dtype=np.uint64)

    def receive(part: slice, chosen: Blocks) -> None:
        message = _recv(channel, Sums, punctured.answer_bytes(part.stop - part.start, depth)).blocks
        trees, leaves = punctured.finish(end.session, holes[part], depth, chosen, message)
        siblings[:, part] = trees.siblings
        if keep is not None:
            keep(part, leaves)

    waiting: tuple[slice, Blocks] | None = None
    for part in _blocks(len(holes), depth):
        message, chosen = punctured.request(end, holes[part], depth)
        channel.send(Columns(message))
        if waiting is not None:
            receive(*waiting)
        waiting = part, chosen
    if waiting is not None:
        receive(*waiting)
    return PuncturedTrees(end.session, np.asarray(holes, dtype=np.int64), siblings)


def agree(channel: Channel, counter: Counter) -> int:
    """Both parties advance to the larger of their next tweaks, which is returned: no tweak of either is used again."""
    channel.send(Tweak(counter.next))
    other = _recv(channel, Tweak, 0).number
    if not 0 <= other <= MOST_TWEAKS or other > counter.next + LEAP:
        raise PeerError(f"the other party's next tweak is {other}, this one's {counter.next}: make new trees")
    counter.advance_to(max(counter.next, other))
    return counter.next


def _blocks(count: int, depth: int) -> Iterator[slice]:
    size = punctured.block(depth)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def send_random(channel: Channel, end: ot.Sender, count: int) -> tuple[Blocks, Blocks]:
    """Two random blocks for each transfer, of which the receiver gets the one of its choice."""
    return end.extend(_recv(channel, Columns, message_bytes(count)).rows, count)


def receive_random(channel: Channel, end: ot.Receiver, choices: ArrayLike) -> Blocks:
    """The random block of each choice."""
    message, blocks = end.extend(choices)
    channel.send(Columns(message))
    return blocks


def _recv(channel: Channel, kind: type[M], size: int) -> M:
    return channel.recv(kind, size + FRAME)
