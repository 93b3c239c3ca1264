"""How well the active guesses the others' part of scores, by what predictions release."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tacit.kinds.vertical_logistic.attacks.shared_releases import audit_prediction, others_part
from tests.kinds.vertical_logistic.attacks.test_on_shares import case_of


def test_the_guess_is_the_mean_of_a_cut_normal():
    """Beside the mean by simulation."""
    drawn = norm.rvs(size=400_000, random_state=np.random.default_rng(5)) * 2.0
    for low, high, own in ((-np.inf, 0.0, 0.5), (0.3, 1.1, -1.0), (-np.inf, np.inf, 3.0)):
        inside = drawn[(drawn > low - own) & (drawn < high - own)]
        (guess,) = others_part(np.array([low]), np.array([high]), np.array([own]), 2.0)
        assert guess == pytest.approx(inside.mean(), abs=0.02)


def test_a_score_far_out_is_guessed_at_its_bound():
    (guess,) = others_part(np.array([100.0]), np.array([np.inf]), np.array([0.0]), 1.0)
    assert np.isfinite(guess)
    assert guess > 8


def test_coarser_releases_tell_less():
    case = case_of(1, "numbers", 120)
    transcript = case.record()
    errors = {}
    for release in ("exact", "points", "decile", "decision"):
        predict = case.settings.predict.model_copy(update={"release": release})
        found = audit_prediction(case.settings.model_copy(update={"predict": predict}), case.tables, transcript)
        assert found.off.value < 1e-6
        errors[release] = (found.on or found.off).value
    assert errors["exact"] < errors["points"] < errors["decile"] < errors["decision"] < found.on.baseline
