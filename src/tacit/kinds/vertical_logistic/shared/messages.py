"""What the parties of a regression on shares and their dealer send each other. Bulk data are one byte string each."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tacit.wire import Message

Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Session = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
MARK_BYTES = 8
Mark = Annotated[bytes, msgspec.Meta(max_length=MARK_BYTES)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]

HEAD = 256  # bytes of a message without its bulk data, at most
WEIGHTS, RELEASED, LOSS, RANKS, COUNTS = 1, 2, 1001, 1002, 1003  # stages of declared openings; one of counts an output


class Greeting(Message, frozen=True, tag=120):
    """To all others: what this party brings. The terms and the past must be the same."""

    agreed: Digest
    columns: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
    positions: Annotated[tuple[Size, ...], msgspec.Meta(min_length=1, max_length=8)]  # steps that it can begin after
    session: Annotated[bytes, msgspec.Meta(max_length=16)] = b""  # of the training that is resumed
    marks: Annotated[tuple[Mark, ...], msgspec.Meta(max_length=8)] = ()  # of the shares kept of each of these steps


class Seeds(Message, frozen=True, tag=121):
    """From the dealer: the number of this meeting, and what this party's shares are expanded from. Never kept."""

    session: Session
    seed: Digest


class Deal(Message, frozen=True, tag=122):
    """From the dealer: a new set of correlated words. All but the last party expand theirs and are sent no words."""

    serial: Size
    purpose: Size
    words: bytes


class Opening(Message, frozen=True, tag=123):
    """Between data parties: the sender's share of a masked value, under this deal's masks."""

    serial: Size
    stage: Size
    words: bytes


class Used(Message, frozen=True, tag=124):
    """To the dealer: the deal is used up; the last one, if the training ends here."""

    serial: Size
    last: bool = False


class Verdict(Message, frozen=True, tag=125):
    """From the active, after figures: whether these weights are the best so far, and whether the training ends."""

    serial: Size
    best: bool
    last: bool


class Revealed(Message, frozen=True, tag=126):
    """The sender's share of a value that the file declares to be opened to the receiver, and to nobody else."""

    serial: Size
    stage: Size
    words: bytes


class Groups(Message, frozen=True, tag=127):
    """From the active, within figures: which buckets of scores end a group, as bytes 0 and 1."""

    serial: Size
    ends: bytes


class Sizes(Message, frozen=True, tag=128):
    """From the active to all others, before they meet: what follows from its rows and its labels.

    `thresholds`: of a prediction, in units of 2^-20: what scores are compared with.
    """

    rows: Size
    outputs: Annotated[int, msgspec.Meta(ge=1, le=100)]
    thresholds: Annotated[tuple[int, ...], msgspec.Meta(max_length=64)] = ()
