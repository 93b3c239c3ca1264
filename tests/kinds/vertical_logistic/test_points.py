"""Log odds as points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.points import Points


def test_points_are_as_the_file_says_at_its_odds_and_pdo_more_at_twice_the_odds():
    scale = Points.of(600, 50, 20)
    bad = -np.log([50.0, 100.0, 25.0])  # the odds of the second class are those of the first, turned over
    assert scale.points(bad) == pytest.approx([600, 620, 580])
    assert Points.of(600, 50, 20, good=1).points(-bad) == pytest.approx([600, 620, 580])


@given(st.floats(-500, 500), st.floats(-2000, 2000), st.floats(0.01, 1000), st.floats(1, 100), st.sampled_from([0, 1]))
def test_points_and_back(log_odds, points, odds, pdo, good):
    scale = Points.of(points, odds, pdo, good=good)
    assert scale.log_odds(scale.points(np.array([log_odds])))[0] == pytest.approx(log_odds, abs=1e-6)


@pytest.mark.parametrize("wrong", [(600, 0, 20), (600, 50, -1), (float("inf"), 50, 20), (600, float("nan"), 20)])
def test_a_scale_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="odds and pdo above 0"):
        Points.of(*wrong)
