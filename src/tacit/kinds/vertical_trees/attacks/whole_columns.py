"""The active solves for a passive's whole column, from every opened sum and every partition of a training.

    equations(record, feature, bins)        one equation for each opened sum: known weights, unknown indicators of bins
    allowed(record, feature, bins)          the bins that the partitions leave for each row
    solve(...)                              box-constrained least squares: indicators in [0, 1], one bin a row
    guess_column(record, feature, bins)     the bin of each row: by frequency, by partitions, by partitions and sums

Bin sums are linear in the indicators x[row, bin], with weights that the active chose: g and h of the rows of a node. A
tree of depth 5 gives up to 32 equations for each bin, and the same unknowns are in all trees. The solver alternates
between the points that meet the equations and the points that are distributions over allowed bins (ADMM: Boyd, Parikh,
Chu, Peleato, Eckstein 2011, section 5), and rounds to the largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from tacit.audit.finding import Finding
from tacit.audit.intervals import mean_score
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_trees.attacks.record import Record
from tacit.kinds.vertical_trees.protocol.features import BinArray, BoolArray

_EXACT = 1e-2  # deviation of an equation without noise, as a part of its weights' root mean square
_RELAXED = 1.6  # of ADMM: between 1.5 and 1.8 converges fastest (section 3.4.3)
_STEPS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """weights · x[:, bin] = sums[:, bin], for all bins at once."""

    weights: csr_array  # [equations, rows]
    sums: Floats  # [equations, bins]

    @property
    def count(self) -> int:
        return len(self.sums)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnGuess:
    """The bin of each row, by what is more and more information."""

    by_frequency: Ints
    by_partitions: Ints
    by_sums: Ints  # and partitions
    equations: int

    def right(self, truth: Ints | BinArray) -> tuple[float, float, float]:
        """The share of rows whose bin is named right, by each."""
        guesses = self.by_frequency, self.by_partitions, self.by_sums
        frequency, partitions, sums = (float(np.mean(each == truth)) for each in guesses)
        return frequency, partitions, sums


def equations(record: Record, feature: int, bins: int) -> Equations:
    """Two for each opened node: the sums of g and of h. Nodes that follow by subtraction add none."""
    pointers, columns, weights, sums = [0], [], [], []
    for node in record.opened:
        for numbers, opened in ((record.g[node.tree], node.g), (record.h[node.tree], node.h)):
            columns.append(node.rows)
            weights.append(numbers[node.rows].astype(np.float64))
            pointers.append(pointers[-1] + len(node.rows))
            sums.append(opened[feature, :bins].astype(np.float64))
    shape = (len(sums), record.rows)
    matrix = csr_array((np.concatenate(weights), np.concatenate(columns), np.array(pointers)), shape=shape)
    return Equations(matrix, np.array(sums))


def allowed(record: Record, feature: int, bins: int) -> BoolArray:
    """[rows, bins]: what the answers to this feature's chosen splits leave. Active and passive agreed to show these."""
    left = np.ones((record.rows, bins), dtype=bool)
    for split in record.divided:
        if split.feature == feature:
            sides = np.stack([~split.left_bins[:bins], split.left_bins[:bins]])
            left[split.rows] &= sides[split.left.astype(np.int64)]
    return left


def frequencies(record: Record, feature: int, bins: int) -> Floats:
    """The share of the rows in each bin, as the first opened node tells it: before the first tree all h are alike."""
    first = record.opened[0].h[feature, :bins].astype(np.float64)
    shares = np.maximum(first, 0.0) + 1e-6 * max(1.0, float(first.sum()))
    return np.asarray(shares / shares.sum())


