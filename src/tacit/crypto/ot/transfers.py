"""What is sent by oblivious transfer: chosen messages, and words with a chosen difference.

    hide_pairs(session, zeros, ones, first, second)           the sender's message: one of each pair can be opened
    open_chosen(session, choices, blocks, message, width)     the receiver: its message of each pair
    correlate(zeros, ones, differences, bits)                 the sender: random words x, and its message
    correlated(choices, blocks, message, bits)                the receiver: x + choice · difference

`zeros`, `ones` and `blocks` are what `extension` made, each used for one of these and once.

Guarantee: the receiver opens the message of its choice (or learns x + choice · difference, a uniform word); the other
    message (the difference) stays hidden. The sender receives nothing, so it learns nothing.
Assumes: what `extension` and `fixed_key` assume.
Source: Ishai, Kilian, Nissim, Petrank 2003; correlated transfers: Asharov, Lindell, Schneider, Zohner 2013.

A message of a wrong length is refused before anything is allocated for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.crypto.fixed_key import BLOCK_BYTES, Blocks, permutation
from tacit.crypto.ot.words import Bits, Words, add, cut, subtract, word_bytes
from tacit.errors import PeerError

__all__ = ["correlate", "correlated", "hide_pairs", "open_chosen"]

Texts = NDArray[np.uint8]


def hide_pairs(session: bytes, zeros: Blocks, ones: Blocks, first: Texts, second: Texts) -> bytes:
    """The sender's message. `first` and `second` have one row of bytes for each transfer, for choice 0 and choice 1."""
    if first.shape != second.shape or first.ndim != 2 or len(first) != len(zeros):
        raise ValueError(f"{len(zeros)} transfers take two arrays of as many rows, got {first.shape}, {second.shape}")
    pairs = np.stack([first, second], axis=1)
    pairs ^= np.stack([_pads(session, zeros, first.shape[1]), _pads(session, ones, first.shape[1])], axis=1)
    return pairs.tobytes()


def open_chosen(session: bytes, choices: ArrayLike, blocks: Blocks, message: bytes, width: int) -> Texts:
    """The receiver's rows of `width` bytes, one for each choice."""
    check_length(message, 2 * len(blocks) * width, f"{len(blocks)} pairs of {width} bytes")
    pairs = np.frombuffer(message, dtype=np.uint8).reshape(len(blocks), 2, width)
    picked: Texts = pairs[np.arange(len(blocks)), np.asarray(choices, dtype=np.intp)]
    picked ^= _pads(session, blocks, width)
    return picked


def correlate(zeros: Blocks, ones: Blocks, differences: Words, bits: Bits) -> tuple[Words, bytes]:
    """Random words x, and the message from which the receiver gets x + choice · difference."""
    kept = cut(zeros, bits)
    if differences.shape != kept.shape:
        raise ValueError(f"{len(zeros)} transfers take differences of shape {kept.shape}, got {differences.shape}")
    message = subtract(add(kept, differences, bits), cut(ones, bits), bits)
    return kept.copy(), message.tobytes()


def correlated(choices: ArrayLike, blocks: Blocks, message: bytes, bits: Bits) -> Words:
    """The receiver's words: x + choice · difference."""
    kept = cut(blocks, bits)
    check_length(message, len(blocks) * word_bytes(bits), f"{len(blocks)} words of {bits} bits")
    corrections = np.frombuffer(message, dtype="<u8").reshape(kept.shape)
    chosen = np.asarray(choices, dtype=np.uint64).reshape((-1,) + (1,) * (kept.ndim - 1))
    return add(kept, corrections * chosen, bits)


def check_length(message: bytes, length: int, what: str) -> None:
    """PeerError if the message has another length than that of `what`."""
    if len(message) != length:
        raise PeerError(f"a message with {what} has {length} bytes, got {len(message)}")


def _pads(session: bytes, blocks: Blocks, width: int) -> Texts:
    """`width` pseudo-random bytes from each block."""
    pads = permutation(session, "pads of pairs")
    count = -(-width // BLOCK_BYTES)
    made = pads.keyed(np.broadcast_to(blocks[:, None], (len(blocks), count, 2)), np.arange(count, dtype=np.uint64))
    return made.view(np.uint8).reshape(len(blocks), count * BLOCK_BYTES)[:, :width]
