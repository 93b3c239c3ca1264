"""Clipping: bound the norm of a vector, or of a list of arrays as one vector, in place.

The result is within the bound as a real number, not only up to rounding: the factor is lowered by the largest error
that the norm and the multiplication can have. Norms are summed in float64 over blocks, so that no copy is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.dp.release import check_positive

__all__ = ["Clipped", "clip_l1", "clip_l2"]

_BLOCK = 1 << 13
_SUM_ERROR = (_BLOCK + 8) * 2.0**-53  # relative error of a block's sum, and of the sum of the blocks' sums
Vector = NDArray[Any] | Sequence[NDArray[Any]]
Block = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clipped:
    """What clipping found. Both numbers derive from private data and are not covered by any epsilon."""

    norm: float
    factor: float  # 1 where nothing was done


def clip_l2(vector: Vector, bound: float) -> Clipped:
    """Scale `vector` in place so that its L2 norm is at most `bound`."""
    return _clip(vector, bound, lambda block: float(block @ block), math.sqrt)


def clip_l1(vector: Vector, bound: float) -> Clipped:
    """Scale `vector` in place so that its L1 norm is at most `bound`."""
    return _clip(vector, bound, lambda block: float(np.abs(block).sum()), float)


def _clip(vector: Vector, bound: float, block_sum: Callable[[Block], float], root: Callable[[float], float]) -> Clipped:
    arrays = [vector] if isinstance(vector, np.ndarray) else list(vector)
    bound = _check(arrays, bound)
    unit, total = 1.0, _total(arrays, block_sum)
    if not 1e-280 < total < 1e280:  # squares left the range of floats, or the vector is 0, or it is not finite
        unit = max(max(float(block.max()), -float(block.min())) for block in _blocks(arrays))
        if not math.isfinite(unit) or math.isnan(total):
            raise ValueError("the vector holds NaN or infinite numbers: repair it before it is clipped")
        if unit == 0:
            return Clipped(0.0, 1.0)
        total = _total(arrays, lambda block: block_sum(block / unit))
    norm = root(total)  # in units of `unit`
    margin = _SUM_ERROR + 2 * max(float(np.finfo(array.dtype).eps) for array in arrays)
    if norm * (1 + margin) <= bound / unit:
        return Clipped(norm * unit, 1.0)
    # The factor in two parts, of which the second is a power of two: it may be smaller than any float.
    (bound_part, bound_power), (unit_part, unit_power) = math.frexp(bound), math.frexp(unit)
    (norm_part, norm_power) = math.frexp(norm)
    part, power = math.frexp(bound_part / (unit_part * norm_part) * (1 - 2 * margin))
    power += bound_power - unit_power - norm_power
    for array in arrays:
        np.multiply(array, array.dtype.type(part), out=array)
        np.ldexp(array, power, out=array)
    return Clipped(norm * unit, math.ldexp(part, power))


def _total(arrays: list[NDArray[Any]], block_sum: Callable[[Block], float]) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        sums = [block_sum(block) for block in _blocks(arrays)]
    try:
        return math.fsum(sums) if all(map(math.isfinite, sums)) else sum(sums)
    except OverflowError:
        return math.inf


def _blocks(arrays: list[NDArray[Any]]) -> Iterator[Block]:
    """The numbers of all arrays as float64, a block at a time, whatever their layout."""
    for array in arrays:
        if array.size:
            flags = ["external_loop", "buffered"]
            yield from np.nditer(array, flags=flags, op_dtypes=["f8"], buffersize=_BLOCK)  # type: ignore[arg-type]


def _check(arrays: list[NDArray[Any]], bound: float) -> float:
    bound = check_positive("bound", bound)
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise ValueError("clipping works in place: pass a numpy array, or a list of them")
    if sum(array.size for array in arrays) == 0:
        raise ValueError("the vector is empty: give at least one number to clip")
    for array in arrays:
        if array.dtype not in (np.float32, np.float64):
            raise ValueError(f"clipping is for float32 and float64 arrays, got {array.dtype}")
        if not array.flags.writeable:
            raise ValueError("clipping works in place, and an array is read-only: pass a copy")
        info = np.finfo(array.dtype)
        smallest = float(info.tiny) / float(info.eps) ** 2
        if bound < smallest:
            raise ValueError(f"bound must be at least {smallest:.3g} for {array.dtype}, got {bound!r}")
    return bound
