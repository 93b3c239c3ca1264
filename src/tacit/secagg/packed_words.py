"""Ring words of any width from 8 to 64 bits, as bytes without gaps.

    packed_bytes(columns, bits)         how many bytes a vector takes
    pack(words, bits)                   the low bits of each word, packed
    unpack(data, columns, bits)         the words; PeerError for another length, and for padding that is not zero

Arithmetic needs no packing: the low bits of a sum depend only on the low bits of its summands, so that masks are added
and removed in the wider type of `fixedpoint.word_type`, and only what travels is cut to `bits`. A uniform word cut to
`bits` is uniform.

The layout is made for vector instructions, not for reading one word. A vector is packed in blocks of 65,536 words, one
after the other. With c the bits of the type and g = gcd(bits, c), a block is c/g lanes of equal length, each a stretch
of successive columns; the last block is padded with zeros to that. The first words of all lanes, end to end as one
little-endian string of bits, fill the first words of bits/g planes of c-bit words, and so on; the planes are sent one
after the other. All work is on whole lanes: shifts by a constant, and `or`. At bits = c there is one lane and one
plane: the words as they are.

Measured on one core, per million words: 0.4 ms to pack or to unpack at 15 bits, 0.8 ms at 25 bits and 1.6 ms at 53.
A mask takes 0.1, 0.2 and 0.4 ms in the types of these widths: a client packs once, and adds a mask for each neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PeerError
from tacit.fixedpoint import Residues, word_type

Words = Residues
Rows = NDArray[np.intp]

_BLOCK = 1 << 16  # words; a part of the definition. A block stays in the second-level cache


def packed_bytes(columns: int, bits: int) -> int:
    """Bytes of a packed vector: columns * bits / 8, and less than 512 for padding."""
    lanes, planes, width = _shape(bits)
    return -(-columns // lanes) * planes * width // 8


def pack(words: Words, bits: int) -> bytes:
    """The low `bits` of each word. The upper ones may be anything."""
    lanes, planes, width = _shape(bits)
    if words.ndim != 1 or words.dtype != word_type(bits):
        raise ValueError(f"{bits}-bit words are packed from {np.dtype(word_type(bits))}, got {words.dtype}")
    if lanes == 1:
        return words.astype(f"<u{width // 8}", copy=False).tobytes()
    made = BytesIO(bytes(packed_bytes(len(words), bits)))  # whose bytes are returned without a copy
    packed = np.frombuffer(made.getbuffer(), dtype=f"<u{width // 8}")
    scratch = _Scratch.of(len(words), bits)
    for block, place in _blocks(len(words), bits):
        rows = scratch.rows(block, lanes)
        flat = rows.reshape(-1)
        np.bitwise_and(words[block], words.dtype.type(2**bits - 1), out=flat[: block.stop - block.start])
        flat[block.stop - block.start :] = 0
        _shift(rows, packed[place].reshape(planes, -1), _packing_steps(bits), scratch.taken)
    del packed
    return made.getvalue()


def unpack(data: bytes | memoryview, columns: int, bits: int) -> Words:
    """The words that were packed, each below 2^bits. The result may be read-only."""
    lanes, planes, width = _shape(bits)
    due = packed_bytes(columns, bits)
    if len(data) != due:
        raise PeerError(f"a packed vector of {len(data)} bytes, {due} are due: {columns} words of {bits} bits")
    words: Words = np.frombuffer(data, dtype=f"<u{width // 8}").astype(word_type(bits), copy=False)
    if lanes == 1:
        return words
    found = np.empty(columns, dtype=words.dtype)
    scratch = _Scratch.of(columns, bits)
    for block, place in _blocks(columns, bits):
        rows = scratch.rows(block, lanes)
        _shift(words[place].reshape(planes, -1), rows, _unpacking_steps(bits), scratch.taken)
        flat = rows.reshape(-1)
        flat &= words.dtype.type(2**bits - 1)
        found[block] = flat[: block.stop - block.start]
        if flat[block.stop - block.start :].any():
            raise PeerError(f"a packed vector of {columns} words whose padding is not zero")
    return found


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Memory for one block, used again for each: new memory costs more than the work that is done in it."""

    lanes: Words
    taken: Words

    @classmethod
    def of(cls, columns: int, bits: int) -> _Scratch:
        lanes, _, _ = _shape(bits)
        size = -(-min(columns, _BLOCK) // lanes) * lanes
        return cls(np.empty(size, dtype=word_type(bits)), np.empty(size, dtype=word_type(bits)))

    def rows(self, block: slice, lanes: int) -> Words:
        return self.lanes[: -(-(block.stop - block.start) // lanes) * lanes].reshape(lanes, -1)


def _shift(source: Words, target: Words, steps: tuple[_Step, ...], scratch: Words) -> None:
    """Make each row of `target` of the rows of `source` that the steps name: the first to the right, others to the
    left."""
    length = source.shape[1]
    for number, step in enumerate(steps):
        count = len(step.source)
        taken = target if number == 0 else scratch[: count * length].reshape(count, length)
        np.take(source, step.source, axis=0, out=taken, mode="clip")  # the other modes copy once more
        (np.right_shift if number == 0 else np.left_shift)(taken, step.shift, out=taken)
        if number and count == len(target):
            target |= taken
        elif number:
            target[step.target] |= taken


@dataclass(frozen=True, slots=True)
class _Step:
    """Rows of `source`, each shifted by its own amount, into rows of `target`."""

    target: Rows
    source: Rows
    shift: Words

    @classmethod
    def of(cls, moves: list[tuple[int, int, int]], bits: int) -> _Step:
        rows = np.array(moves, dtype=np.intp).reshape(-1, 3)
        return cls(rows[:, 0], rows[:, 1], rows[:, 2:].astype(word_type(bits)))


def _shape(bits: int) -> tuple[int, int, int]:
    """Lanes, planes, and the bits of the words of both."""
    width = np.dtype(word_type(bits)).itemsize * 8
    common = math.gcd(bits, width)
    return width // common, bits // common, width


@lru_cache(maxsize=64)
def _packing_steps(bits: int) -> tuple[_Step, ...]:
    """For each plane the lane that its lowest bit is in, then those that begin within it: one or two."""
    lanes, planes, width = _shape(bits)
    steps: list[list[tuple[int, int, int]]] = [[], [], []]
    for plane in range(planes):
        lane, into = divmod(plane * width, bits)
        steps[0].append((plane, lane, into))
        for further in (1, 2):
            if (shift := further * bits - into) < width and lane + further < lanes:
                steps[further].append((plane, lane + further, shift))
    return tuple(_Step.of(moves, bits) for moves in steps if moves)


@lru_cache(maxsize=64)
def _unpacking_steps(bits: int) -> tuple[_Step, _Step]:
    """For each lane the plane that its lowest bit is in, and for those that end in the next one, that."""
    lanes, _, width = _shape(bits)
    first, second = [], []
    for lane in range(lanes):
        plane, into = divmod(lane * bits, width)
        first.append((lane, plane, into))
        if into + bits > width:
            second.append((lane, plane + 1, width - into))
    return _Step.of(first, bits), _Step.of(second, bits)


def _blocks(columns: int, bits: int) -> Iterator[tuple[slice, slice]]:
    """Columns that are packed together, and where they are in the planes."""
    lanes, planes, _ = _shape(bits)
    for start in range(0, columns, _BLOCK):
        stop = min(start + _BLOCK, columns)
        yield slice(start, stop), slice(start // lanes * planes, -(-stop // lanes) * planes)
