"""Columns keep their digits, and gradients fit their slots."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.protocol import encoding


@given(st.integers(0, 2**32), st.integers(-140, 140))
def test_columns_keep_six_digits_in_any_unit(seed, power):
    features = np.random.default_rng(seed).normal(size=(7, 3)) * 10.0**power
    columns = encoding.Columns.encode(features)
    assert np.abs(columns.integers).max() <= 2**encoding.FEATURE_BITS
    np.testing.assert_allclose(columns.values, features, atol=np.abs(features).max() * 2.0**-encoding.FEATURE_BITS)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_gradient_of_honest_residues_fits_its_slot(seed, rows):
    rng = np.random.default_rng(seed)
    columns = encoding.Columns.encode(rng.normal(size=(rows, 2)))
    residues = encoding.encode_residues(rng.choice([-1.0, 1.0], rows))
    integers = [int(value) for value in columns.integers.T.astype(object) @ residues.astype(object)]
    assert max(map(abs, integers)) < 2 ** (encoding.slot_bits(rows) - 2)
    np.testing.assert_allclose(columns.gradient(integers), columns.values.T @ (residues / 2**24), atol=1e-9)


def test_rows_that_are_only_scored_do_not_change_the_grid_of_the_others():
    features = np.random.default_rng(0).normal(size=(8, 2))
    alone = encoding.Columns.encode(features)
    beside = encoding.Columns.encode(np.vstack([features, [[1e9, -3e200], [0.5, 7.0]]]), np.arange(8))
    assert np.array_equal(beside.integers[:8], alone.integers)
    assert np.array_equal(beside.exponents, alone.exponents)
    np.testing.assert_allclose(beside.values[8, 0], 1e9)
    np.testing.assert_allclose(beside.values[9], [0.5, 7.0], atol=1e-5)
