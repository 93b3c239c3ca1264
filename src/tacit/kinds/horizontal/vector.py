"""A model as one flat vector: every protection works on that."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.horizontal.task import Arrays

Flat = NDArray[Any]  # float32 or float64


@dataclass(frozen=True, slots=True)
class Layout:
    """The names and shapes of a model's arrays, in order, and their one type."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str

    @classmethod
    def of(cls, model: Mapping[str, NDArray[Any]]) -> Layout:
        if not model:
            raise ValueError("the model has no arrays: a task's model() must return at least one")
        types = {str(array.dtype) for array in model.values()}
        if len(types) > 1 or not types <= {"float32", "float64"}:
            raise ValueError(
                f"the arrays of a model must all be float32 or all be float64, got {', '.join(sorted(types))}"
            )
        return cls(tuple(model), tuple(array.shape for array in model.values()), types.pop())

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def flatten(self, model: Mapping[str, NDArray[Any]]) -> Flat:
        """The arrays end to end; a view where the model is one contiguous array."""
        if tuple(model) != self.names:
            raise ValueError(f"a model of {', '.join(self.names)} is due, got {', '.join(model) or 'nothing'}")
        dtype = np.dtype(self.dtype)  # to compare types is faster than to compare their names
        for name, shape in zip(self.names, self.shapes, strict=True):
            array = model[name]
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"{name} must be {shape} of {self.dtype}, got {array.shape} of {array.dtype}")
        parts = [np.ravel(model[name]) for name in self.names]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def unflatten(self, flat: Flat) -> Arrays:
        """Views into `flat`."""
        arrays, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            arrays[name] = flat[start : start + size].reshape(shape)
            start += size
        return arrays

    def digest(self, flat: Flat) -> bytes:
        """What two parties that hold the same model agree on."""
        head = repr((self.names, self.shapes, self.dtype)).encode()
        return hashlib.sha256(head + np.ascontiguousarray(flat).data.cast("B")).digest()
