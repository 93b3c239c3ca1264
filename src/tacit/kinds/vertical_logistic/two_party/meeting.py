"""One meeting of two parties without a dealer: they compare terms, make transfers in both directions, and then trees.

    meet(channel, terms, me, ...)     a party's `Link`: with whom, from which step on, and both ends of transfers

The active is the first party: it sends tables and rounds down. Everything here lives in memory and as long as the
meeting: after an interruption the parties meet again with new transfers, new trees and a new session, so no block, word
or tweak of an earlier one can come again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto import ot
from tacit.crypto.byte_strings import frame
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.meeting import Agreement, greet
from tacit.kinds.vertical_logistic.shared.messages import HEAD, MARK_BYTES, Revealed
from tacit.kinds.vertical_logistic.shared.progress import Past
from tacit.kinds.vertical_logistic.shared.ring import Words
from tacit.kinds.vertical_logistic.two_party import cell_trees, lift
from tacit.kinds.vertical_logistic.two_party.cell_trees import Held, Made
from tacit.randomness import secure_rng

SESSION_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A party's end of the meeting.

    Args:
        first: whether this is the active.
        own: which of all weights are those of this party's columns.
        others: which are the other party's.
        session: of the training.
        token: of this meeting; both parties contributed to it, and no other meeting has it.
    """

    channel: Channel
    me: str
    other: str
    first: bool
    columns: Mapping[str, int]
    own: slice
    others: slice
    position: int
    session: bytes
    token: bytes
    sender: ot.Sender
    receiver: ot.Receiver
    rng: Generator

    def mark(self, step: int) -> bytes:
        """What the shares after a step of this meeting have in common, and no other shares of that step."""
        return hashlib.sha256(frame(b"step", self.token, step.to_bytes(8, "big"))).digest()[:MARK_BYTES]

    def lifted(self, share: Words, bits: int, places: int) -> Words:
        """Shares modulo 2^64 of a number modulo 2^bits divided by 2^places; it must be below 2^(bits-2)."""
        low = lift.dropped(share, bits, places, second=not self.first)
        if self.first:
            return lift.lift_first(self.channel, self.sender, low, bits - places)
        return lift.lift_second(self.channel, self.receiver, low, bits - places)

    def give(self, words: Any, stage: int) -> None:
        """Send this party's share of a value that is declared for the other one."""
        self.channel.send(Revealed(0, stage, ring.to_bytes(words)))

    def take(self, share: Any, stage: int) -> Any:
        """Add the other party's share to that of a value that is declared for this one."""
        width = share.dtype.itemsize
        message = self.channel.recv(Revealed, HEAD + width * math.prod(share.shape))
        if message.stage != stage:
            raise PeerError(f"{self.other} sent the opening {message.stage}, and {stage} is due: start both again")
        what = f"opening {stage}"
        return share + ring.from_bytes(message.words, share.shape, self.other, what, halves=width == 4)


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Both tables in a meeting: this party's features, the trees that it holds of them, and those that it made."""

    link: Link
    features: Words
    held: Held
    made: Made

    def scores(self, rows: Rows, weights: Words, width: int, places: int) -> Words:
        """Shares of Xw + intercept, from shares of all weights, the intercept last; modulo 2^(8·width).

        The active sends its words first, so that the passive can send its own together with what it looks up.
        """
        link, outputs = self.link, weights.shape[1]
        found = self.features[rows] @ weights[link.own] + (weights[-1] << np.uint64(places))
        if link.first:
            found += self.made.scores(rows, weights[link.others], width)
        found += self.held.scores(rows, width, outputs)
        if not link.first:
            found += self.made.scores(rows, weights[link.others], width)
        return np.asarray(found)

    def gradient(self, rows: Rows, residues: Words, width: int) -> Words:
        """Shares of Xᵀr of all columns, from shares of residues; modulo 2^(8·width)."""
        link, outputs = self.link, residues.shape[1]
        found = np.zeros((sum(link.columns.values()), outputs), dtype=np.uint64)
        found[link.own] = np.einsum("nd,nk->dk", self.features[rows], residues)
        if link.first:
            found[link.others] += self.made.gradient(rows, residues, width)
        found[link.own] += self.held.gradient(rows, width, outputs)
        if not link.first:
            found[link.others] += self.made.gradient(rows, residues, width)
        return found


def meet(
    channels: Mapping[str, Channel],
    terms: Agreement,
    me: str,
    columns: int,
    past: Past | None = None,
    rng: Generator | None = None,
) -> Link:
    """Compare terms and past with the other party, and make both ends of transfers; see `shared.meeting.meet`."""
    if len(terms.parties) != 2 or terms.dealer:
        raise ValueError(f"this protocol is for two parties without a dealer, got {', '.join(terms.parties)}")
    past = past or Past()
    position, found = greet(channels, terms, me, columns, past)
    (other,) = (name for name in terms.parties if name != me)
    channel, first = channels[other], me == terms.active
    if first:
        sender, receiver = oblivious.sender(channel, rng), oblivious.receiver(channel, rng)
        names = sender.session, receiver.session
    else:
        receiver, sender = oblivious.receiver(channel, rng), oblivious.sender(channel, rng)
        names = receiver.session, sender.session
    token = hashlib.sha256(frame(b"meeting of two parties", *names)).digest()
    width = found[terms.parties[0]]
    slices = {terms.parties[0]: slice(0, width), terms.parties[1]: slice(width, sum(found.values()))}
    return Link(
        channel,
        me,
        other,
        first,
        found,
        slices[me],
        slices[other],
        position,
        past.session if past.session and position else token[:SESSION_BYTES],
        token,
        sender,
        receiver,
        secure_rng() if rng is None else rng,
    )


def share_tables(link: Link, features: NDArray[np.int64]) -> Tables:
    """Make the trees of both tables: first those of the passive's."""
    rows, others = len(features), link.columns[link.other]
    if link.first:
        made = cell_trees.make(link.channel, link.sender, rows, others)
        held = cell_trees.hold(link.channel, link.receiver, features)
    else:
        held = cell_trees.hold(link.channel, link.receiver, features)
        made = cell_trees.make(link.channel, link.sender, rows, others)
    return Tables(link, features.view(np.uint64), held, made)
