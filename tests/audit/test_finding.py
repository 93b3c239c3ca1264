"""How findings are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.audit.finding import LowerBound, rounded_down
from tacit.audit.text import bound_words


@given(st.floats(1e-6, 1e6), st.integers(2, 6))
def test_a_lower_bound_that_is_rounded_is_still_one(value, digits):
    shown = rounded_down(value, digits)
    assert value * (1 - 10 ** (1 - digits)) <= shown <= value
    assert float(f"{shown:.{digits}g}") == shown


@pytest.mark.parametrize(("epsilon", "words"), [(2.995, "ε ≥ 2.99"), (3.0, "ε ≥ 3"), (0.0, "ε ≥ 0")])
def test_a_bound_in_words(epsilon, words):
    assert bound_words(LowerBound(epsilon, 0.0, 0.999, "any", 100)) == words
