"""How many held-out rows of each class fall in each range of scores, without anyone seeing a score.

The squashed score (asinh z, by `fourier`) and the label make a 32-bit word: the label in the top bit, then a number
from 0 to 1 - 1/buckets. The word plus a uniform mask is opened. The dealer has shared, for each row, a table that is 1
at the mask's top bits and 0 elsewhere: rotated by the opened word's top bits, it is 1 at the row's own bucket and
label. Its sum over all rows is the histogram, as shares.

A row counts for one of the two grid points next to its squashed score, the nearer with the higher probability, right
in expectation: what the mask's low bits carry over is not known. With 256 buckets the grid is 0.04 wide near a score of
0 and 0.24 near 6.

Buckets are merged into groups before they are opened by class, so that each group has more than ten rows. For that the
active receives, of each bucket, how many rows score up to it, rounded to a multiple of four, down or up: with the low
bits that are opened, it knows the number to within four rows. Ranks only rise, and each has a rounding of its own: over
a range of several points that no row scores in, they are all the same number, and the active knows it exactly. So a row
that scores far from all others is seen as one row, though not whose it is.

Opened: to the active, for each output, these rounded ranks and the number of rows of each class in each group; to the
others, which buckets make up a group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared import fourier
from tacit.kinds.vertical_logistic.shared.ring import Halves

Counts = NDArray[np.int64]
LEAST = 10  # held-out rows of a class, or in a group: with fewer a count tells of single rows
UNIT_BITS = 2  # ranks are rounded to multiples of 4
APART = 5  # units


def write_table(mask: Halves, table: Halves) -> None:
    """At the dealer: 1 at each mask's top bits, 0 elsewhere."""
    entries = table.shape[-1]
    np.put_along_axis(table, _top(mask, entries)[..., None], np.uint32(1), axis=-1)


def counted(opened: Halves, table: Halves) -> Halves:
    """This party's shares of how many rows fall in each bucket: (outputs, entries)."""
    entries = table.shape[-1]
    places = (_top(opened, entries)[..., None] - np.arange(entries)) % entries
    return np.asarray(np.take_along_axis(table, places, axis=-1).sum(axis=0, dtype=np.uint32))


def _top(words: Halves, entries: int) -> NDArray[np.int64]:
    return (words >> np.uint32(32 - (entries.bit_length() - 1))).astype(np.int64)


def grid(buckets: int) -> Floats:
    """The score that each bucket stands for."""
    return np.sinh(np.linspace(-fourier.SQUASHED, fourier.SQUASHED, buckets))


def merged(ranks: Counts) -> NDArray[np.bool_]:
    """Which buckets end a group, from rounded numbers of rows up to each bucket, in units of 4.

    A rank is off by less than one unit, so between two ends at least `APART` units apart there are more than
    (APART - 2) * 4 = 12 rows. What is left after the last such end joins the group before.
    """
    ends, last = np.zeros(len(ranks), dtype=bool), 0
    for bucket, rank in enumerate(ranks):
        if rank - last >= APART and ranks[-1] - rank >= APART:
            ends[bucket], last = True, rank
    ends[-1] = True
    return ends


def add_up(counts: Halves, ends: NDArray[np.bool_]) -> Halves:
    """Counts of buckets (..., buckets) as counts of groups."""
    firsts = np.flatnonzero(np.append(True, ends[:-1]))
    return np.asarray(np.add.reduceat(counts, firsts, axis=-1, dtype=counts.dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Held-out rows of one output: by group those of the other classes and of this one; by bucket where scores lie.

    Args:
        ends: which buckets end a group.
        ranks: about how many rows score up to each bucket.
    """

    negative: Counts
    positive: Counts
    ends: NDArray[np.bool_]
    ranks: Counts

    def figures(self) -> dict[str, float]:
        """Accuracy, AUC and KS, as if the rows of a group were spread alike over its buckets for each class.

        Pairs within a group count half for the AUC, so few held-out rows make it lower than it is.
        """
        positive, negative = int(self.positive.sum()), int(self.negative.sum())
        rows = max(1, positive + negative)
        scores = grid(len(self.ends))
        above = self._mean((scores > 0).astype(np.float64))
        right = self.positive @ above + self.negative @ (1 - above)
        found = {"accuracy": float(right / rows)}
        if positive and negative:
            false, true = self.roc()
            found |= {"auc": float(np.trapezoid(true, false)), "ks": float(np.max(np.abs(true - false)))}
        return found

    def roc(self) -> tuple[Floats, Floats]:
        """False and true positive rates, for each group from the highest scores on, from (0, 0) to (1, 1)."""
        rates = [
            np.append(0.0, np.cumsum(counts[::-1]) / max(1, counts.sum())) for counts in (self.negative, self.positive)
        ]
        return rates[0], rates[1]

    def rows(self) -> tuple[Floats, Counts]:
        """A score and a label (0 or 1) for each row, of groups: every row of one has its mean score."""
        scores = self._mean(grid(len(self.ends)))
        both = np.concatenate([np.repeat(scores, self.negative), np.repeat(scores, self.positive)])
        return both, np.repeat([0, 1], [int(self.negative.sum()), int(self.positive.sum())])

    def quantiles(self, parts: int) -> Floats:
        """The scores that cut the held-out rows into so many parts, by the ranks: parts - 1 of them, rising."""
        ranks = np.maximum.accumulate(self.ranks)
        wanted = np.arange(1, parts) / parts * max(1, int(ranks[-1]))
        places = np.minimum(np.searchsorted(ranks, wanted), len(ranks) - 1)
        return np.asarray(grid(len(ranks))[places])

    def _mean(self, values: Floats) -> Floats:
        """The mean of a function of the score over each group's rows, as the ranks tell where they lie."""
        firsts = np.flatnonzero(np.append(True, self.ends[:-1]))
        within = np.maximum(np.diff(self.ranks, prepend=0), 0) + 1e-9
        return np.asarray(np.add.reduceat(within * values, firsts) / np.add.reduceat(within, firsts))
