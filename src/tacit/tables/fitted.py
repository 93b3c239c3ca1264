"""A stand-in until the fitted transforms are merged: numbers as they are, the mean for missing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.tables.cells import Cells, Floats, Ints, Numbers, Reading
from tacit.tables.choose import Choice


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    columns: tuple[tuple[str, float], ...]
    readings: Mapping[str, Reading]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def apply(self, cells: Mapping[str, Cells]) -> Floats:
        numbers = [(cells[name], mean) for name, mean in self.columns]
        return np.column_stack([np.nan_to_num(c.values, nan=m) for c, m in numbers if isinstance(c, Numbers)])


def fit(
    choices: Sequence[Choice],
    cells: Mapping[str, Cells],
    readings: Mapping[str, Reading],
    rows: Ints,
    labels: Ints | None = None,
) -> Fitted:
    kept = [(choice.name, cells[choice.name]) for choice in choices if choice.use != "drop"]
    means = [(name, float(np.nanmean(c.values[rows])) if isinstance(c, Numbers) else 0.0) for name, c in kept]
    return Fitted(tuple(means), readings)
