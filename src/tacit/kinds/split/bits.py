"""Bits, eight a byte: packing, unpacking, and random flips that are drawn packed.

pack(values)                        whether each value is above 0
unpack(packed, count)               the same as 0 and 1
packed_bernoulli(p, count, rng)     `count` independent bits that are 1 with probability p, rounded up to 40 digits

A flip needs no number of its own. The comparison of a uniform number with p, digit by digit, is one AND or OR; done on
words it draws 64 flips at once, from one random word a digit of p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.crypto.prg import KEY_BYTES, add_mask
from tacit.dp.noise import Probability
from tacit.randomness import random_words

Packed = NDArray[np.uint8]

DIGITS = 40  # of a probability: rounding up changes it by less than 2^-40
_WORDS = 4096  # drawn together: with all digits 1.25 MiB
_VALUES = 1 << 17  # compared together: their booleans stay in the cache


def packed_size(count: int) -> int:
    """Bytes that hold `count` bits."""
    return -(-count // 8)


def pack(values: NDArray[Any]) -> Packed:
    """Whether each value is above 0, eight bits a byte, the first one lowest. NaN is not above 0."""
    flat = values.reshape(-1)
    packed = np.empty(packed_size(flat.size), dtype=np.uint8)
    above = np.empty(min(_VALUES, flat.size), dtype=np.bool_)
    for start in range(0, flat.size, _VALUES):
        part = flat[start : start + _VALUES]
        np.greater(part, 0, out=above[: part.size])
        packed[start // 8 : packed_size(start + part.size)] = np.packbits(above[: part.size], bitorder="little")
    return packed


def unpack(packed: Packed, count: int) -> Packed:
    """The first `count` bits, one a byte."""
    if packed.size != packed_size(count):
        raise ValueError(f"{count} bits are {packed_size(count)} bytes, got {packed.size}")
    return np.unpackbits(packed, count=count, bitorder="little")


def packed_bernoulli(probability: Probability, count: int, rng: Generator) -> Packed:
    """`count` independent bits, each 1 with `probability` rounded up to a multiple of 2^-40; the rest of a byte is 0.

    Guarantee: where flips protect bits and `probability` is at most one half, rounding up only protects more.
    Assumes: AES-128 is a pseudo-random permutation; each stretch of 262,144 bits has a key of its own from `rng`.
    """
    digits = _digits(probability)
    words = -(-count // 64)
    flips = np.empty(words, dtype="<u8")
    for start in range(0, words, _WORDS):
        _draw(flips[start : start + _WORDS], digits, rng)
    packed = flips.view(np.uint8)[: packed_size(count)]
    if count % 8:
        packed[-1] &= (1 << count % 8) - 1
    return packed


def _digits(probability: Probability) -> list[bool]:
    """The binary digits of the probability, rounded up, from the last 1 to the first after the point."""
    floor = probability.floor_bits(DIGITS)
    exact = probability.exponent == 0 and 2**DIGITS % (probability.offset + probability.weight) == 0
    threshold = floor if exact else floor + 1
    if threshold >> DIGITS:
        raise ValueError("a probability below 1 is needed")
    digits = [bool(threshold >> place & 1) for place in range(DIGITS)]
    return digits[digits.index(True) :]


def _draw(flips: NDArray[np.uint64], digits: list[bool], rng: Generator) -> None:
    """Whether a uniform number is below the one with these digits: the highest digit that differs decides."""
    random = np.zeros((len(digits), flips.size), dtype=np.uint64)
    add_mask(random.reshape(-1), random_words(rng, KEY_BYTES // 8).tobytes())
    flips[:] = 0
    for digit, words in zip(digits, random, strict=True):
        (np.bitwise_or if digit else np.bitwise_and)(flips, words, out=flips)
