"""What a training will open of a passive's columns, counted before it runs: a line of `tacit plan`.

most_equations(...)         sums of one bin that the active opens, at most
ratio_that_determines(...)  equations per row above which only one column fits them, by counting
opened_words(...)           the sentence
"""

from __future__ import annotations

import math

SOLVED_RATIO = 0.1  # equations per row from which least squares names most bins: docs/trees-leaks.md


def most_equations(rows: int | None, trees: int, depth: int, least: int) -> int:
    """Opened sums of one bin, at most: those of g and of h of each opened node that does not follow from others.

    The independent nodes of a tree are at most as many as the last opened level has, and each holds `least` rows.
    """
    nodes = 1 << (depth - 1)
    return 2 * trees * (nodes if rows is None else max(1, min(nodes, rows // max(1, least))))


def ratio_that_determines(bins: int, bits: int, rows_a_bin: float) -> float:
    """Equations per row above which columns follow uniquely by counting, however they are computed.

    A column of equally frequent bins has log2(bins) bits a row. A sum of g over the rows of a bin in a node, on a grid
    of `bits`, has at most the entropy of a normal variable of its variance (g uniform on the grid), and tells that much
    of each bin but one. Below the ratio a part of a column may still follow.
    """
    variance = max(1 / 12, rows_a_bin * 4.0**bits / 12)
    told = 0.5 * math.log2(2 * math.pi * math.e * variance)
    return math.log2(bins) / ((bins - 1) * told)


def opened_words(rows: int | None, trees: int, depth: int, least: int, bins: int) -> str:
    """What the active may learn of a passive's columns, in a sentence. `bins` are those of a column, at most.

    `rows` are those trained on, if they are known.
    """
    count = most_equations(rows, trees, depth, least)
    values = max(1, bins - 1)  # without the bin of missing values
    groups = f"which is one of {values} groups in each column, or missing"
    if rows is None:
        return (
            f"the active opens up to {count:,} sums of each bin: {SOLVED_RATIO:g} or more a row are enough to solve "
            f"for the bin of every cell, {groups}; edges of bins and values stay with their owner"
        )
    ratio = count / rows
    if ratio >= SOLVED_RATIO:
        reading = "enough to solve for the bin of every cell"
    else:
        reading = f"a part of the cells; from {SOLVED_RATIO:g} a row on, the bin of every cell"
    return (
        f"the active opens up to {count:,} sums of each bin over {rows:,} rows ({ratio:.2g} a row): {reading}, "
        f"{groups}: of about {max(1, rows // values):,} rows each if values are spread evenly, and of few if few rows "
        "have a value; edges of bins and values stay with their owner"
    )
