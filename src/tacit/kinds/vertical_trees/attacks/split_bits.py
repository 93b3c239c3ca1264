"""The active learns a column's order from the answers to chosen splits.

    for_all_rows(record, columns)       the record with `partition: hidden`: answers for rows outside the node too
    recovered(record, columns, bins)    the share of bins named right, and the order of the rows, from answers alone
    audit_order                         shown and hidden beside each other

With `partition: hidden` a passive does not know the rows of a node and answers for all of them. Each answer then tells
one bit of every row, and a few dozen different cuts tell the bin of every row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from tacit.audit.finding import Finding
from tacit.audit.intervals import mean_score
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_trees.attacks.record import Record
from tacit.kinds.vertical_trees.attacks.whole_columns import allowed, frequencies
from tacit.kinds.vertical_trees.protocol.features import BinArray


def for_all_rows(record: Record, columns: BinArray) -> Record:
    """What the active sees if each answer to a chosen split is for all rows."""
    rows = np.arange(record.rows)
    wide = [replace(each, rows=rows, left=each.left_bins[columns[:, each.feature]]) for each in record.divided]
    return replace(record, divided=tuple(wide))


def recovered(record: Record, feature: int, column: BinArray, bins: int) -> tuple[Floats, float]:
    """Whether each row's bin is named right, and the rank correlation of the guessed with the true order."""
    shares = frequencies(record, feature, bins)
    possible = np.where(allowed(record, feature, bins), shares, 0.0)
    possible /= possible.sum(axis=1, keepdims=True)
    right = np.argmax(possible, axis=1) == column
    return right.astype(np.float64), _rank_correlation(possible @ np.arange(bins), column)


def _rank_correlation(first: Floats, second: BinArray) -> float:
    """Spearman's; 0 if either is constant, which is the guess without information."""
    ranks = [rankdata(np.round(each, 9)) for each in (first, second)]
    if min(each.std() for each in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


# --- the finding


def audit_order(record: Record, columns: BinArray, bins: Ints) -> Finding:
    """`record` is of a training with `partition: shown`; hidden answers follow from the columns."""
    hidden = for_all_rows(record, columns)
    shares = [float(np.max(frequencies(record, place, int(count)))) for place, count in enumerate(bins)]
    scores = []
    for each in (hidden, record):
        found = [recovered(each, place, columns[:, place], int(count)) for place, count in enumerate(bins)]
        right = np.mean([right for right, _ in found], axis=0)
        rank = np.array([rank for _, rank in found])
        scores.append(
            (
                mean_score("bins of cells named right from splits alone", right, float(np.mean(shares))),
                mean_score("rank correlation of guessed and true order, mean of the columns", rank, 0.0),
            )
        )
    return Finding(
        attack="order of columns from the answers to chosen splits",
        adversary="active, honest but curious",
        sees=f"{len(record.divided)} answers, one bit for each row",
        protection="answers for the rows of the node only (partition: shown); off is partition: hidden",
        off=scores[0][0],
        on=scores[1][0],
        also=((scores[0][1], scores[1][1]),),
    )
