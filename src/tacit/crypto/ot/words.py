"""Words modulo 2^64 and 2^128 as numpy arrays: the latter have a last axis of length 2, the low half first."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bits", "Words", "add", "cut", "negative", "subtract", "total", "word_bytes"]

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


def total(words: Words, bits: Bits) -> Words:
    """The sum over the second axis."""
    if word_bytes(bits) == 8:
        sums: Words = words.sum(axis=1, dtype=np.uint64)
        return sums
    result = np.zeros((words.shape[0], *words.shape[2:]), dtype=np.uint64)
    for column in range(words.shape[1]):
        result = add(result, words[:, column], bits)
    return result
