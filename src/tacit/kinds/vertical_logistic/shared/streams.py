"""Correlated words of a step, from seeds: what every party expands, and what only the last one is sent.

A `Layout` lists the arrays of one deal. *Drawn* ones are uniform: each party's share is a part of its own stream, and
nobody is sent anything. *Made* ones are functions of the drawn values that only the dealer knows: all parties but the
last expand their shares too, and the last one is sent what is missing. So a share is always uniform, and any set of
parties that lacks one learns nothing from its shares.

A deal has a serial number, which goes into the key of each stream. Within a meeting numbers only grow, and each meeting
begins with new seeds: no word is ever used twice.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.crypto.prg import KEY_BYTES, add_mask, add_masks
from tacit.kinds.vertical_logistic.shared.ring import Halves, Words

SEED_BYTES = 32
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a deal, by name; those of `halves` are made of 32-bit words."""

    drawn: Mapping[str, Shape]
    made: Mapping[str, Shape]
    halves: Mapping[str, Shape]

    @property
    def drawn_words(self) -> int:
        return sum(map(math.prod, self.drawn.values()))

    @property
    def made_words(self) -> int:
        """64-bit words of what is made: those of 64 bits, then those of 32, two to a word."""
        return self.whole_words + -(-sum(map(math.prod, self.halves.values())) // 2)

    @property
    def whole_words(self) -> int:
        return sum(map(math.prod, self.made.values()))


@dataclass(frozen=True, slots=True)
class Shares:
    """One party's shares of a deal. Take each array once."""

    serial: int
    words: dict[str, Words]
    halves: dict[str, Halves]


def stream_key(seed: bytes, serial: int) -> bytes:
    """The key of one party's stream for one deal."""
    return hmac.digest(seed, b"tacit shared deal" + serial.to_bytes(8, "big"), "sha256")[:KEY_BYTES]


def stream(seed: bytes, serial: int, count: int) -> Words:
    """Uniform words: a party's share of what has been drawn."""
    words = np.zeros(count, dtype=np.uint64)
    if count:
        add_mask(words, stream_key(seed, serial))
    return words


def expand(layout: Layout, seed: bytes, serial: int, sent: Words | None) -> Shares:
    """A party's shares: all from its stream, or what is made from `sent`."""
    if sent is None:
        words = stream(seed, serial, layout.drawn_words + layout.made_words)
        drawn, made = words[: layout.drawn_words], words[layout.drawn_words :]
    else:
        drawn, made = stream(seed, serial, layout.drawn_words), sent
    halves = made[layout.whole_words :].view(np.uint32)
    return Shares(serial, {**_cut(drawn, layout.drawn), **_cut(made, layout.made)}, _cut(halves, layout.halves))


def drawn_values(layout: Layout, seeds: Sequence[bytes], serial: int) -> dict[str, Words]:
    """At the dealer: what the parties' shares of the drawn arrays add up to."""
    words = np.zeros(layout.drawn_words, dtype=np.uint64)
    if len(words):
        add_masks(words, [(stream_key(seed, serial), 1) for seed in seeds])
    return _cut(words, layout.drawn)


def room(layout: Layout) -> tuple[Words, dict[str, Words], dict[str, Halves]]:
    """At the dealer: a buffer for the made arrays, and a view of each to write its values to."""
    buffer = np.zeros(layout.made_words, dtype=np.uint64)
    halves = buffer[layout.whole_words :].view(np.uint32)
    return buffer, _cut(buffer, layout.made), _cut(halves, layout.halves)


def missing(buffer: Words, layout: Layout, seeds: Sequence[bytes], serial: int) -> Words:
    """At the dealer: turn the made values into the last party's shares, in place. `seeds` are all but the last."""
    keys = [(stream_key(seed, serial), -1) for seed in seeds]
    whole = buffer[: layout.whole_words]
    if len(whole):
        add_masks(whole, keys, first_column=layout.drawn_words)
    halves = buffer[layout.whole_words :].view(np.uint32)
    if len(halves):
        add_masks(halves, keys, first_column=2 * (layout.drawn_words + layout.whole_words))
    return buffer


def _cut(words: np.ndarray, shapes: Mapping[str, Shape]) -> dict[str, np.ndarray]:
    parts, first = {}, 0
    for name, shape in shapes.items():
        parts[name] = words[first : first + math.prod(shape)].reshape(shape)
        first += math.prod(shape)
    return parts
