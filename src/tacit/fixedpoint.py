"""The one codec between floats and integers: a grid of step 2^-fraction_bits, or a ring modulo 2^b on it.

    Grid(fraction_bits)                       floats <-> int64 multiples of the step
    Ring(modulus_bits, grid, largest_sum)     grid integers <-> residues; sums up to largest_sum do not wrap
    word_type(bits)                           the type in which residues of so many bits are added up
    residues(integers, bits)                  whole numbers modulo 2^bits, in that type
    signed(residues, bits)                    and back, from -2^(bits - 1) to 2^(bits - 1) - 1

A sum comes back as a float64: exact up to 2^53 steps, to 53 bits beyond.

Values that do not fit are an error: nothing is ever clipped or wrapped silently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Residues = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]
WordType = type[Any]  # np.uint16, np.uint32 or np.uint64

FEWEST_BITS, MOST_BITS = 8, 64  # of a residue
_EXACT = 2**53  # up to here a float64 holds every integer
_BLOCK = 1 << 16  # numbers; they stay in the second-level cache


def word_type(bits: int) -> WordType:
    """The smallest of uint16, uint32 and uint64 that holds `bits`.

    Residues modulo 2^bits are added in it without reducing them: the low bits of a sum depend on low bits alone.
    """
    if not FEWEST_BITS <= bits <= MOST_BITS:
        raise ValueError(f"a residue has {FEWEST_BITS} to {MOST_BITS} bits, got {bits}")
    return np.uint16 if bits <= 16 else np.uint32 if bits <= 32 else np.uint64


def residues(integers: Ints, bits: int) -> Residues:
    """`integers` modulo 2^bits."""
    kind = word_type(bits)
    words: Residues = integers.astype(kind)
    if bits < words.dtype.itemsize * 8:
        words &= kind(2**bits - 1)
    return words


def signed(words: Residues, bits: int) -> Ints:
    """The numbers from -2^(bits - 1) to 2^(bits - 1) - 1 whose residues are the low bits of `words`."""
    spare = words.dtype.itemsize * 8 - bits
    kept = np.left_shift(words, spare).view(f"i{words.dtype.itemsize}") if spare else words.view(f"i{bits // 8}")
    return np.asarray(kept >> spare, dtype=np.int64)


def as_finite(values: Any, name: str = "values") -> Floats:
    """`values` as a float64 array; what is empty, not finite, or changed by that is the caller's mistake."""
    given = np.asarray(values)
    if given.size == 0:
        raise ValueError(f"{name} is empty: give at least one number")
    if given.dtype.kind not in "fiub" or given.dtype.itemsize > 8:
        raise ValueError(f"{name} must be real numbers of up to 64 bits, got {given.dtype}")
    if given.dtype.kind in "iu" and (given.max() > _EXACT or given.min() < -_EXACT):
        raise ValueError(f"{name} holds integers beyond 2^53, which a float64 would round: scale them down")
    array = given.astype(np.float64, copy=False)
    if not math.isfinite(magnitude(array)):
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise ValueError(f"{name} holds {bad} NaN or infinite of {array.size} numbers: all must be finite")
    return array


def finite_blocks(values: Any, size: int) -> Iterator[tuple[slice, Floats]]:
    """A vector of `size` numbers block by block, each with its place and as `as_finite` gives it: a float64 copy of a
    long one would be most of the memory that its encoding takes."""
    given = np.asarray(values)
    if given.shape != (size,):
        raise ValueError(f"values must be a vector of {size}, got shape {given.shape}")
    for start in range(0, size, _BLOCK):
        place = slice(start, min(start + _BLOCK, size))
        yield place, as_finite(given[place])


