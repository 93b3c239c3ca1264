"""Which rows are held out and which make up each batch: the same at all parties, from numbers that all know.

hold_out(rows, fraction, seed)      (training rows, held-out rows)
schedule(rows, settings)            the rows of each step, in each epoch

Orders are those of `tacit.lockstep.held_out`: public, and the same whatever the release of numpy.
"""

from __future__ import annotations

from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.held_out import Rows, hold_out, order, seed_number
from tacit.lockstep.schedule import Schedule

__all__ = ["Rows", "epoch_seed", "hold_out", "largest", "order", "schedule", "smallest", "steps"]

_SEEDS = b"tacit vertical permuted seeds"


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
            return int(order(settings.train.epochs, seed_number(_SEEDS, settings.seed))[epoch])
        case "hashed":
            return seed_number(b"tacit vertical epoch", settings.seed, settings.name.encode(), epoch)


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
