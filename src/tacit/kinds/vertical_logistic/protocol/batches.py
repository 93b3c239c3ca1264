"""Which rows are held out and which make up each batch: the same at all parties, from numbers that all know.

hold_out(rows, fraction, seed)      (training rows, held-out rows)
schedule(rows, settings)            the rows of each step, in each epoch

Orders come from ChaCha20 under a hash of the seed, not from a library's shuffle, so that parties with different
releases of numpy agree. They are public: an order hides nothing, and no secret is drawn from it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.byte_strings import frame
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.schedule import Schedule
from tacit.randomness import random_words, seeded_rng

Rows = NDArray[np.int64]
_HELD_OUT, _SEEDS = b"tacit vertical rows held out", b"tacit vertical permuted seeds"


def order(count: int, seed: int) -> Rows:
    """The numbers below `count` in an order that depends on `seed` alone."""
    return np.argsort(random_words(seeded_rng(seed), count), kind="stable").astype(np.int64)


def hold_out(rows: int, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """(training rows, held-out rows), each in ascending order."""
    count = round(rows * fraction)
    if fraction > 0:
        count = min(max(count, 1), rows - 1)
    shuffled = order(rows, _number(_HELD_OUT, seed))
    return np.sort(shuffled[count:]), np.sort(shuffled[:count])


def epoch_seed(epoch: int, settings: Settings) -> int:
    """The seed of an epoch's order.

    epoch: the epoch itself. permuted: the epochs' numbers, shuffled once by the file's seed. hashed: a hash of the
    file's seed, the training's name and the epoch. Labels and features are no part of it: the order is known to all
    parties, and would tell them about both.
    """
    match settings.train.batch_order:
        case "epoch":
            return epoch
        case "permuted":
            return int(order(settings.train.epochs, _number(_SEEDS, settings.seed))[epoch])
        case "hashed":
            return _number(b"tacit vertical epoch", settings.seed, settings.name.encode(), epoch)


def schedule(rows: int, settings: Settings) -> Schedule:
    """In each epoch all rows once, in batches as equal as can be, none larger than `train.batch`."""
    count = steps(rows, settings.train.batch)
    least, larger = divmod(rows, count)  # so many batches have one row more

    def cut(step: int) -> slice:
        first = step * least + min(step, larger)
        return slice(first, first + least + (step < larger))

    return Schedule(rows, settings.train.epochs, count, lambda epoch: order(rows, epoch_seed(epoch, settings)), cut)


def steps(rows: int, batch: int) -> int:
    """Batches of an epoch."""
    return max(1, -(-rows // batch))


def smallest(rows: int, batch: int) -> int:
    """Rows of the smallest batch."""
    return rows // steps(rows, batch)


def largest(rows: int, batch: int) -> int:
    return -(-rows // steps(rows, batch))


def _number(*parts: bytes | int) -> int:
    joined = frame(*(part if isinstance(part, bytes) else str(part).encode() for part in parts))
    return int.from_bytes(hashlib.sha256(joined).digest()[:8], "big")
