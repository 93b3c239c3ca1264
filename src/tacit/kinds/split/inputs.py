"""What a network gets of a party's table: its transforms, then each feature with mean 0 and deviation 1.

    inputs = Inputs.fit(table, training_rows)       # on these rows only
    inputs.apply(cells)                             # float32, rows × inputs.width, of any rows
    Inputs.restore(inputs.state())                  # by plain arrays, exactly

Every number of a row depends on that row and on the training rows alone, to the last bit: a row that is scored alone
and among others enters the network as the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.tables.cells import Cells, Floats, Ints, take
from tacit.tables.fitted import Fitted
from tacit.tables.table import Table

_TRANSFORMS, _MEAN, _FACTOR = "transforms", "mean", "factor"
_FLAT = 1e-12  # a deviation below this share of the largest number is rounding


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Transforms of a table, and what makes their features of one size."""

    transforms: Fitted
    mean: Floats
    factor: Floats  # 0 for a feature that is the same in all training rows: it counts for nothing

    @property
    def width(self) -> int:
        return len(self.mean)

    @classmethod
    def fit(cls, table: Table, rows: Ints) -> Inputs:
        """On these rows of the table only."""
        transforms = table.fit(rows)
        features = transforms.apply({name: take(cells, rows) for name, cells in table.cells.items()})
        if not len(transforms.features):
            return cls(transforms, np.zeros(0), np.zeros(0))
        mean, deviation = features.mean(axis=0), features.std(axis=0)
        varies = deviation > _FLAT * np.abs(features).max(axis=0)
        factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
        return cls(transforms, mean, factor)

    def apply(self, cells: Mapping[str, Cells]) -> NDArray[np.float32]:
        """Rows × features."""
        return ((self.transforms.apply(cells) - self.mean) * self.factor).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays; the transforms are JSON in bytes."""
        plain = np.frombuffer(json.dumps(self.transforms.state()).encode(), dtype=np.uint8).copy()
        return {_TRANSFORMS: plain, _MEAN: self.mean.copy(), _FACTOR: self.factor.copy()}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Inputs:
        """The same as was stored; ValueError if it is damaged."""
        if not {_TRANSFORMS, _MEAN, _FACTOR} <= state.keys():
            raise ValueError("the stored model has no transforms: take it from a copy, or train it anew")
        transforms = Fitted.restore(json.loads(np.asarray(state[_TRANSFORMS], dtype=np.uint8).tobytes()))
        mean, factor = (np.asarray(state[name], dtype=np.float64) for name in (_MEAN, _FACTOR))
        if mean.shape != factor.shape or mean.shape != (len(transforms.features),):
            raise ValueError("the stored transforms are damaged: take the model from a copy, or train it anew")
        return cls(transforms, mean, factor)
