"""The rotation keeps the norm, is undone to the last digits, and spreads every number over all columns."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from tacit.secagg.rotation import columns, rotate, turn_back

KEY = bytes(range(16))
SIZES = [1, 2, 4, 12, 20, 24, 44, 60, 64, 68, 72, 84, 104, 108, 168, 216]


def matrix_of(size: int) -> np.ndarray:
    """That of the rotation, without its signs and its factor: those of a column are in every entry of it."""
    turned = np.array([rotate(row, KEY) for row in np.eye(size)]).T * math.sqrt(size)
    return turned * np.where(turned[:1] < 0, -1, 1)


@pytest.mark.parametrize("size", SIZES)
def test_the_matrix_is_orthogonal_with_entries_of_one_magnitude(size):
    """Only then is the norm kept, and is the bound on a column that of Hoeffding."""
    found = matrix_of(size)
    assert np.abs(found) == pytest.approx(np.ones((size, size)))
    assert found @ found.T == pytest.approx(size * np.eye(size), abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 16, 64])
def test_powers_of_two_have_the_matrix_of_sylvester(size):
    assert matrix_of(size) == pytest.approx(hadamard(size).astype(float))


@given(st.integers(1, 400), st.integers(0, 2**30), st.binary(min_size=16, max_size=40))
def test_it_is_undone_and_keeps_the_norm(values, seed, key):
    vector = np.random.default_rng(seed).normal(size=columns(values))
    turned = rotate(vector, key)
    assert turn_back(turned, key) == pytest.approx(vector)
    assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(vector))


@given(st.integers(1, 10**9))
def test_there_are_columns_enough_and_few_are_padding(values):
    found = columns(values)
    assert values <= found <= 1 << (values - 1).bit_length()
    if values > 128:
        assert found < 1.126 * values


def test_what_has_no_matrix_is_refused():
    for size in (3, 10, 28, 672 // 2 + 1):
        with pytest.raises(ValueError, match=f"no Hadamard matrix of order {size} here"):
            rotate(np.zeros(size), KEY)


def test_another_key_turns_elsewhere():
    one = np.ones(84)
    assert not np.allclose(rotate(one, KEY), rotate(one, bytes(16)))
    with pytest.raises(ValueError, match="16 bytes or more"):
        rotate(one, bytes(15))
