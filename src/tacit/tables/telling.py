"""Columns that tell the label: a column that is known only after the label is, or is made from it, spoils a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.tables.cells import Cells, Floats, Ints, Numbers
from tacit.tables.labels import Labels

TELLS = 0.99  # an AUC, or the part of rows that a column gets right
_LINE = 0.999  # a correlation with a label that is a number
_ROWS = 10_000  # that are looked at, evenly spaced
_LEAST = 10  # rows of each class: with fewer, chance tells
_CATEGORIES = 100  # numbers with as many values or fewer are looked at as categories too


def tells(cells: Cells, labels: Labels | Floats) -> str:
    """How a column tells the label, in a few words; "" if it does not."""
    rows = np.unique(np.linspace(0, len(cells) - 1, min(len(cells), _ROWS)).astype(np.int64))
    if not isinstance(labels, Labels):
        return _in_line(cells, labels, rows)
    codes = labels.codes[rows]
    if len(labels.classes) < 2 or np.bincount(codes, minlength=len(labels.classes)).min() < _LEAST:
        return ""
    if isinstance(cells, Numbers):
        values = np.where(np.isnan(cells.values[rows]), -np.inf, cells.values[rows])
        if len(labels.classes) == 2 and (area := auc(values, codes)) is not None and max(area, 1 - area) >= TELLS:
            return f"its AUC alone is {max(area, 1 - area):.3f}"
        distinct, categories = np.unique(values, return_inverse=True)
        if len(distinct) > _CATEGORIES:
            return ""
    else:
        categories = np.unique(np.array([cells.values[row] for row in rows.tolist()]), return_inverse=True)[1]
    return _by_category(categories.astype(np.int64), codes)


def auc(values: Floats, positive: NDArray[np.int64]) -> float | None:
    """The area under the ROC curve of a column that is taken as a score; None if there is one class only."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[places]  # of equal values, the mean
    ones = int(positive.sum())
    zeros = len(positive) - ones
    if not ones or not zeros:
        return None
    return float((ranks[positive == 1].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _by_category(categories: Ints, codes: Ints) -> str:
    """Learn the commonest class of each category on every other row, and try it on the rest."""
    known, tried = slice(0, None, 2), slice(1, None, 2)
    classes = int(codes.max()) + 1
    counts = np.zeros((int(categories.max()) + 1, classes))
    np.add.at(counts, (categories[known], codes[known]), 1)
    commonest = int(np.bincount(codes[known]).argmax())
    guess = np.where(counts.sum(axis=1) > 0, counts.argmax(axis=1), commonest)[categories[tried]]
    hits = [
        float((guess[codes[tried] == each] == each).mean()) for each in range(classes) if (codes[tried] == each).any()
    ]
    return f"its categories give {min(hits):.1%} of each class" if min(hits) >= TELLS else ""


def _in_line(cells: Cells, labels: Floats, rows: Ints) -> str:
    if not isinstance(cells, Numbers):
        return ""
    x, y = cells.values[rows], labels[rows]
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < 2 * _LEAST or np.ptp(x[known]) == 0 or np.ptp(y[known]) == 0:
        return ""
    size = abs(float(np.corrcoef(x[known], y[known])[0, 1]))
    return f"its correlation with it is {size:.4f}" if size >= _LINE else ""
