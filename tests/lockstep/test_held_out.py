from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.lockstep.held_out import hold_out, order, seed_number


@given(rows=st.integers(2, 300), fraction=st.floats(0, 0.99), seed=st.integers(0, 2**40))
def test_every_row_is_trained_on_or_held_out(rows, fraction, seed):
    training, held_out = hold_out(rows, fraction, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([training, held_out])), np.arange(rows))
    assert len(training)
    assert bool(len(held_out)) == (fraction > 0)
    assert (np.diff(training) > 0).all()
    if fraction:
        assert abs(len(held_out) - rows * fraction) <= 1


def test_rows_that_are_held_out_depend_on_the_seed_alone():
    np.testing.assert_array_equal(hold_out(50, 0.2, 7)[1], hold_out(50, 0.2, 7)[1])
    assert hold_out(50, 0.2, 7)[1].tolist() != hold_out(50, 0.2, 8)[1].tolist()


def test_an_order_is_the_same_in_every_release():
    assert order(8, 3).tolist() == [3, 1, 0, 5, 6, 4, 2, 7]
    assert seed_number(b"tacit", 3) == 12621209911074888809
