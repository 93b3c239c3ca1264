"""Products of ciphertexts by group: the sums of their plaintexts, without a matrix of zeros and ones.

`multiexp` walks through groups × ciphertexts; here it is one product for each ciphertext, however many groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray


def products(groups: NDArray[np.int64], count: int, ciphertexts: Sequence[mpz], modulus: mpz) -> list[mpz]:
    """The product of the ciphertexts in each of `count` groups; 1 for an empty one. A row of `groups` is a grouping."""
    totals: list[mpz | None] = [None] * count
    for grouping in groups:
        for group, value in zip(grouping.tolist(), ciphertexts, strict=True):
            total = totals[group]
            totals[group] = value if total is None else total * value % modulus
    return [mpz(1) if total is None else total for total in totals]
