"""A model as one flat vector: every protection works on that."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.horizontal.task import Arrays

Flat = NDArray[Any]  # float32 or float64
_BLOCK = 1 << 17  # numbers; they stay in the second-level cache


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
        self.check(model)
        return self.drain(dict(model))

    def own(self, model: Mapping[str, NDArray[Any]]) -> Flat:
        """The same, never a view."""
        flat = self.flatten(model)
        return flat if flat.flags.owndata else flat.copy()

    def check(self, model: Mapping[str, NDArray[Any]]) -> None:
        """ValueError unless these are arrays of this layout."""
        if tuple(model) != self.names:
            raise ValueError(f"a model of {', '.join(self.names)} is due, got {', '.join(model) or 'nothing'}")
        dtype = np.dtype(self.dtype)  # to compare types is faster than to compare their names
        for name, shape in zip(self.names, self.shapes, strict=True):
            array = model[name]
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"{name} must be {shape} of {self.dtype}, got {array.shape} of {array.dtype}")

    def drain(self, model: Arrays) -> Flat:
        """What `flatten` returns, of arrays that were checked. Each is let go once it is copied, and `model` is empty
        then: if nobody else has the arrays, this takes the memory of the model once, not twice."""
        if len(self.names) == 1:
            return np.ravel(model.pop(self.names[0]))
        flat = np.empty(self.size, dtype=self.dtype)
        for name, part in reversed(self.unflatten(flat).items()):  # what was made last is on top: it can be given back
            np.copyto(part, model.pop(name))
        return flat

    def unflatten(self, flat: Flat) -> Arrays:
        """Views into `flat`."""
        arrays, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            arrays[name] = flat[start : start + size].reshape(shape)
            start += size
        return arrays

    def digest(self, flat: Flat, *, signed_zeros: bool = True) -> bytes:
        """What two parties that hold the same model agree on."""
        digest = hashlib.sha256(repr((self.names, self.shapes, self.dtype)).encode())
        for block in blocks(np.ascontiguousarray(flat)):
            digest.update((block if signed_zeros else block + np.zeros((), block.dtype)).data.cast("B"))
        return digest.digest()


def read_only(flat: Flat) -> Flat:
    """A view that nobody can write to: what several use must stay as it is."""
    view = flat.view()
    view.flags.writeable = False
    return view


def blocks(flat: Flat) -> Iterator[Flat]:
    """A long vector block by block: what is computed of it then takes no memory of its size."""
    return (flat[start : start + _BLOCK] for start in range(0, len(flat), _BLOCK))


def is_finite(flat: Flat) -> bool:
    return all(np.isfinite(block).all() for block in blocks(flat))


def largest(flat: Flat) -> np.floating[Any]:
    """The largest absolute value, in the vector's own type, in which bounds are rounded too; NaN if there is one."""
    found: np.floating[Any] = np.max([np.abs(block).max() for block in blocks(flat)])
    return found
