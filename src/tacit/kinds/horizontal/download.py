"""The model as clients are sent it: as it is, or with `round.down` in a few bits for each number.

    download(layout, model, bits)     what clients train on, and its bytes on the wire
    restored(layout, data, bits)      the same numbers from these bytes, to the last bit
    same_download(layout, a, b, bits) whether clients can tell two models apart

Each array of the model is a step times whole numbers from -L to L, L = 2^(bits - 1) - 1; its largest number is L steps.
The bytes are the steps, a float64 each, and all numbers, packed. The coordinator keeps its own model unrounded, and
adds to it what clients learnt from the rounded one: errors of rounding do not add up over the rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import PeerError
from tacit.fixedpoint import residues, signed
from tacit.kinds.horizontal.protections.contract import ENORMOUS
from tacit.kinds.horizontal.vector import Flat, Layout
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
        shared = model.view()
        shared.flags.writeable = False
        return Download(shared)
    most = 2 ** (bits - 1) - 1
    parts = [part.ravel().astype(np.float64) for part in layout.unflatten(model).values()]
    steps = np.array([np.abs(part).max(initial=0.0) / most for part in parts])
    codes = [np.rint(part / step) if step else part * 0 for part, step in zip(parts, steps.tolist(), strict=True)]
    coded = steps.astype("<f8").tobytes() + pack(residues(np.concatenate(codes).astype(np.int64), bits), bits)
    return Download(restored(layout, coded, bits), coded)


def restored(layout: Layout, data: bytes, bits: int) -> Flat:
    """The numbers that `download` made these bytes of; PeerError for any other bytes."""
    if len(data) != (due := download_bytes(layout, bits)):
        raise PeerError(f"a model of {len(data)} bytes, {due} are due")
    head = 8 * len(layout.names)
    steps = np.frombuffer(data[:head], dtype="<f8")
    if not ((steps >= 0) & (steps <= ENORMOUS)).all():  # NaN is not
        raise PeerError("a model whose steps are negative, NaN, infinite or enormous")
    codes = signed(unpack(data[head:], layout.size, bits), bits)
    counts = [int(np.prod(shape, dtype=np.int64)) for shape in layout.shapes]
    model: Flat = (codes * np.repeat(steps, counts)).astype(layout.dtype)
    model.flags.writeable = False
    return model


def same_download(layout: Layout, one: Flat, other: Flat, bits: int | None) -> bool:
    """Whether clients are sent the same of two models."""
    return np.array_equal(download(layout, one, bits).model, download(layout, other, bits).model)
