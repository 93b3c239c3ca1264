"""One party's features times the other's words: shares of every product, for one word per digit.

    digits_of(features, layout)                            the holes of the owner's trees, one for each digit of a cell
    give(session, leaves, tweak, factors, layout)          the other party: its message, and its shares
    take(session, leaves, holes, tweak, message, layout)   the owner: its shares

The owner has a matrix of small signed integers x, its features. A cell is written as x + 2^(B-1) in digits of a few
bits; each digit is the hole of one punctured tree, made once (`tacit.crypto.punctured`). For a matrix of factors v of
the other party, ring words, both get shares of x·v in each cell: of digit δ in Σ k·(share of leaf k), which is δ·v,
times the place of the digit. The other party takes off 2^(B-1)·v, which it knows. Rows and columns of shares are added
up locally: `words.total` over an axis gives shares of X·v and of Xᵀ·r.

Guarantee: what `punctured` says: the owner sees uniform words, the other party nothing.
Assumes: what `punctured` assumes; each tweak, which both take from their counters, is used for one matrix of factors.
Source: products by punctured trees follow the correlated transfers of Gilboa 1999, with a digit of several bits in
    place of a bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.fixed_key import Blocks
from tacit.crypto.ot.transfers import check_length
from tacit.crypto.ot.words import (
    Bits,
    Words,
    add,
    low_bytes,
    negative,
    of_low_bytes,
    shifted,
    subtract,
    times,
    word_bytes,
)
from tacit.crypto.punctured import Holes, word_sums

__all__ = ["Layout", "digits_of", "give", "take"]

_AT_ONCE = 1 << 13  # trees whose words are added up together


@dataclass(frozen=True, slots=True)
class Layout:
    """How features are written, and the ring of the products.

    Args:
        digits: of a feature.
        digit_bits: the depth of a digit's tree.
        bits: of a word.
        width: bytes of a word of 64 bits that cross; the products are shares modulo 2^(8·width).
    """

    rows: int
    columns: int
    digits: int = 3
    digit_bits: int = 4
    bits: Bits = 64
    width: int | None = None

    def __post_init__(self) -> None:
        if self.width is not None and (self.bits != 64 or not 1 <= self.width <= 8):
            raise ValueError(f"1 to 8 bytes of words of 64 bits cross, got {self.width} of {self.bits} bits")
        word_bytes(self.bits)
        if min(self.rows, self.columns, self.digits, self.digit_bits) < 1:
            raise ValueError("products have at least one row, column, digit and bit of a digit")
        if self.feature_bits > 32:
            raise ValueError(f"features have at most 32 bits, got {self.digits} digits of {self.digit_bits}")

    @property
    def feature_bits(self) -> int:
        return self.digits * self.digit_bits

    @property
    def trees(self) -> int:
        return self.rows * self.columns * self.digits

    @property
    def message_bytes(self) -> int:
        return self.trees * (word_bytes(self.bits) if self.width is None else self.width)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a matrix of words."""
        return (self.rows, self.columns) if self.bits == 64 else (self.rows, self.columns, 2)

    @property
    def flat(self) -> tuple[int, ...]:
        """Of one word for each tree."""
        return (self.trees,) if self.bits == 64 else (self.trees, 2)


def digits_of(features: NDArray[np.int64], layout: Layout) -> Holes:
    """The digits of all cells, the lowest of a cell first. ValueError if a feature has too many bits."""
    half = 1 << (layout.feature_bits - 1)
    if features.shape != (layout.rows, layout.columns) or features.dtype.kind != "i":
        raise ValueError(f"features are integers of shape {(layout.rows, layout.columns)}, got {features.shape}")
    if not -half <= int(features.min()) <= int(features.max()) < half:
        raise ValueError(f"features of {layout.feature_bits} bits lie from {-half} to {half - 1}")
    places = layout.digit_bits * np.arange(layout.digits)
    holes: Holes = (features[..., None].astype(np.int64) + half) >> places & ((1 << layout.digit_bits) - 1)
    return holes.reshape(-1)


def give(session: bytes, leaves: Blocks, tweak: int, factors: Words, layout: Layout) -> tuple[bytes, Words]:
    """The other party's message, and its shares of the products in each cell; `factors` is a matrix of words."""
    if factors.shape != layout.shape:
        raise ValueError(f"factors have shape {layout.shape}, got {factors.shape}")
    sums, weighted = np.empty(layout.flat, dtype=np.uint64), np.empty(layout.flat, dtype=np.uint64)
    for part in _parts(layout):
        sums[part], weighted[part] = word_sums(session, leaves[:, part], tweak, layout.bits)
    message = add(sums, np.repeat(factors.reshape(-1, *factors.shape[2:]), layout.digits, axis=0), layout.bits)
    offset = shifted(factors, layout.feature_bits - 1, layout.bits)
    sent = message.tobytes() if layout.width is None else low_bytes(message, layout.width)
    return sent, negative(add(_joined(weighted, layout), offset, layout.bits), layout.bits)


def take(session: bytes, leaves: Blocks, holes: Holes, tweak: int, message: bytes, layout: Layout) -> Words:
    """The owner's shares of the products in each cell, from the other party's message."""
    check_length(message, layout.message_bytes, f"the products of {layout.rows} × {layout.columns} features")
    whole = np.frombuffer(message, dtype="<u8") if layout.width is None else of_low_bytes(message, layout.width)
    sent = whole.reshape(layout.flat)
    found = np.empty(layout.flat, dtype=np.uint64)
    for part in _parts(layout):
        sums, weighted = word_sums(session, leaves[:, part], tweak, layout.bits, holes[part])
        missing = subtract(sent[part], sums, layout.bits)
        found[part] = add(weighted, times(missing, holes[part].astype(np.uint64), layout.bits), layout.bits)
    return _joined(found, layout)


def _joined(digits: Words, layout: Layout) -> Words:
    """The products of all digits of a cell, each in its place, added up."""
    cells = digits.reshape(layout.rows, layout.columns, layout.digits, *digits.shape[1:])
    result: Words = cells[:, :, 0]
    for digit in range(1, layout.digits):
        moved = shifted(cells[:, :, digit], digit * layout.digit_bits, layout.bits)
        result = add(result, moved, layout.bits)
    return result


def _parts(layout: Layout) -> Iterator[slice]:
    return (slice(start, start + _AT_ONCE) for start in range(0, layout.trees, _AT_ONCE))
