"""A passive infers labels from its splits that won, which it is told of with any `partition`.

    apart(splits, own)                      without any label: rows on the smaller sides of splits
    by_chance(count, own, ...)              as many splits by lot: what its columns tell without a training
    audit_splits(record, table, labels)     the splits that won beside those by chance

A split wins if it sets rows with other labels apart. The rows of the less frequent class are fewer, so the smaller side
of a split has more of them than its share. Which side has the higher labels is not told (`protocol.splits`); in release
0.2.0 the left one of categories had, and counting left sides ranked rows as well as this does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from tacit.audit.finding import Finding
from tacit.audit.intervals import resampled
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_trees.attacks.labels_from_nodes import area
from tacit.kinds.vertical_trees.attacks.record import Record
from tacit.kinds.vertical_trees.attacks.training import Table
from tacit.kinds.vertical_trees.protocol.features import BinArray, BoolArray

_DRAWS = 20  # of splits by chance, for the baseline
Won = tuple[int, BoolArray]  # a feature, and its bins on one side


def apart(splits: Sequence[Won], own: BinArray) -> Floats:
    """Higher for rows on the smaller sides of splits, over all rows of the passive's own table."""
    found = np.zeros(len(own))
    for feature, bins in splits:
        side = bins[own[:, feature]]
        share = float(side.mean())
        if 0 < share < 1:
            found -= np.where(side, np.log(share), np.log(1 - share))
    return found


def by_chance(count: int, table: Table, rng: Generator) -> list[Won]:
    """So many cuts of features by lot."""
    found = []
    for feature in rng.integers(len(table.bins), size=count).tolist():
        values = int(table.bins[feature]) - 1
        order = np.arange(values) if table.ordered[feature] else rng.permutation(values)
        side = np.zeros(values + 1, dtype=bool)
        side[order[: rng.integers(1, max(2, values))]] = True
        found.append((feature, side))
    return found


def audit_splits(record: Record, table: Table, labels: Ints, *, seed: int = 0) -> Finding:
    """Labels of two classes, for a passive that knows none and sees no rows of nodes.

    The baseline is that of as many splits by chance: what the passive's own columns tell by themselves.
    """
    truth = labels == int(labels.mean() <= 0.5)  # the less frequent class
    won = [(each.feature, each.left_bins) for each in record.divided]
    rng = np.random.default_rng([seed, 62])
    drawn = [area(apart(by_chance(len(won), table, rng), table.binned), truth) for _ in range(_DRAWS)]
    scores = apart(won, table.binned)
    score = resampled(
        "AUC of the labels, none known",
        lambda rows: area(scores[rows], truth[rows]),
        len(truth),
        float(np.mean(drawn)),
    )
    return Finding(
        attack="labels from the splits that won",
        adversary="passive, honest but curious",
        sees=f"{len(won)} splits, each a feature and its bins on one side, and no rows of nodes",
        protection="none: the owner of a split has to answer it, with any partition",
        off=score,
        on=score,
        not_tested=("labels of several classes", "some labels known", "in which order splits won"),
    )
