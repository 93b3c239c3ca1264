"""A training in one place, with a record of what the parties would see of each other.

    train(tables, labels, terms, noise)     the last party's features are recorded
    Noised                                  a party that adds noise to the sums it opens, as a defence to measure

The trees equal those of the protocol between parties, so that the record equals what the active opens there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tacit.dp.noise import discrete_gaussian
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_trees.attacks.record import Record, Recorded
from tacit.kinds.vertical_trees.protocol.bins import Bins, numbers
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, State, Terms, boost
from tacit.kinds.vertical_trees.protocol.features import (
    BinArray,
    BoolArray,
    Chosen,
    Features,
    IntArray,
    PlainFeatures,
)
from tacit.kinds.vertical_trees.protocol.losses import Loss, loss_named
from tacit.randomness import seeded_rng

_HALF = 32  # bits of a word below g


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One party's cells as bins."""

    binned: BinArray  # [rows, features]
    bins: IntArray
    ordered: BoolArray
    signs: IntArray

    @classmethod
    def of_numbers(cls, values: Floats, most: int) -> Table:
        """Columns of numbers in at most `most` bins, that of missing values included."""
        made = Bins(tuple(numbers(column, most) for column in values.T))
        return cls(made.apply(list(values.T)), made.bins, made.ordered, np.zeros(len(made.bins), dtype=np.int64))

    @property
    def features(self) -> PlainFeatures:
        return PlainFeatures(self.binned, self.bins, self.ordered, self.signs)


def deviations(noise: float, bits: int) -> tuple[float, float]:
    """The standard deviations in units of rounded g and h, of noise that is given in units of the largest |g| and h."""
    return noise * (2 ** (bits - 1) - 1), noise * (2**bits - 1)


class Noised:
    """One party's features, with discrete Gaussian noise in the sums.

    It is no protection of the protocol: partitions stay exact, and the active then splits by this party's columns more
    often, so that partitions tell what sums no longer do (docs/trees-leaks.md).
    """

    def __init__(self, features: Features, noise: float, bits: int, rng: Generator) -> None:
        self._features, self._deviations, self._rng = features, deviations(noise, bits), rng
        self.bins, self.ordered, self.signs = features.bins, features.ordered, features.signs

    def start(self, words: IntArray, used: BoolArray | None = None) -> None:
        self._features.start(words, used)

    def histograms(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        return [sums + self._noise(sums.shape) for sums in self._features.histograms(nodes)]

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        return self._features.divide(chosen)

    def _noise(self, shape: tuple[int, ...]) -> IntArray:
        of_g, of_h = (discrete_gaussian(deviation, shape, self._rng) for deviation in self._deviations)
        return (of_g << _HALF) + of_h


def train(
    tables: Sequence[Table],
    labels: Floats,
    terms: Terms,
    *,
    noise: float = 0.0,
    loss: Loss | None = None,
    rows: IntArray | None = None,
) -> tuple[State, Record]:
    """Train on `rows` (all, if None) with every party in this process; the record is of the last party."""
    last = tables[-1].features
    noised = Noised(last, noise, terms.growth.bits, seeded_rng(terms.seed)) if noise else last
    watched = Recorded(noised)
    known = Labelled(
        loss or loss_named("logistic"),
        labels,
        np.ones(len(labels)),
        np.arange(len(labels)) if rows is None else rows,
        np.empty(0, dtype=np.int64),
    )
    state = boost([*(table.features for table in tables[:-1]), watched], known, terms)
    return state, watched.record()
