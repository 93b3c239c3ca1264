"""Scales leave room for every gradient, or the terms are refused in a sentence; distances are computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.shared.scales import WEIGHT, distances, scales, step_scale
from tacit.kinds.vertical_logistic.shared.terms import REACH
from tests.kinds.vertical_logistic.shared.trainings import people, plain, run, terms_of, whole


@given(
    st.integers(2, 10**6),
    st.floats(1e-3, 100),
    st.sampled_from([0.0, 1e-3, 1e-2]),
    st.sampled_from(["logistic", "linear"]),
    st.booleans(),
)
def test_the_largest_gradient_stays_below_62_bits(batch, rate, l2, model, weighted):
    weighted = weighted and model == "logistic"
    terms = terms_of(2, batch, batch=batch, rate=rate, l2=l2, model=model, weighted=weighted, held_out=0.0, epochs=1)
    try:
        chosen = scales(terms)
    except ValueError as error:
        assert "take a" in str(error) or "does not fit" in str(error)  # noqa: PT017
        return
    step = step_scale(terms, chosen, rate, batch)
    assert 1 <= step.factor <= 2
    residue = 1.25 if model == "logistic" else 2 * REACH
    gradient = batch * terms.column_bound * residue * (2 if l2 else 1)
    bits = chosen.feature + chosen.residue + chosen.row_weight
    assert gradient * step.factor * 2.0**bits < 2.0**62
    change = rate / batch  # of a weight for a gradient of 1, in units of its scale
    assert math.isclose(2.0 ** (bits - step.shift) * step.factor, change * 2.0**WEIGHT, rel_tol=1e-12)


def test_columns_at_their_bound_do_not_overflow():
    """Each feature as large as it may be, all labels on the other side of the score."""
    x = np.full((64, 2), 64.0)
    x[:, 1] *= -1
    y = np.ones(64)
    terms = terms_of(2, 64, held_out=0.0, rate=0.01, epochs=2, mean_bound=64.0)
    np.testing.assert_allclose(whole(run(x, y, terms), terms)[0], plain(x, y, terms)[0], atol=1e-4)


def test_a_column_beyond_its_bound_is_refused():
    x, y = people(100, 4)
    x[:, 3] *= 100
    with pytest.raises(ValueError, match=r"feature 2 of 2: .* standardise it"):
        run(x, y, terms_of(2, 100, mean_bound=16.0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch": 1 << 20, "rows": 1 << 20, "weighted": True}, "take a smaller batch"),
        ({"rate": 20.0, "l2": 0.1}, "lower one of them"),
        ({"rate": 1e-12}, "does not fit the ring"),
    ],
)
def test_terms_that_do_not_fit_are_refused(changes, sentence):
    changes = {"rows": 200, **changes}
    with pytest.raises(ValueError, match=sentence):
        scales(terms_of(2, changes.pop("rows"), epochs=1, held_out=0.0, **changes))


def test_distances_are_far_below_what_is_promised():
    terms = terms_of(5, 1_000_000, batch=1 << 16, epochs=100, figures="epoch")
    found = distances(terms, columns=1000)
    assert 0 < sum(found.values()) < 2.0**-40
    assert all(found[name] == 0 for name in ("features", "weights", "scores", "residues", "gradients"))


def test_distances_count_every_block_of_a_stream():
    few, many = (distances(terms_of(2, 1000, epochs=epochs), columns=10) for epochs in (1, 4))
    assert many["streams of masks"] > few["streams of masks"]
