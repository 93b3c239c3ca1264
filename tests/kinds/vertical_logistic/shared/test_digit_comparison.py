"""A comparison is right for every pair of numbers, equal ones included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.shared import digit_comparison
from tacit.kinds.vertical_logistic.shared.streams import Shares

NUMBERS = st.integers(0, 2**32 - 1)


class Alone:
    """A meeting of one party, which has all shares."""

    first = True

    def open_halves(self, share):
        return share.copy()


def _at_most(rho, bounds, digits):
    rng = np.random.default_rng(0)
    masks = {
        name: rng.integers(0, 2**64, size=shape, dtype=np.uint64)
        for name, shape in digit_comparison.drawn(digits, len(rho)).items()
    }
    products = {
        name: np.empty(shape, dtype=np.uint32) for name, shape in digit_comparison.made(digits, len(rho)).items()
    }
    digit_comparison.write_products(masks, products, digits)
    table = np.zeros((len(rho), digits, 16), dtype=np.uint32)
    digit_comparison.write_digits(np.array(rho, dtype=np.uint32), table)
    shares = Shares(1, masks, products)
    return digit_comparison.at_most(Alone(), table, np.array(bounds, dtype=np.uint32), shares).tolist()


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_32_bit_numbers(pairs):
    rho, bounds = zip(*pairs, strict=True)
    assert _at_most(rho, bounds, 8) == [int(a <= b) for a, b in pairs]


@pytest.mark.parametrize("digits", [2, 4, 8])
def test_equal_numbers_neighbours_and_the_ends(digits):
    top = 16**digits - 1
    values = [0, 1, 15, 16, 17, top // 2, top // 2 + 1, top - 1, top]
    pairs = [(a, b) for a in values for b in values]
    rho, bounds = zip(*pairs, strict=True)
    assert _at_most(rho, bounds, digits) == [int(a <= b) for a, b in pairs]
