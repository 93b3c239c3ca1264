"""One of 2^L entries by L transfers of one of two: table lookups at an index that only the receiver knows.

    hide_tables(session, zeros, ones, entries, width)           the sender's message
    open_entries(session, indices, blocks, message, width)    the receiver: the entry at each index

`zeros` and `ones` have shape (tables, L, 2): transfer j of a table belongs to bit j of the index, the lowest first. The
receiver chose `index_bits(indices, L)`.

Entry e is hidden by a pad. For one bit the pads are the two blocks of its transfer. For more bits they are divided into
a low and a high half with pads of their own, a and b: the pad of e is F(b[high], e) ⊕ F(a[low], e), F the keyed
function of `fixed_key`. So a table costs about 2·2^L calls of AES, not L·2^L. A receiver that lacks a bit of e lacks
one of the two keys.

Guarantee: the receiver learns the entry at its index; the others are hidden. The sender learns nothing about it.
Assumes: what `extension` and `fixed_key` assume.
Source: Naor, Pinkas 1999 (STOC, "Oblivious transfer and polynomial evaluation"): xors of pseudo-random
    functions at the index. Their protocol with two keys of √N values each, applied to its own results.

A message of a wrong length is refused before anything is allocated for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.crypto.fixed_key import BLOCK_BYTES, Blocks, Permutation, permutation
from tacit.crypto.ot.transfers import check_length
from tacit.crypto.ot.words import Words

__all__ = ["MOST_BITS", "hide_tables", "index_bits", "open_entries", "pad_blocks"]

MOST_BITS = 16
MOST_BYTES = 1 << 28
_AT_ONCE = 1 << 14  # entries whose pads are made together


def index_bits(indices: ArrayLike, bits: int) -> NDArray[np.uint8]:
    """The choices of all transfers, end to end: the bits of each index, the lowest first."""
    numbers = np.asarray(indices, dtype=np.int64)
    if not 1 <= bits <= MOST_BITS:
        raise ValueError(f"an index has 1 to {MOST_BITS} bits, got {bits}")
    if numbers.ndim != 1 or (len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < 1 << bits):
        raise ValueError(f"indices are one list of numbers below {1 << bits}")
    return (numbers[:, None] >> np.arange(bits) & 1).astype(np.uint8).reshape(-1)


def pad_blocks(bits: int) -> int:
    """How many blocks are hashed for the pads of a table of 2^bits entries, with those of its halves."""
    return 0 if bits == 1 else (2 << bits) + pad_blocks(bits // 2) + pad_blocks(bits - bits // 2)


def hide_tables(session: bytes, zeros: Blocks, ones: Blocks, entries: Words, width: int) -> bytes:
    """The sender's message: the low `width` bytes (at most 8) of all `entries`, an array of shape (tables, 2^L)."""
    tables, bits, _ = zeros.shape
    if entries.shape != (tables, 1 << bits):
        raise ValueError(f"{tables} tables of {bits} bits have shape {(tables, 1 << bits)}, got {entries.shape}")
    check_size(tables, 1 << bits, width)
    chain = permutation(session, "pads of tables")
    keys = np.stack([zeros, ones], axis=2)
    message = np.empty((tables, 1 << bits, width), dtype=np.uint8)
    step = max(1, _AT_ONCE >> bits)
    for start in range(0, tables, step):
        part = slice(start, start + step)
        hidden = _pads(chain, keys[part])[..., 0] ^ entries[part]
        message[part] = hidden.view(np.uint8).reshape(-1, 1 << bits, 8)[..., :width]
    return message.tobytes()


def open_entries(session: bytes, indices: ArrayLike, blocks: Blocks, message: bytes, width: int) -> Words:
    """The entry at each index, modulo 2^(8·width); `blocks` has shape (tables, L, 2)."""
    tables, bits, _ = blocks.shape
    check_size(tables, 1 << bits, width)
    check_length(message, tables * width << bits, f"{tables} tables of {1 << bits} entries of {width} bytes")
    numbers = np.asarray(indices, dtype=np.int64)
    hidden = np.frombuffer(message, dtype=np.uint8).reshape(tables, 1 << bits, width)
    entries = np.zeros((tables, 8), dtype=np.uint8)
    entries[:, :width] = hidden[np.arange(tables), numbers]
    pads = _pad(permutation(session, "pads of tables"), blocks, numbers.astype(np.uint64))[:, 0]
    found: Words = entries.view("<u8")[:, 0] ^ pads
    return found & np.uint64((1 << 8 * width) - 1)


def check_size(tables: int, size: int, width: int) -> None:
    """ValueError for a width that is not 1 to 8 bytes, or a message that is too long."""
    if not 1 <= width <= BLOCK_BYTES // 2:
        raise ValueError(f"an entry has 1 to {BLOCK_BYTES // 2} bytes, got {width}")
    if tables * size * width > MOST_BYTES:
        raise ValueError(f"{tables} tables of {size} entries are too many for one message: look up in blocks")


def _pads(chain: Permutation, keys: Blocks) -> Blocks:
    """The pads of all entries; `keys` has shape (tables, bits, 2 choices, 2)."""
    tables, bits, _, _ = keys.shape
    if bits == 1:
        return keys[:, 0]
    low, high = _pads(chain, keys[:, : bits // 2]), _pads(chain, keys[:, bits // 2 :])
    shape = (tables, high.shape[1], low.shape[1], 2)
    numbers = np.arange(high.shape[1] * low.shape[1], dtype=np.uint64).reshape(shape[1:3])
    pads = chain.keyed(np.broadcast_to(high[:, :, None], shape), numbers)
    pads ^= chain.keyed(np.broadcast_to(low[:, None], shape), numbers)
    return pads.reshape(tables, -1, 2)


def _pad(chain: Permutation, blocks: Blocks, numbers: NDArray[np.uint64]) -> Blocks:
    """The pad of one entry of each table, from the blocks of its bits."""
    bits = blocks.shape[1]
    if bits == 1:
        return blocks[:, 0]
    half = bits // 2
    low = _pad(chain, blocks[:, :half], numbers & np.uint64((1 << half) - 1))
    high = _pad(chain, blocks[:, half:], numbers >> np.uint64(half))
    return chain.keyed(high, numbers) ^ chain.keyed(low, numbers)
