"""The active looks for the rows of one bin of one node: which rows add up to the bin's sums?

    subsets(g, h, sums)             every set of rows with these sums, by meeting in the middle
    name_bins(g, h, sums, shares)   the bin of each row of a node, from all its bins
    small_columns(weights, sums)    whole columns of few rows from several nodes, by lattice reduction

Of 2^rows sets, about 2^rows / (number of possible sums) have the right sums. Few rows in a bin make it easier, not the
few rows of the node: a node of 64 rows with 32 bins has two rows in a bin, and only 2,016 pairs to choose from.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tacit.audit.attacks import lattice
from tacit.audit.finding import Finding, Score
from tacit.audit.intervals import mean_score
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_trees.protocol.features import BinArray, BoolArray

_MOST = 20_000  # sets that are listed: more than a few say nothing of a row
_HALF = 1 << 20  # sets of one half, at most
_WEIGHT = 64  # of an equation beside a row's bit, in a lattice


def subsets(g: Ints, h: Ints, sums: tuple[int, int], largest: int | None = None) -> BoolArray:
    """[sets, rows]: every set of rows whose g and h add up to `sums`, or the first 20,000 of them.

    `largest` bounds the rows from each half of the node; None takes all sets, which is possible up to 40 rows.
    """
    rows, middle = len(g), len(g) // 2
    first, second = (_sets(size, largest) for size in (middle, rows - middle))
    scale = 2 * int(np.abs(h).sum()) + abs(sums[1]) + 1  # so that one integer holds both sums
    keys = g.astype(np.int64) * scale + h
    left, right = first @ keys[:middle], second @ keys[middle:]
    order = np.argsort(left, kind="stable")
    wanted = sums[0] * scale + sums[1] - right
    low, high = (np.searchsorted(left[order], wanted, side=side) for side in ("left", "right"))
    pairs = [
        np.concatenate([first[order[place]], second[index]])
        for index in np.flatnonzero(high > low)[:_MOST]
        for place in range(low[index], high[index])
    ]
    return np.array(pairs[:_MOST], dtype=bool).reshape(-1, rows)


def _sets(rows: int, largest: int | None) -> Ints:
    """Indicators of all sets of up to `largest` rows."""
    if largest is None or largest >= rows:
        if 1 << rows > _HALF:
            raise ValueError(f"all sets of {2 * rows} rows are too many to list: set `largest`, or take 40 rows")
        return np.asarray((np.arange(1 << rows)[:, None] >> np.arange(rows)) & 1)
    chosen = [each for size in range(largest + 1) for each in combinations(range(rows), size)]
    indicators = np.zeros((len(chosen), rows), dtype=np.int64)
    for size in range(1, largest + 1):
        places = [place for place, each in enumerate(chosen) if len(each) == size]
        indicators[np.array(places)[:, None], np.array([chosen[place] for place in places])] = 1
    return indicators


def name_bins(g: Ints, h: Ints, sums: tuple[Ints, Ints], shares: Floats, largest: int | None) -> Ints:
    """The likeliest bin of each row of a node. `sums` are those of g and h by bin, `shares` how frequent bins are."""
    rows = len(g)
    weight = np.tile(shares, (rows, 1))
    for place, (sum_g, sum_h) in enumerate(zip(*sums, strict=True)):
        found = subsets(g, h, (int(sum_g), int(sum_h)), largest)
        if 0 < len(found) < _MOST:
            share = min(max(float(shares[place]), 1e-9), 1 - 1e-9)
            size = found.sum(axis=1)
            likely = size * np.log(share) + (rows - size) * np.log1p(-share)
            likely = np.exp(likely - likely.max())
            weight[:, place] = likely @ found / likely.sum()
    named: Ints = np.argmax(weight, axis=1)
    return named


def small_columns(weights: Ints, sums: Ints, share: float, width: int = 64) -> BoolArray | None:
    """The rows of one bin, from equations weights · x = sums over few rows; None if no set of rows was found.

    Source: Lagarias and Odlyzko 1985, in the form of Coster and others 1992 (a point in the middle of the cube).
    Guarantee: what is returned meets every equation exactly.
    """
    rows = weights.shape[1]
    bits = 2 * np.eye(rows, dtype=np.int64)
    basis = lattice.reduced(np.hstack([bits, _WEIGHT * weights.T]))
    middle = np.full(rows, 2 * share)
    for vector in lattice.near(basis, np.concatenate([middle, _WEIGHT * sums.astype(np.float64)]), width):
        x = vector[:rows] // 2
        if ((x == 0) | (x == 1)).all() and (weights @ x == sums).all():
            return np.asarray(x == 1)
    return None


# --- the finding


def determined_share(g: Ints, h: Ints, columns: BinArray, largest: int | None = None) -> Score:
    """Of the bins of one node that have rows, over all features: how many have exactly one set of rows that fits."""
    unique = []
    for column in columns.T:
        for bin_ in np.unique(column):
            inside = column == bin_
            found = subsets(g, h, (int(g[inside].sum()), int(h[inside].sum())), largest)
            unique.append(len(found) == 1)
    return mean_score("bins whose rows follow", np.array(unique, dtype=float), 0.0)


def audit_bins(
    off: tuple[Ints, Ints], on: tuple[Ints, Ints], columns: BinArray, protection: str, largest: int | None = None
) -> Finding:
    """Rows of bins of one node: `off` and `on` are g and h of its rows without and with rounding to few bits."""
    return Finding(
        attack="rows of a bin from the sums of one node",
        adversary="active, honest but curious",
        sees=f"the sums of g and h of each bin, over {len(columns)} rows",
        protection=protection,
        off=determined_share(*off, columns, largest),
        on=determined_share(*on, columns, largest),
        not_tested=("bins of more rows than were listed",) if largest else (),
    )