def magnitude(array: Floats | Ints) -> Any:
    """The largest magnitude, NaN if there is one: without the copy that `abs` would make."""
    return max(array.max().item(), -array.min().item())


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of 2^-fraction_bits; a negative count of bits is a step above 1."""

    fraction_bits: int

    def __post_init__(self) -> None:
        if self.fraction_bits != int(self.fraction_bits) or not -900 <= self.fraction_bits <= 900:
            raise ValueError(f"fraction_bits must be in [-900, 900], got {self.fraction_bits}")

    @property
    def step(self) -> float:
        return math.ldexp(1.0, -self.fraction_bits)

    def encode(self, values: Any, rng: Generator | None = None) -> Ints:
        """The nearest multiples (ties to even), or with `rng` one of the two neighbours, right in expectation.

        Scaling by a power of two is exact. Stochastic rounding compares with a 53-bit uniform number: its expectation
        is off by at most 2^-53 steps.
        """
        scaled = as_finite(values) * math.ldexp(1.0, self.fraction_bits)
        largest = magnitude(scaled)
        if largest > _EXACT:
            raise ValueError(
                f"values reach {largest * self.step:.6g}, a grid of step {self.step:.3g} holds up to "
                f"{_EXACT * self.step:.6g}: scale the values down or take fewer fraction bits"
            )
        if rng is None:
            return np.rint(scaled).astype(np.int64)
        below = np.floor(scaled)
        return below.astype(np.int64) + (rng.random(scaled.shape) < scaled - below)

    def decode(self, integers: Ints) -> Floats:
        decoded: Floats = np.multiply(integers, self.step, dtype=np.float64)
        return decoded

    def decode_wide(self, integers: Sequence[int]) -> Floats:
        """The same for integers of any length; ValueError for one beyond the floats."""
        try:
            return np.array([math.ldexp(integer, -self.fraction_bits) for integer in integers], dtype=np.float64)
        except OverflowError:
            longest = max(integer.bit_length() for integer in integers)
            raise ValueError(f"an integer has {longest} bits, a float64 holds up to 1024") from None


@dataclass(frozen=True, slots=True)
class Ring:
    """Signed grid integers as residues modulo 2^modulus_bits, such that sums up to `largest_sum` cannot wrap."""

    modulus_bits: int
    grid: Grid
    largest_sum: float

    def __post_init__(self) -> None:
        word_type(self.modulus_bits)  # refused if there is none
        if not 0 < self.largest_sum < 1e30:
            raise ValueError(f"largest_sum must be above 0 and finite, got {self.largest_sum}")
        if self._bound >= 2 ** (self.modulus_bits - 1):
            raise ValueError(
                f"sums up to {self.largest_sum:.6g} in steps of {self.grid.step:.3g} need more than "
                f"{self.modulus_bits} bits: take a larger ring or fewer fraction bits"
            )

    @property
    def _bound(self) -> int:
        return math.ceil(math.ldexp(self.largest_sum, self.grid.fraction_bits))

    @property
    def dtype(self) -> WordType:
        return word_type(self.modulus_bits)

    def encode(self, values: Any, rng: Generator | None = None) -> Residues:
        """Residues of one summand; it must not exceed `largest_sum` by itself."""
        integers = self.grid.encode(values, rng)
        largest = magnitude(integers)
        if largest > self._bound:
            raise ValueError(
                f"values reach {largest * self.grid.step:.6g}, this ring is sized for sums up to {self.largest_sum:.6g}"
            )
        return residues(integers, self.modulus_bits)

    def decode(self, words: Residues) -> Floats:
        """The signed sum. A residue outside the promised range means that a party encoded too much."""
        if words.dtype != self.dtype:
            raise ValueError(f"residues must be {np.dtype(self.dtype)}, got {words.dtype}")
        integers = signed(words, self.modulus_bits)
        largest = max(int(integers.max(initial=0)), -int(integers.min(initial=0)))
        if largest > self._bound:
            raise ValueError(
                f"the sum reaches {largest * self.grid.step:.6g}, at most {self.largest_sum:.6g} was promised"
            )
        return self.grid.decode(integers)
