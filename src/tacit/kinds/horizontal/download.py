"""The model as clients are sent it: as it is, or with `round.down` in a few bits for each number.

    download(layout, model, bits)     what clients train on, and its bytes on the wire
    restored(layout, data, bits)      the same numbers from these bytes, to the last bit
    same_download(layout, a, b, bits) whether clients can tell two models apart

Each array of the model is a step times whole numbers from -L to L, L = 2^(bits - 1) - 1; its largest number is L steps.
The bytes are the steps, a float64 each, and all numbers, packed. The coordinator keeps its own model unrounded, and
adds to it what clients learnt from the rounded one: errors of rounding do not add up over the rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from tacit.errors import PeerError
from tacit.fixedpoint import residues, signed, word_type
from tacit.kinds.horizontal.protections.contract import ENORMOUS
from tacit.kinds.horizontal.vector import Flat, Layout, blocks, read_only
from tacit.secagg.packed_words import pack, packed_bytes, unpack


@dataclass(frozen=True, slots=True, eq=False)
class Download:
    """A model that is sent. `model` is read-only: all clients of a process may share it."""

    model: Flat
    coded: bytes | None = None  # None: the numbers travel as they are

    @property
    def nbytes(self) -> int:
        return self.model.nbytes if self.coded is None else len(self.coded)


def download_bytes(layout: Layout, bits: int | None) -> int:
    """Bytes of a model on the wire."""
    if bits is None:
        return layout.size * np.dtype(layout.dtype).itemsize
    return 8 * len(layout.names) + packed_bytes(layout.size, bits)


def download(layout: Layout, model: Flat, bits: int | None) -> Download:
    """What clients are sent of `model`: each number rounded to the nearest step, if there are `bits`."""
    if bits is None:
        return Download(read_only(model))
    most, steps, words = 2 ** (bits - 1) - 1, [], np.zeros(layout.size, dtype=word_type(bits))
    for part in _parts(layout):  # one by one, for less memory
        numbers = model[part].astype(np.float64)
        steps.append(float(np.abs(numbers).max(initial=0.0)) / most)
        if steps[-1]:
            words[part] = residues(np.rint(numbers / steps[-1]).astype(np.int64), bits)
    coded = np.array(steps, dtype="<f8").tobytes() + pack(words, bits)
    return Download(restored(layout, coded, bits), coded)


def restored(layout: Layout, data: bytes | memoryview, bits: int) -> Flat:
    """The numbers that `download` made these bytes of; PeerError for any other bytes."""
    if len(data) != (due := download_bytes(layout, bits)):
        raise PeerError(f"a model of {len(data)} bytes, {due} are due")
    head = 8 * len(layout.names)
    steps = np.frombuffer(data[:head], dtype="<f8")
    if not ((steps >= 0) & (steps <= ENORMOUS)).all():  # NaN is not
        raise PeerError("a model whose steps are negative, NaN, infinite or enormous")
    words, model = unpack(data[head:], layout.size, bits), np.empty(layout.size, dtype=layout.dtype)
    for part, step in zip(_parts(layout), steps.tolist(), strict=True):
        model[part] = signed(words[part], bits) * step
    model.flags.writeable = False
    return model


def _parts(layout: Layout) -> list[slice]:
    """Where each array is in the flat model."""
    edges = [0, *accumulate(math.prod(shape) for shape in layout.shapes)]
    return [slice(start, end) for start, end in pairwise(edges)]


def same_download(layout: Layout, one: Flat, other: Flat, bits: int | None) -> bool:
    """Whether clients are sent the same of two models."""
    pairs = zip(*(blocks(download(layout, each, bits).model) for each in (one, other)), strict=True)
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)
