"""Missing cells: what takes their place, found on the training rows and stored. Also cells as numbers, and as texts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.tables.cells import Cells, Floats, Numbers, Texts, canonical_texts
from tacit.tables.settings import Column, Missing

_SHOWN = 30  # characters of a cell in a message, which stays with this party


@dataclass(frozen=True, slots=True)
class Fill:
    """What a missing cell counts as. `value` is None for `own category` and `refuse`."""

    how: Missing
    value: float | str | None = None

    def __post_init__(self) -> None:
        filled = self.how in ("mean", "median", "constant")
        text = isinstance(self.value, str)
        if filled != (self.value is not None) or (text and self.how != "constant"):
            raise ValueError(f"missing: {self.how} with the value {self.value!r}")
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise ValueError(f"the numbers are too large for a {self.how}: scale them down, or give a constant")

    @classmethod
    def of_numbers(cls, cells: Cells, column: Column) -> Fill:
        """Found on these cells; `column` must say what is done with missing ones."""
        if column.missing not in ("mean", "median"):
            return cls(column.missing or "refuse", column.value)
        values = numbers_of(cells)
        present = values[~np.isnan(values)]
        if not len(present):
            raise ValueError("has no value in the training rows: drop it")
        return cls(column.missing, _mean(present) if column.missing == "mean" else float(np.median(present)))

    @classmethod
    def of_texts(cls, column: Column) -> Fill:
        return cls(column.missing or "refuse", column.value)

    def numbers(self, cells: Cells) -> Floats:
        """The cells with missing ones filled; NaN is left for those that are a category of their own."""
        values = numbers_of(cells)
        missing = np.isnan(values)
        if self.how == "own category" or not missing.any():
            return values
        self._refuse(int(missing.argmax()))
        return np.where(missing, np.float64(self.value or 0.0), values)

    def texts(self, cells: Cells) -> list[str]:
        """The cells as texts with missing ones filled; "" is left for those that are a category of their own."""
        texts = texts_of(cells)
        if self.how == "own category" or "" not in texts:
            return texts
        self._refuse(texts.index(""))
        return [text or str(self.value) for text in texts]

    def _refuse(self, row: int) -> None:
        if self.how == "refuse":
            raise ValueError(
                f"row {row + 1} has no value, and `missing: refuse` takes none: fill it in or leave it out"
            )


def _mean(values: Floats) -> float:
    try:
        return math.fsum(values) / len(values)  # exactly rounded: the same for any order of the rows
    except OverflowError:
        return math.inf


def numbers_of(cells: Cells) -> Floats:
    """Cells as numbers, NaN where one is missing. Texts are refused, unless all are missing."""
    if isinstance(cells, Texts):
        for row, text in enumerate(cells.values):
            if text:
                raise ValueError(f'row {row + 1} holds "{text[:_SHOWN]}", and a number is needed')
        return np.full(len(cells), np.nan)
    infinite = np.isinf(cells.values)
    if infinite.any():
        raise ValueError(f"row {int(infinite.argmax()) + 1} holds an infinite number: correct it or leave it out")
    return cells.values


def texts_of(cells: Cells) -> list[str]:
    """Cells as texts, "" where one is missing; infinite numbers are refused."""
    return canonical_texts(cells if isinstance(cells, Texts) else Numbers(numbers_of(cells), cells.kind))
