"""Scales that keep every value in its ring, and sentences for those that would not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.shared.scales import WEIGHT
from tacit.kinds.vertical_logistic.two_party.lookup import CELL_BITS, CELLS_BITS, SCORE
from tacit.kinds.vertical_logistic.two_party.scales import (
    FEATURE,
    LARGEST_FEATURE,
    encoded,
    scales,
    step_scale,
)
from tests.kinds.vertical_logistic.two_party.sessions import terms_of


@given(
    st.integers(2, 1 << 20),
    st.floats(1e-3, 4.0),
    st.sampled_from([0.0, 0.01, 0.2]),
    st.sampled_from(["logistic", "linear"]),
)
def test_the_largest_gradient_is_below_a_quarter_of_its_ring(batch, rate, l2, model):
    terms = terms_of(max(batch, 4), batch=batch, rate=rate, l2=l2, model=model, held_out=0.0, epochs=1)
    found = scales(terms)
    scale = step_scale(terms, found, rate, terms.largest_batch)
    residue = 1.0 if model == "logistic" else 128.0
    gradient = terms.largest_batch * terms.column_bound * residue * scale.factor * 2.0 ** (FEATURE + found.residue)
    decay = rate * l2 * (terms.column_bound * residue / l2) if l2 else 0.0  # the largest weight is the mean over l2
    moved = gradient * 2.0 ** (64 - found.gradient_bits) + decay * 2.0 ** (WEIGHT + scale.shift)
    assert moved <= 2.0**62
    assert found.residue >= 13
    assert scale.factor * 2.0 ** -(scale.shift - (64 - found.gradient_bits)) == pytest.approx(
        rate / terms.largest_batch * 2.0 ** (WEIGHT - FEATURE - found.residue)
    )


def test_words_of_scores_hold_all_cells():
    assert 8 * scales(terms_of(100)).score_bytes >= SCORE + CELL_BITS + CELLS_BITS


def test_512_rows_take_words_of_five_bytes():
    found = scales(terms_of(512, batch=512, held_out=0.0))
    assert (found.gradient_bytes, found.score_bytes) == (5, 6)


def test_a_training_that_does_not_fit_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="take a smaller batch"):
        scales(terms_of(1 << 20, batch=1 << 20, mean_bound=1e9, held_out=0.0))
    with pytest.raises(ValueError, match="does not fit the ring"):
        scales(terms_of(100, rate=1e-15))
    with pytest.raises(ValueError, match="lower one of them"):
        scales(terms_of(100, rate=3.0, l2=1.0))


def test_features_are_rounded_to_multiples_of_2_to_the_minus_11():
    table = np.array([[0.1, -LARGEST_FEATURE], [1.0, LARGEST_FEATURE]])
    found = encoded(table, "shop")
    assert np.abs(found / 2.0**FEATURE - table).max() <= 2.0 ** -(FEATURE + 1)
    assert math.log2(found.max() + 1) == 19
    with pytest.raises(ValueError, match=r"shop, feature 2 of 2: its largest absolute value is 256"):
        encoded(np.array([[0.0, 256.0]]), "shop")
