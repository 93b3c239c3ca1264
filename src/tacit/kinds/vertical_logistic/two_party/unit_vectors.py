"""Shares of vectors that are zero but at one place, which is the sum of an index of either party: a histogram.

    count_first(channel, end, places, values, size)    the sender: its shares of the sum over all rows
    count_second(channel, end, places, size)           the receiver

For each row the sender has an index and a value, the receiver an index; the sum of all rows' vectors, each with the
value at the sum of both indices modulo `size`, comes out as shares. The sender begins with a vector that it knows.
For each bit of its index the receiver turns the vector by that power of two or leaves it. Its own share it turns
itself; of the sender's share V it gets, by one transfer, V or V turned, minus the sender's new share. The pad of choice
0 gives the sender's new share, so that only what choice 1 takes is sent: one vector for each bit.

Guarantee: the receiver sees uniform words, the sender the columns of random transfers.
Assumes: what `tacit.crypto.ot` and `tacit.crypto.fixed_key` assume.
Source: the turned vector by bits is a barrel shifter; random transfers with one correction: Asharov, Lindell,
    Schneider, Zohner 2013.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto import ot
from tacit.crypto.fixed_key import Blocks, permutation
from tacit.crypto.ot.one_of_many import index_bits
from tacit.crypto.ot.transfers import check_length
from tacit.oblivious import FRAME, Hidden

__all__ = ["count_first", "count_second"]

Vectors = NDArray[Any]  # of uint32 or uint64
Indices = NDArray[np.int64]
_AT_ONCE = 1 << 19  # words of the rows of one message, for each bit


def count_first(channel: Channel, end: ot.Sender, places: Indices, values: Vectors, size: int) -> Vectors:
    """The sender's shares of the sum over rows: (size,) words of the type of `values`."""
    bits, total = _bits(size), np.zeros(size, dtype=values.dtype)
    for part in _parts(len(places), size):
        count = part.stop - part.start
        zeros, ones = (each.reshape(count, bits, 2) for each in oblivious.send_random(channel, end, count * bits))
        vectors = np.zeros((count, size), dtype=values.dtype)
        vectors[np.arange(count), places[part] % size] = values[part]
        sent = np.empty((bits, count, size), dtype=values.dtype)
        for bit in range(bits):
            pads = [_pads(end.session, each[:, bit], size, values.dtype) for each in (zeros, ones)]
            turned = np.roll(vectors, 1 << bit, axis=1)
            vectors -= pads[0]
            sent[bit] = turned - vectors - pads[1]
        channel.send(Hidden(sent.astype(sent.dtype.newbyteorder("<")).tobytes()))
        total += vectors.sum(axis=0, dtype=values.dtype)
    return total


def count_second(channel: Channel, end: ot.Receiver, places: Indices, size: int, dtype: Any) -> Vectors:
    """The receiver's shares of the sum over rows."""
    bits, total, word = _bits(size), np.zeros(size, dtype=dtype), np.dtype(dtype).newbyteorder("<")
    for part in _parts(len(places), size):
        count = part.stop - part.start
        choices = index_bits(places[part] % size, bits)
        blocks = oblivious.receive_random(channel, end, choices).reshape(count, bits, 2)
        length = bits * count * size * word.itemsize
        message = channel.recv(Hidden, length + FRAME).data
        check_length(message, length, f"{count} vectors of {size} words for {bits} bits")
        sent = np.frombuffer(message, dtype=word).reshape(bits, count, size)
        chosen = choices.reshape(count, bits).astype(bool)
        vectors = np.zeros((count, size), dtype=dtype)
        for bit in range(bits):
            one = chosen[:, bit, None]
            vectors = np.where(one, np.roll(vectors, 1 << bit, axis=1) + sent[bit], vectors)
            vectors += _pads(end.session, blocks[:, bit], size, dtype)
        total += vectors.sum(axis=0, dtype=dtype)
    return total


def _bits(size: int) -> int:
    if size < 4 or size & (size - 1):
        raise ValueError(f"vectors have a power of two of words, 4 or more, got {size}")
    return size.bit_length() - 1


def _parts(rows: int, size: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // size)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _pads(session: bytes, blocks: Blocks, size: int, dtype: Any) -> Vectors:
    """A pseudo-random vector of each block."""
    count = -(-size * np.dtype(dtype).itemsize // 16)
    keys = np.broadcast_to(blocks[:, None], (len(blocks), count, 2))
    made = permutation(session, "pads of vectors").keyed(keys, np.arange(count, dtype=np.uint64))
    return np.asarray(made.view(dtype).reshape(len(blocks), -1)[:, :size])
