"""The public rotation of distributed DP: random signs and a Hadamard matrix spread each number over all columns.

    columns(values)                  the fewest columns, at least `values`, for which there is a matrix here
    rotate(vector, key)              signs, then the matrix; the norm stays
    turn_back(vector, key)           its inverse

All entries of a Hadamard matrix are 1 or -1, so that a column of the result, divided by the root of their number, is
sub-Gaussian in the signs, with the norm as its parameter. For 2^k columns it is that of Sylvester. For others it is the
Kronecker product of one with that of Paley of order q + 1, q a prime and 3 modulo 4: at most one column in eight is
padding then, not one in two.

Source: Kairouz, Liu, Steinke 2021, section 3; Paley 1933, lemma 2.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.prg import add_mask
from tacit.fixedpoint import Floats

_ORDERS = (1, 12, 20, 44, 60, 68, 72, 84, 104, 108)  # of the first factor: 1, or q + 1 that is no such order times 2^k
_BY_ODD_PART = {order // (order & -order): order for order in _ORDERS}
_KEY_BYTES = 16


def columns(values: int) -> int:
    """The fewest columns that hold `values` numbers."""
    return min(order << max(0, (-(-values // order) - 1).bit_length()) for order in _ORDERS)


def rotate(vector: Floats, key: bytes) -> Floats:
    """The vector, which has as many numbers as a matrix has columns, in a basis that `key` and nothing else fixes."""
    return _transform(vector * _signs(len(vector), key), back=False)


def turn_back(vector: Floats, key: bytes) -> Floats:
    """What `rotate` was given."""
    return _transform(vector, back=True) * _signs(len(vector), key)


def _transform(vector: Floats, *, back: bool) -> Floats:
    size = len(vector)
    order = _BY_ODD_PART.get(size // (size & -size))
    if order is None or size % order:
        raise ValueError(f"there is no Hadamard matrix of order {size} here: take `columns` of them")
    result = vector.reshape(order, -1).copy()
    _sylvester(result)
    if order > 1:
        matrix = _paley(order)
        result = (matrix.T if back else matrix) @ result
    result /= math.sqrt(size)
    return result.reshape(-1)


def _sylvester(rows: Floats) -> None:
    """The Walsh-Hadamard transform of each row, in place and without its factor."""
    width, length = 1, rows.shape[1]
    while width < length:
        pairs = rows.reshape(-1, 2, width)
        left = pairs[:, 0].copy()
        pairs[:, 0] += pairs[:, 1]
        np.subtract(left, pairs[:, 1], out=pairs[:, 1])
        width *= 2


@lru_cache(maxsize=len(_ORDERS))
def _paley(order: int) -> Floats:
    """Paley's first matrix: that of quadratic residues modulo q, bordered, plus the identity."""
    q = order - 1
    character = np.full(q, -1.0)
    character[[number * number % q for number in range(1, q)]] = 1.0
    character[0] = 0.0
    places = np.arange(q)
    matrix = np.ones((order, order))
    matrix[1:, 0] = -1.0
    matrix[1:, 1:] = character[(places[:, np.newaxis] - places) % q] + np.eye(q)
    return matrix


@lru_cache(maxsize=4)
def _signs(size: int, key: bytes) -> NDArray[np.float64]:
    if len(key) < _KEY_BYTES:
        raise ValueError(f"rotation must have {_KEY_BYTES} bytes or more, got {len(key)}")
    words = np.zeros(-(-size // 32), dtype=np.uint32)
    add_mask(words, key[:_KEY_BYTES])
    bits = np.unpackbits(words.astype("<u4").view(np.uint8))[:size]
    return 1.0 - 2.0 * bits.astype(np.float64)
