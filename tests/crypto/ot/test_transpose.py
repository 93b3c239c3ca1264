"""Matrices of bits: numpy's own transpose is the oracle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.ot import transpose as module
from tacit.crypto.ot.transpose import transpose


def bits(words):
    return np.unpackbits(words.view(np.uint8), bitorder="little").reshape(len(words), -1)


@given(st.integers(0, 5), st.integers(0, 2**32))
def test_every_bit_lands_in_its_place(words, seed):
    rows = np.random.default_rng(seed).integers(0, 2**64, (128, words), dtype=np.uint64)
    before = rows.copy()
    blocks = transpose(rows)
    assert blocks.shape == (64 * words, 2)
    assert (rows == before).all()
    if words:
        assert (bits(blocks) == bits(rows).T).all()


def test_a_wide_matrix_is_transposed_in_parts_without_a_seam(monkeypatch):
    rows = np.random.default_rng(1).integers(0, 2**64, (128, 7), dtype=np.uint64)
    monkeypatch.setattr(module, "_AT_ONCE", 3)
    assert (bits(transpose(rows)) == bits(rows).T).all()
