"""What leader and followers send each other.

    Offer           what each side will do and how its part of the cut looks; both compare
    Start           where to begin, by the leader
    Activations     forward across the cut: floats, or bits, eight a byte
    Gradient        backward: floats, or 8 bits with a scale for each record
    Reached         a point that all have reached, after which each saves its own part

A tensor's shape and type travel with it, and are compared with what was announced before anything is made of it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tacit.wire import Finite, Message

Whole = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Shape = Annotated[tuple[Annotated[int, msgspec.Meta(ge=1, le=1 << 31)], ...], msgspec.Meta(max_length=7)]
Steps = Annotated[tuple[Whole, ...], msgspec.Meta(max_length=4)]
Word = Annotated[str, msgspec.Meta(max_length=16)]
OVERHEAD = 256  # bytes of a message without its body, at most
OFFER = 4096  # bytes of an Offer, at most


class Offer(Message, frozen=True, tag=90):
    purpose: Word  # train or predict
    topology: Word
    records: Whole  # 0 if this party has none of its own
    test_records: Whole
    batch: Whole
    steps: Whole  # of an epoch
    total_steps: Whole
    cut: Shape  # of one record's activations on their way to the next part of the network
    back_cut: Shape  # topology U: of one record's activations on their way back; empty in V
    dtype: Word
    eps: Finite | None  # of EmbeddingDP
    quantized: bool  # whether activations cross as bits
    reached: Steps  # the points at which this party has saved its part


class Start(Message, frozen=True, tag=91):
    step: Whole
    records: Whole
    test_records: Whole


class Activations(Message, frozen=True, tag=92):
    step: Whole
    shape: Shape
    dtype: Word
    body: bytes


class Gradient(Message, frozen=True, tag=93):
    step: Whole
    shape: Shape
    dtype: Word
    scales: bytes
    body: bytes


class Reached(Message, frozen=True, tag=94):
    step: Whole
