"""Predictions between two parties against plain numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.channel import Recorder, run_parties
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared.messages import Greeting, Revealed
from tacit.kinds.vertical_logistic.shared.prediction import Releases
from tacit.kinds.vertical_logistic.two_party.prediction import BOUND, STEP, predict, released_bytes
from tacit.oblivious import Answer, Columns, Hidden, Offer
from tests.kinds.vertical_logistic.shared.trainings import PATIENCE

ROWS = 40


def releases_of(active="bank", rows=ROWS, outputs=2, **changes):
    return Releases(("bank", "shop"), "", active, rows, b"m" * 16, outputs=outputs, **changes)


def model(seed=0, rows=ROWS, outputs=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 5)), rng.normal(size=(5, outputs)), rng.normal(size=outputs)


def released(releases, x, weights, intercept, recorders=None):
    kept = {} if recorders is None else recorders

    def party(name, columns):
        def take_part(channels):
            kept[name] = {other: Recorder(channel) for other, channel in channels.items()}
            own = intercept if name == releases.active else None
            return predict(kept[name], x[:, columns], weights[columns], own, releases, name)

        return take_part

    found = run_parties({"bank": party("bank", slice(0, 2)), "shop": party("shop", slice(2, 5))}, patience=PATIENCE)
    passive = next(name for name in found if name != releases.active)
    assert found[passive] is None
    return found[releases.active]


@pytest.mark.parametrize("active", ["bank", "shop"])
def test_thresholds_are_counted_but_for_scores_that_are_near(active):
    x, weights, intercept = model()
    edges = (-1.0, 0.0, 0.5, 2.0)
    found = released(releases_of(active, thresholds=edges), x, weights, intercept)
    scores = x @ weights + intercept
    near = np.abs(scores[..., None] - np.array(edges)).min(axis=-1) <= STEP
    assert near.mean() < 0.2
    assert (found == np.searchsorted(edges, scores, side="right"))[~near].all()
    assert np.abs(found - np.searchsorted(edges, scores, side="right")).max() <= 1


@settings(max_examples=8)
@given(st.floats(1, 200), st.floats(-1000, 1000), st.booleans(), st.integers(0, 99))
def test_points_are_right_but_for_scores_at_an_edge(factor, offset, falling, seed):
    factor = -factor if falling else factor
    x, weights, intercept = model(seed)
    releases = releases_of(release="points", factor=factor, offset=offset)
    exact = (
        np.clip(x[:, 2:] @ weights[2:], -releases.bound, releases.bound)
        + np.clip(x[:, :2] @ weights[:2] + intercept, -releases.bound, releases.bound)
    ) * factor + offset
    found = released(releases, x, weights, intercept)
    edge = np.abs(exact - np.rint(exact)) < 2**-11
    assert (found == np.floor(exact))[~edge].all()


def test_exact_scores():
    x, weights, intercept = model()
    found = released(releases_of(release="exact"), x, weights, intercept)
    np.testing.assert_allclose(found, x @ weights + intercept, atol=1e-9)


def test_the_same_row_gets_the_same_value_alone_and_among_others():
    x, weights, intercept = model()
    whole = released(releases_of(thresholds=(0.0,)), x, weights, intercept)
    again = released(releases_of(thresholds=(0.0,)), x, weights, intercept)
    alone = released(releases_of(rows=1, thresholds=(0.0,)), x[7:8], weights, intercept)
    np.testing.assert_array_equal(whole, again)
    np.testing.assert_array_equal(whole[7:8], alone)


def test_parts_beyond_the_bound_count_as_the_bound_and_do_not_wrap():
    x = np.array([[100.0, 0, 90, 0, 0], [-100, 0, -90, 0, 0], [100, 0, -20, 0, 0]])
    weights = np.ones((5, 1))
    found = released(releases_of(rows=3, outputs=1, thresholds=(-20.0, 0.0, 20.0)), x, weights, np.zeros(1))
    assert found[:, 0].tolist() == [3, 0, 2]
    assert BOUND < 32


def test_the_passive_receives_columns_only_and_the_active_one_table_a_row():
    x, weights, intercept = model()
    recorders: dict = {}
    releases = releases_of(thresholds=(0.0, 1.0))
    released(releases, x, weights, intercept, recorders)
    assert {type(m) for m in recorders["shop"]["bank"].seen} == {Greeting, Offer, Answer, Columns}
    assert {type(m) for m in recorders["bank"]["shop"].seen} == {Greeting, Offer, Answer, Hidden}
    hidden = sum(len(m.data) for m in recorders["bank"]["shop"].seen if isinstance(m, Hidden))
    assert hidden == ROWS * released_bytes(releases)


def test_only_an_exact_release_sends_a_part():
    x, weights, intercept = model()
    recorders = {}
    released(releases_of(release="exact"), x, weights, intercept, recorders)
    assert [type(m) for m in recorders["bank"]["shop"].seen if isinstance(m, Revealed)] == [Revealed]
    assert not [m for m in recorders["shop"]["bank"].seen if isinstance(m, Revealed)]


def test_other_terms_are_refused():
    x, weights, intercept = model()

    def party(name, columns, releases):
        own = intercept if name == "bank" else None
        return lambda channels: predict(channels, x[:, columns], weights[columns], own, releases, name)

    with pytest.raises(PeerError, match="other terms"):
        run_parties(
            {
                "bank": party("bank", slice(0, 2), releases_of(thresholds=(0.0,))),
                "shop": party("shop", slice(2, 5), releases_of(thresholds=(0.5,))),
            },
            patience=PATIENCE,
        )
