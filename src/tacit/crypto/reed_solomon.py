"""Reed-Solomon codes modulo p = 2^31 - 1: which values of a polynomial are wrong.

    barycentric(points)                     1 / prod_(j != i) (x_i - x_j) for each point
    syndromes(points, values, dimension)    zero for the values of polynomials with `dimension` coefficients
    wrong_places(points, syndromes)         where the values of one column are wrong, or None if they are too many

A code of `dimension` k at m points corrects floor((m - k) / 2) wrong values, whatever they are. The syndromes of a word
depend on its errors alone; the shortest recurrence that they satisfy (Berlekamp-Massey) has the wrong points as its
roots. All steps are vector operations on 64-bit integers: a product of two numbers below p stays below 2^62.

Source: Berlekamp 1968; Massey 1969, algorithm 2; for arbitrary points the dual code of MacWilliams and Sloane, chapter
12, theorem 4.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

PRIME = 2**31 - 1
_BLOCK = 256  # rows of a square table that are in memory at once


@lru_cache(maxsize=16)
def barycentric(points: tuple[int, ...]) -> Ints:
    """1 / prod_(j != i) (x_i - x_j) modulo p, for each point x_i."""
    x = np.array(points, dtype=np.int64)
    products: list[int] = []
    for start in range(0, len(x), _BLOCK):
        block = x[start : start + _BLOCK]
        factors = (block[:, np.newaxis] - x) % PRIME
        factors[np.arange(len(block)), start + np.arange(len(block))] = 1
        products += _row_products(factors).tolist()
    return np.array(inverses(products), dtype=np.int64)


def syndromes(points: tuple[int, ...], values: Ints, dimension: int) -> Ints:
    """sum_i v_i x_i^j y_i for j = 0 ... m - dimension - 1 and each column y of `values`, with barycentric weights v."""
    x = np.array(points, dtype=np.int64)[:, np.newaxis]
    terms = barycentric(points)[:, np.newaxis] * values % PRIME
    found = np.empty((len(points) - dimension, values.shape[1]), dtype=np.int64)
    for row in found:
        row[:] = terms.sum(axis=0) % PRIME
        terms = terms * x % PRIME
    return found


def wrong_places(points: tuple[int, ...], syndromes: Ints) -> NDArray[np.intp] | None:
    """The places of the wrong values in a word with these syndromes.

    Guarantee: exact if no more than half as many values as there are syndromes are wrong. If more are, the answer is
        None or wrong: check what comes of it.
    """
    locator = _shortest_recurrence(syndromes)
    if 2 * (len(locator) - 1) > len(syndromes):
        return None
    x = np.array(points, dtype=np.int64)
    values = np.zeros_like(x)
    for coefficient in locator.tolist():  # the recurrence's polynomial, by Horner's rule, has the wrong points as roots
        values = (values * x + coefficient) % PRIME
    places = np.flatnonzero(values == 0)
    return places if len(places) == len(locator) - 1 else None


def _shortest_recurrence(sequence: Ints) -> Ints:
    """c_0 = 1, c_1 ... c_L with sum_i c_i s_(n - i) = 0 for all n >= L, and the least L."""
    count = len(sequence)
    current, before = np.zeros(count + 1, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
    current[0] = before[0] = 1
    length, shift, last = 0, 1, 1
    for n in range(count):
        window = sequence[n - length : n + 1][::-1]
        discrepancy = int((current[: length + 1] * window % PRIME).sum() % PRIME)
        if discrepancy:
            factor = discrepancy * pow(last, -1, PRIME) % PRIME
            changed = current.copy()
            changed[shift:] = (changed[shift:] - factor * before[: count + 1 - shift]) % PRIME
            if 2 * length <= n:
                length, before, last, shift = n + 1 - length, current, discrepancy, 0
            current = changed
        shift += 1
    return current[: length + 1]


def _row_products(factors: Ints) -> Ints:
    """The product of each row modulo p."""
    while factors.shape[1] > 1:
        if factors.shape[1] % 2:
            factors = np.hstack([factors, np.ones((len(factors), 1), dtype=np.int64)])
        half = factors.shape[1] // 2
        factors = factors[:, :half] * factors[:, half:] % PRIME
    return factors[:, 0]


def inverses(numbers: list[int]) -> list[int]:
    """The inverses modulo p, for the price of one inversion (Montgomery's trick)."""
    before = [1]
    for number in numbers:
        before.append(before[-1] * number % PRIME)
    rest = pow(before.pop(), -1, PRIME)
    found = []
    for number, product in zip(reversed(numbers), reversed(before), strict=True):
        found.append(rest * product % PRIME)
        rest = rest * number % PRIME
    return found[::-1]
