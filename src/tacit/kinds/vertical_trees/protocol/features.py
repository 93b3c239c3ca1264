"""One party's features as the active sees them: opaque feature numbers and bin numbers.

The last bin of every feature holds its missing values (and categories that were not in training), even if there are
none, so a feature with `bins` 32 has 31 bins of values.

`PlainFeatures` is the active's own table. Those of a passive answer the same questions over a channel, so that the
growth of a tree is one piece of code for any number of parties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_BINS", "BinArray", "BoolArray", "Chosen", "Features", "IntArray", "PlainFeatures"]

BinArray = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

MOST_BINS = 256
_HALF = 32  # bits: words are added in halves, whose sums a double holds exactly
_EXACT_ROWS = 1 << 21  # whose halves of 32 bits add up to less than 2^53


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A split that was chosen: which rows of the node go left."""

    node: IntArray  # rows, ascending
    feature: int
    left: BoolArray  # one flag for each bin of the feature, that of missing values last


class Features(Protocol):
    """One party's features, for growing trees."""

    @property
    def bins(self) -> IntArray:
        """Of each feature the number of bins, that of missing values included: 2 to 256."""

    @property
    def ordered(self) -> BoolArray:
        """Of each feature whether its bins are in order (numbers); those of categories are not."""

    @property
    def signs(self) -> IntArray:
        """Of each feature its monotone constraint: 1 if scores may only rise with it, -1 only fall, 0 without one."""

    def start(self, words: IntArray, used: BoolArray | None = None) -> None:
        """Begin a tree: the packed word of every row, 0 for rows not in it.

        `used` has a flag for each feature; the sums of those not used may be zero. None: all are used.
        """

    def histograms(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        """Of each node (row numbers, ascending) the sums modulo 2^64 of its words by bin: [features, most bins]."""

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        """Of each chosen split one flag per row of its node: True goes left.

        A node here holds every row that must be routed, also those that are not in the tree's sums.
        """


class PlainFeatures:
    """The active's own table, whose sums it takes itself.

    `binned` is [rows, features].
    """

    def __init__(
        self, binned: BinArray, bins: IntArray, ordered: BoolArray | None = None, signs: IntArray | None = None
    ) -> None:
        count = binned.shape[1]
        self.bins = bins
        self.ordered = np.ones(count, dtype=bool) if ordered is None else ordered
        self.signs = np.zeros(count, dtype=np.int64) if signs is None else signs
        if not len(self.bins) == len(self.ordered) == len(self.signs) == count:
            raise ValueError(f"{count} features need as many numbers of bins, orders and signs")
        if count and not (bins.min() >= 2 and bins.max() <= MOST_BINS and (binned < bins).all()):
            raise ValueError(f"a feature has 2 to {MOST_BINS} bins, and every cell lies in one of its feature's")
        self._columns = np.ascontiguousarray(binned.T)
        self._rows = len(binned)
        self._most = int(bins.max(initial=0))
        self._words = np.zeros(self._rows, dtype=np.int64)

    def start(self, words: IntArray, used: BoolArray | None = None) -> None:
        if words.shape != (self._rows,):
            raise ValueError(f"{self._rows} rows need as many words, not {words.shape}")
        self._words = words

    def histograms(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        return [self._sums(rows) for rows in nodes]

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        return [split.left[self._columns[split.feature][split.node]] for split in chosen]

    def _sums(self, rows: IntArray) -> IntArray:
        sums = np.zeros((len(self.bins), self._most), dtype=np.int64)
        for start in range(0, len(rows), _EXACT_ROWS):
            part = rows[start : start + _EXACT_ROWS]
            words = self._words[part]
            high, low = (words >> _HALF).astype(float), (words & (2**_HALF - 1)).astype(float)
            for feature, column in enumerate(self._columns):
                cells = column[part]
                sums[feature] += np.bincount(cells, high, self._most).astype(np.int64) << _HALF
                sums[feature] += np.bincount(cells, low, self._most).astype(np.int64)
        return sums
