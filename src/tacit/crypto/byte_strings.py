"""Byte strings: joined so that no two lists of parts give the same bytes, and drawn at random.

frame(*parts)             the parts, each behind its length
random_bytes(rng, count)  uniform bytes from `rng`, or from the operating system

What is hashed, signed or authenticated goes through `frame`, or is made of parts of fixed length.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator

_LENGTH_BYTES = 8
_LENGTHS = [length.to_bytes(_LENGTH_BYTES, "big") for length in range(256)]  # nearly all parts are as short


def frame(*parts: bytes) -> bytes:
    """The parts in order, each behind its length as 8 big-endian bytes.

    Guarantee: different lists of parts give different bytes, so that none can pass for another in a hash, a signature
        or associated data.
    """
    return b"".join([piece for part in parts for piece in (_length(part), part)])


def _length(part: bytes) -> bytes:
    size = len(part)
    return _LENGTHS[size] if size < len(_LENGTHS) else size.to_bytes(_LENGTH_BYTES, "big")


def random_bytes(rng: Generator | None, count: int) -> bytes:
    """`count` uniform bytes; without an `rng` from the operating system."""
    if rng is None:
        return os.urandom(count)
    from tacit.randomness import random_words  # with numpy, which commands that only handle keys do without

    return random_words(rng, -(-count // 8)).tobytes()[:count]