def solve(
    system: Equations, possible: BoolArray, shares: Floats, deviations: Floats | None = None, steps: int = _STEPS
) -> Floats:
    """The distribution over bins of each row that fits the sums best.

    `deviations` has the standard deviation of the noise in each sum, if there is noise.
    """
    start = np.where(possible, shares, 0.0)
    start /= start.sum(axis=1, keepdims=True)
    if deviations is None:
        square = np.asarray(system.weights.multiply(system.weights).sum(axis=1)) / system.weights.shape[1]
        deviations = _EXACT * np.sqrt(np.maximum(square, 1e-12))
        stiffness = 1.0
    else:
        stiffness = 1 / float(np.mean(shares * (1 - shares)))  # the inverse of what an indicator varies by
    weights = csr_array(system.weights.multiply(1 / deviations[:, None]))
    sums = system.sums / deviations[:, None]
    inner = cho_factor((weights @ weights.T).toarray() / stiffness + np.eye(system.count))
    current, excess = start, np.zeros_like(start)
    for _ in range(steps):
        point = current - excess
        fitted = point + weights.T @ cho_solve(inner, sums - weights @ point) / stiffness
        relaxed = _RELAXED * fitted + (1 - _RELAXED) * current
        current = _distributions(relaxed + excess, possible)
        excess += relaxed - current
    return current


def _distributions(points: Floats, possible: BoolArray) -> Floats:
    """The nearest distribution over the possible bins, of each row.

    Source: Duchi, Shalev-Shwartz, Singer, Chandra 2008, figure 1.
    """
    points = np.where(possible, points, -1e9)
    falling = -np.sort(-points, axis=1)
    above = np.cumsum(falling, axis=1) - 1
    count = (falling - above / np.arange(1, points.shape[1] + 1) > 0).sum(axis=1)
    level = above[np.arange(len(points)), count - 1] / count
    return np.asarray(np.maximum(points - level[:, None], 0.0))


def guess_column(
    record: Record, feature: int, bins: int, *, noise: tuple[float, float] = (0.0, 0.0), steps: int = _STEPS
) -> ColumnGuess:
    """Name the bin of each row. `noise` is the standard deviation of noise in sums of g and of h, which is public."""
    system, possible = equations(record, feature, bins), allowed(record, feature, bins)
    shares = frequencies(record, feature, bins)
    deviations = np.tile(np.array(noise), system.count // 2) if all(noise) else None
    fitted = solve(system, possible, shares, deviations, steps)
    return ColumnGuess(
        np.full(record.rows, int(np.argmax(shares))),
        np.argmax(np.where(possible, shares, 0.0), axis=1),
        np.argmax(fitted, axis=1),
        system.count,
    )


# --- the finding


def audit_columns(
    off: Record, on: Record, columns: BinArray, bins: Ints, protection: str, *, noise: tuple[float, float] = (0.0, 0.0)
) -> Finding:
    """All columns of a passive, without and with what protects them. `columns` is [rows, features], the truth.

    `off` is the record of a training whose nodes are as small as they come.
    """
    counts = [int(count) for count in bins]
    plain = [guess_column(off, feature, count) for feature, count in enumerate(counts)]
    guarded = [guess_column(on, feature, count, noise=noise) for feature, count in enumerate(counts)]

    def right(guesses: list[Ints]) -> Floats:
        """Of each row the share of its cells whose bin is named right."""
        return np.asarray((np.stack(guesses, axis=1) == columns).mean(axis=1))

    baseline = float(right([guess.by_frequency for guess in guarded]).mean())
    split = right([guess.by_partitions for guess in guarded])
    metric = "bins of cells named right"
    return Finding(
        attack="whole columns from all opened sums",
        adversary="active, honest but curious",
        sees=f"{guarded[0].equations} sums of each bin over {on.rows} rows, and the partitions of chosen splits",
        protection=protection,
        off=mean_score(metric, right([guess.by_sums for guess in plain]), baseline),
        on=mean_score(metric, right([guess.by_sums for guess in guarded]), baseline),
        also=((None, mean_score("bins of cells named right from partitions alone", split, baseline)),),
        not_tested=(
            "lattices for whole columns, which need fewer sums than least squares: they are for tables of few rows",
        ),
    )
