"""Words of Z_2^64 and what they stand for: numbers in fixed point, and bytes on the wire."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PeerError
from tacit.fixedpoint import Floats

Words = NDArray[np.uint64]
Halves = NDArray[np.uint32]

LOW = np.uint64((1 << 63) - 1)  # all bits of a word but the top one


def encode(values: Any, bits: int) -> Words:
    """Numbers as multiples of 2^-bits, modulo 2^64."""
    return np.rint(np.asarray(values, dtype=np.float64) * math.ldexp(1.0, bits)).astype(np.int64).view(np.uint64)


def decode(words: Words, bits: int) -> Floats:
    """The numbers, from -2^(63-bits) on, that the words stand for."""
    return np.asarray(words.view(np.int64).astype(np.float64) * math.ldexp(1.0, -bits))


def to_bytes(words: Words | Halves) -> bytes:
    return np.ascontiguousarray(words, dtype=words.dtype.newbyteorder("<")).tobytes()


def from_bytes(data: bytes, shape: tuple[int, ...], sender: str, what: str, *, halves: bool = False) -> Any:
    """The words that `sender` sent; PeerError if there are more or fewer than `shape` says."""
    width = 4 if halves else 8
    if len(data) != width * math.prod(shape):
        raise PeerError(f"{sender} sent {len(data)} bytes for {what}, and {width * math.prod(shape)} are due")
    return (
        np.frombuffer(data, dtype="<u4" if halves else "<u8").astype(np.uint32 if halves else np.uint64).reshape(shape)
    )
