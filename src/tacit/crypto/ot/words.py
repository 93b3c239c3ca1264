"""Words modulo 2^64 and 2^128 as numpy arrays: the latter have a last axis of length 2, the low half first."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bits",
    "Words",
    "add",
    "cut",
    "low_bytes",
    "negative",
    "of_low_bytes",
    "shifted",
    "subtract",
    "times",
    "total",
    "word_bytes",
]

Words = NDArray[np.uint64]
Bits = Literal[64, 128]


def word_bytes(bits: Bits) -> int:
    """The bytes of a word. ValueError for a width that is neither 64 nor 128."""
    if bits not in (64, 128):
        raise ValueError(f"words have 64 or 128 bits, got {bits}")
    return bits // 8


def cut(blocks: Words, bits: Bits) -> Words:
    """Blocks of 128 bits as words: their low halves, or as they are."""
    return blocks[..., 0] if word_bytes(bits) == 8 else blocks


def low_bytes(words: Words, width: int) -> bytes:
    """The low `width` bytes of each 64-bit word, as they cross: shares modulo 2^(8·width)."""
    _check_width(width)
    return np.ascontiguousarray(words, dtype="<u8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def of_low_bytes(data: bytes, width: int) -> Words:
    """The words below 2^(8·width) that `low_bytes` wrote."""
    _check_width(width)
    words = np.zeros((len(data) // width, 8), dtype=np.uint8)
    words[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return words.view("<u8")[:, 0]


def add(one: Words, other: Words, bits: Bits) -> Words:
    """The sum of two arrays of words."""
    result = np.add(one, other)
    if word_bytes(bits) == 16:
        result[..., 1] += result[..., 0] < np.asarray(other)[..., 0]  # the carry
    return result


def subtract(one: Words, other: Words, bits: Bits) -> Words:
    """The difference of two arrays of words."""
    result = np.subtract(one, other)
    if word_bytes(bits) == 16:
        result[..., 1] -= np.asarray(one)[..., 0] < np.asarray(other)[..., 0]  # the borrow
    return result


def negative(words: Words, bits: Bits) -> Words:
    """The words whose sum with `words` is zero."""
    return subtract(np.zeros_like(words), words, bits)


def total(words: Words, bits: Bits, axis: int = 1) -> Words:
    """The sum over one axis, of at most 2^32 words."""
    if word_bytes(bits) == 8:
        sums: Words = words.sum(axis=axis, dtype=np.uint64)
        return sums
    # Four limbs of 32 bits do not overflow in words of 64; what is above 32 bits goes to the next limb.
    limbs = np.ascontiguousarray(words, dtype="<u8").view(np.uint32).sum(axis=axis, dtype=np.uint64)
    for place in range(3):
        limbs[..., place + 1] += limbs[..., place] >> np.uint64(32)
    return np.ascontiguousarray(limbs.astype(np.uint32)).view("<u8")


def shifted(words: Words, places: int, bits: Bits) -> Words:
    """The words times 2^places, of 0 to 63."""
    if not 0 <= places < 64:
        raise ValueError(f"words are shifted by 0 to 63 bits, got {places}")
    result: Words = words << np.uint64(places)
    if word_bytes(bits) == 16 and places:
        result[..., 1] |= words[..., 0] >> np.uint64(64 - places)
    return result


def times(words: Words, factors: NDArray[np.uint64], bits: Bits) -> Words:
    """The words times numbers below 2^32, one for each word."""
    if word_bytes(bits) == 8:
        return words * factors
    low, high = words[..., 0], words[..., 1]
    mask, half = np.uint64(2**32 - 1), np.uint64(32)
    bottom, top = (low & mask) * factors, (low >> half) * factors
    result = np.empty_like(words)
    result[..., 0] = bottom + (top << half)
    result[..., 1] = high * factors + ((top + (bottom >> half)) >> half)
    return result


def _check_width(width: int) -> None:
    if not 1 <= width <= 8:
        raise ValueError(f"1 to 8 bytes of a word are kept, got {width}")
