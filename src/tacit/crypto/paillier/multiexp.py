"""Products of powers of ciphertexts, many at once: the matrix product under encryption.

Row j of the result is prod_i c_i^x_ji modulo n², by Pippenger's buckets over signed digits: in each window of w bits a
ciphertext goes into the bucket of its digit, and the buckets are joined by running products.

Writing c = a (1 + n b) modulo n² with a below n halves the price. The powers of (1 + n b) add up as
prod (1 + n b_i)^x_i = 1 + n sum b_i x_i, which is arithmetic with small numbers. What is left are the a_i: two of them
multiply to less than n², so that only every second product needs a reduction, the dearer half of a modular product.

Source: Pippenger 1976; Bernstein, "Pippenger's exponentiation algorithm", 2002.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import mul

import numpy as np
from gmpy2 import divexact, mpz, powmod, t_divmod
from numpy.typing import NDArray

from tacit.crypto.paillier.inverses import inverses

LARGEST_ENTRY = 2**62
_WIDEST_WINDOW = 14
_PAIR_PRICE = 0.56  # of putting one element into a bucket, in modular products: half a reduced and half a plain one


def powers(matrix: NDArray[np.int64], ciphertexts: Sequence[mpz], n: mpz) -> list[mpz]:
    """prod_i ciphertexts[i]^matrix[j, i] modulo n² for each row j. Every ciphertext must be a unit."""
    modulus = n * n
    window = _window(int(np.abs(matrix).max(initial=0)).bit_length(), len(ciphertexts))
    digits = _signed_digits(matrix, window)
    used = np.flatnonzero(matrix.any(axis=0)).tolist()
    bases = _Bases([ciphertexts[i] for i in used], n)
    negative = _negative_parts(matrix, digits, window)
    results = []
    for row in range(len(matrix)):
        total: mpz | None = None
        for windows in reversed(digits):
            if total is not None:
                total = powmod(total, 1 << window, modulus)
            part = _joined(_buckets(windows[row, used].tolist(), bases, 1 << window - 1), modulus)
            total = _times(total, part, modulus)
        exponent = bases.exponent(matrix[row, used].tolist(), negative[row, used].tolist())
        results.append((1 if total is None else total) * (1 + n * (exponent % n)) % modulus)
    return results


class _Bases:
    """The ciphertexts a (1 + n b), their inverses a' (1 + n b') and what the two differ by: b' = -b - carry."""

    def __init__(self, ciphertexts: Sequence[mpz], n: mpz) -> None:
        halves = [t_divmod(value, n) for value in ciphertexts]
        self.units = [low for _, low in halves]
        self.inverses = inverses(self.units, n)
        self.slopes = [high * inverse % n for (high, _), inverse in zip(halves, self.inverses, strict=True)]
        self.carries = [
            divexact(unit * inverse - 1, n) for unit, inverse in zip(self.units, self.inverses, strict=True)
        ]

    def exponent(self, factors: Iterable[int], negative: Iterable[int]) -> mpz:
        """Of (1 + n): the slopes times the factors, less the carries times the parts that used an inverse."""
        return sum(map(mul, self.slopes, factors), mpz(0)) - sum(map(mul, self.carries, negative), mpz(0))


def _buckets(digits: Iterable[int], bases: _Bases, largest: int) -> list[list[mpz]]:
    buckets: list[list[mpz]] = [[] for _ in range(largest + 1)]
    for digit, unit, inverse in zip(digits, bases.units, bases.inverses, strict=True):
        if digit > 0:
            buckets[digit].append(unit)
        elif digit < 0:
            buckets[-digit].append(inverse)
    return buckets


def _joined(buckets: list[list[mpz]], modulus: mpz) -> mpz | None:
    """prod_d (prod of bucket d)^d, for d from 1, or None for 1."""
    running: mpz | None = None
    total: mpz | None = None
    for bucket in reversed(buckets[1:]):
        running = _times(running, _product(bucket, modulus), modulus)
        total = _times(total, running, modulus)
    return total


def _product(units: list[mpz], modulus: mpz) -> mpz | None:
    """The product of numbers below n, or None for none."""
    total: mpz | None = units[-1] if len(units) % 2 else None
    for pair in map(mul, units[0:-1:2], units[1::2]):  # below n²: no reduction
        total = pair if total is None else total * pair % modulus
    return total


def _times(left: mpz | None, right: mpz | None, modulus: mpz) -> mpz | None:
    if left is None or right is None:
        return right if left is None else left
    return left * right % modulus


def _window(bits: int, terms: int) -> int:
    """The width of the digits that needs the fewest products for one row."""

    def price(width: int) -> float:
        return -(-(bits + 1) // width) * (_PAIR_PRICE * terms + (1 << width - 1))

    return min(range(2, _WIDEST_WINDOW), key=price)


def _signed_digits(matrix: NDArray[np.int64], window: int) -> list[NDArray[np.int64]]:
    """Digits from -2^(window-1) to 2^(window-1) - 1, lowest first: sum_k digits[k] 2^(k window) is the matrix."""
    half, mask = 1 << window - 1, (1 << window) - 1
    digits = []
    rest = matrix
    while rest.any():
        low = (rest + half & mask) - half
        digits.append(low)
        rest = rest - low >> window
    return digits


def _negative_parts(matrix: NDArray[np.int64], digits: list[NDArray[np.int64]], window: int) -> NDArray[np.object_]:
    """What the negative digits of each entry add up to, without their sign."""
    total: NDArray[np.object_] = np.zeros(matrix.shape, dtype=object)  # may be longer than 64 bits
    for place, digit in enumerate(digits):
        total = total + np.maximum(-digit, 0).astype(object) * (1 << place * window)
    return total
