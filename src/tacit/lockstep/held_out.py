"""Which rows are held out to measure a model on: the same at all parties, from numbers that all know.

hold_out(rows, fraction, seed)      (training rows, held-out rows)
order(count, seed)                  an order of so many rows

Orders come from ChaCha20 under a hash of the seed, not from a library's shuffle, so that parties with different
releases of numpy agree. They are public: an order hides nothing, and no secret is drawn from it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.byte_strings import frame
from tacit.randomness import random_words, seeded_rng

Rows = NDArray[np.int64]
_HELD_OUT = b"tacit vertical rows held out"


def order(count: int, seed: int) -> Rows:
    """The numbers below `count` in an order that depends on `seed` alone."""
    return np.argsort(random_words(seeded_rng(seed), count), kind="stable").astype(np.int64)


def hold_out(rows: int, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """(training rows, held-out rows), each in ascending order."""
    count = round(rows * fraction)
    if fraction > 0:
        count = min(max(count, 1), rows - 1)
    shuffled = order(rows, seed_number(_HELD_OUT, seed))
    return np.sort(shuffled[count:]), np.sort(shuffled[:count])


def seed_number(*parts: bytes | int) -> int:
    """A seed that is a hash of these."""
    joined = frame(*(part if isinstance(part, bytes) else str(part).encode() for part in parts))
    return int.from_bytes(hashlib.sha256(joined).digest()[:8], "big")
