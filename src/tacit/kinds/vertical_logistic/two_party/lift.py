"""Low bits of a shared number are dropped, and the rest becomes shares of a larger ring: exact, by one transfer a word.

    dropped(share, bits, places, second)           a party's share modulo 2^(bits - places), without a message
    lift_first(channel, end, share, bits)          shares modulo 2^bits become shares modulo 2^64: the sender
    lift_second(channel, end, share, bits)         the other party

The first party rounds its share down, the second one up: the sum is the quotient or one of its neighbours, off by less
than one unit, and right in expectation for uniform shares. Nothing wraps, as the ring shrinks with the number.

A value below 2^(bits-2) in absolute terms, plus 2^(bits-2), is below 2^(bits-1). So its two shares, as integers, add up
to it if the top bit of both is 0, and to 2^bits more otherwise: one OR of a bit of either party, which a correlated
transfer shares modulo 2^64.

Guarantee: the second party receives uniform words, the first one the columns of random transfers. No error beyond the
    rounding, for values within the bound: nothing fails with some probability, as local truncation does.
Assumes: what `tacit.crypto.ot` assumes; the bound.
Source: the OR of two bits is the carry for a known top bit: Rathee et al. 2021 (SIRNN), and Huang, Lu, Hong,
    Ding 2022 (Cheetah).
"""

from __future__ import annotations

import numpy as np

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto import ot
from tacit.crypto.ot.words import Words

__all__ = ["dropped", "lift_first", "lift_second"]

_AT_ONCE = 1 << 18  # words of one message


def dropped(share: Words, bits: int, places: int, *, second: bool) -> Words:
    """This party's share of a number modulo 2^bits, divided by 2^places: modulo 2^(bits - places)."""
    if not 0 <= places < bits <= 64:
        raise ValueError(f"0 to {bits - 1} of {bits} bits are dropped, got {places}")
    shift = np.uint64(places)
    low = _cut(np.uint64(0) - share, bits) if second else _cut(share, bits)
    return _cut(np.uint64(0) - (low >> shift), bits - places) if second else np.asarray(low >> shift)


def lift_first(channel: Channel, end: ot.Sender, share: Words, bits: int) -> Words:
    """The sender's shares modulo 2^64 of values below 2^(bits-2), from shares modulo 2^bits."""
    if bits >= 64:
        return share
    half = np.uint64(1 << (bits - 2))
    moved = _cut(share + half, bits)
    top = (moved >> np.uint64(bits - 1)).reshape(-1)
    place = np.uint64(bits)
    carry = np.empty(top.shape, dtype=np.uint64)
    for part in _parts(len(top)):
        differences = (np.uint64(1) - top[part]) << place
        carry[part] = (top[part] << place) - oblivious.send_correlated(channel, end, differences)
    return np.asarray(moved - half - carry.reshape(share.shape))


def lift_second(channel: Channel, end: ot.Receiver, share: Words, bits: int) -> Words:
    """The same at the receiver."""
    if bits >= 64:
        return share
    low = _cut(share, bits)
    top = (low >> np.uint64(bits - 1)).reshape(-1)
    carry = np.empty(top.shape, dtype=np.uint64)
    for part in _parts(len(top)):
        carry[part] = oblivious.receive_correlated(channel, end, top[part])
    return np.asarray(low - carry.reshape(share.shape))


def _parts(count: int) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE)]


def _cut(words: Words, bits: int) -> Words:
    return words if bits == 64 else np.asarray(words & np.uint64((1 << bits) - 1))
