"""A summary of each column, as plain text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from tacit.tables.cells import Cells, Texts, canonical
from tacit.tables.problems import printable

_EPOCH = date(1970, 1, 1).toordinal()
_WIDTH = 24  # characters of a cell, at most
_COMMON = 0.01  # of the rows: a rarer text is an example of one person, and is not shown
_HEADER = ("column", "kind", "use", "missing", "distinct", "least", "largest", "commonest")


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What is in a column. Of ids no value is shown."""

    name: str
    kind: str  # number, date or text
    use: str
    missing: int
    distinct: int
    least: str = ""  # of numbers and dates
    largest: str = ""
    commonest: str = ""  # of text, with its part of the rows


def summary_of(name: str, cells: Cells, use: str, *, secret: bool = False) -> ColumnSummary:
    if isinstance(cells, Texts):
        counts = Counter(cells.values)
        missing = counts.pop("", 0)
        top, often = counts.most_common(1)[0] if counts else ("", 0)
        top = "" if secret or often < max(2, _COMMON * len(cells)) else top
        share = f" {counts[top] / len(cells):.0%}" if top else ""
        return ColumnSummary(name, "text", use, missing, len(counts), commonest=_cut(top, len(share)) + share)
    values = np.unique(cells.values[~np.isnan(cells.values)])
    missing = int(np.isnan(cells.values).sum())
    if secret or not len(values):
        return ColumnSummary(name, cells.kind, use, missing, len(values))
    shown = [_number(float(each), cells.kind) for each in (values[0], values[-1])]
    return ColumnSummary(name, cells.kind, use, missing, len(values), *shown)


def _number(value: float, kind: str) -> str:
    if kind == "date" and -_EPOCH < value < 2_932_897:
        return date.fromordinal(int(np.floor(value)) + _EPOCH).isoformat()
    return f"{value:.6g}" if not np.isfinite(value) or value != int(value) else canonical(value)


def _cut(text: str, taken: int = 0) -> str:
    text = " ".join(printable(text).split())
    return text if len(text) + taken <= _WIDTH else text[: _WIDTH - taken - 1] + "…"


def table_lines(summary: Sequence[ColumnSummary]) -> list[str]:
    """The summary as aligned columns of plain text."""
    if not summary:
        return []
    rows = [_HEADER] + [
        (
            _cut(each.name),
            each.kind,
            each.use,
            str(each.missing),
            str(each.distinct),
            _cut(each.least),
            _cut(each.largest),
            each.commonest,
        )
        for each in summary
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADER))]
    right = {3, 4, 5, 6}  # numbers
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
