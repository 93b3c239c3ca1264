"""Membership inference: against models that remember, models that cannot, and private SGD."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from tacit.audit.attacks.membership import (
    Trials,
    area_under_curve,
    audit_membership,
    curve_score,
    loss_scores,
    low_error_score,
    reference_scores,
    run_trials,
    true_positives,
)
from tacit.dp.claim import Claim


def made_up(records=300, models=24, gap=1.0, seed=0) -> Trials:
    """Records of very different difficulty, whose loss falls by a constant when they are trained on."""
    rng = np.random.default_rng(seed)
    took_part = rng.random((models, records)) < 0.5
    hardness = rng.normal(0, 3, records)
    logits = hardness + gap * took_part + rng.normal(0, 0.5, (models, records))
    return Trials(took_part, np.logaddexp(0, -logits), models // 2)


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    took_part = rng.random((2, 400)) < 0.5
    scores = np.round(rng.normal(size=(2, 400)) + took_part, 1)
    assert area_under_curve(scores, took_part) == pytest.approx(roc_auc_score(took_part.ravel(), scores.ravel()))
    false, true, _ = roc_curve(took_part.ravel(), scores.ravel(), drop_intermediate=False)
    assert true_positives(scores, took_part, 0.1) == pytest.approx(true[false <= 0.1].max())


def test_reference_models_see_what_a_threshold_does_not():
    trials = made_up()
    by_loss, by_reference, offline = loss_scores(trials), reference_scores(trials), reference_scores(trials, "offline")
    assert area_under_curve(by_loss, trials.members) < 0.62
    assert area_under_curve(by_reference, trials.members) > 0.85
    assert 0.7 < area_under_curve(offline, trials.members) < area_under_curve(by_reference, trials.members)
    assert low_error_score(by_reference, trials.members).low > 0.1


def test_intervals_hold_the_truth_where_there_is_nothing_to_find():
    held = []
    for seed in range(30):
        trials = made_up(records=60, models=8, gap=0.0, seed=seed)
        score = curve_score(reference_scores(trials), trials.members)
        held.append(score.low <= 0.5 <= score.high)
    assert np.mean(held) >= 0.85


def test_models_that_remember_nothing_give_nothing_away():
    trials = made_up(gap=0.0)
    for finding in audit_membership(trials, trials, protection="none", proved=Claim(0.5, 1e-5, "record", "add-remove")):
        assert finding.on.low < 0.5 < finding.on.high
        assert not finding.refuted


def test_models_that_remember_refute_a_small_epsilon():
    trials = made_up(gap=4.0)
    strongest, *_ = audit_membership(
        made_up(gap=4.0), trials, protection="a claim", proved=Claim(0.5, 1e-5, "record", "add-remove")
    )
    assert strongest.attack == "membership inference by reference models"
    assert strongest.refuted
    assert strongest.audited.epsilon > 1


def test_the_interval_is_that_of_models():
    """One model that remembers among eleven that do not: the interval must be wide."""
    trials = made_up(gap=0.0)
    scores = loss_scores(trials)
    scores[0] = np.where(trials.members[0], 5.0, -5.0)
    score = curve_score(scores, trials.members)
    assert score.high - score.low > 0.05


def test_training_that_cannot_be_used_is_refused():
    with pytest.raises(ValueError, match="at least 4 models"):
        run_trials(lambda chosen, seed: lambda asked: np.zeros(len(asked)), 100, models=2)
    with pytest.raises(ValueError, match="finite loss"):
        run_trials(lambda chosen, seed: lambda asked: np.full(len(asked), np.nan), 100, models=4)


@pytest.mark.slow  # 4 s
def test_private_training_of_digits():
    pytest.importorskip("torch")
    from tacit.kinds.private_training.attacks.digits import Digits, Recipe

    common = {"records": 200, "steps": 100, "batch": 50}
    plain, private = Recipe(**common), Recipe(**common, noise_multiplier=4.0)
    trials = {}
    for recipe in (plain, private):
        subject = Digits(recipe)
        trials[recipe] = run_trials(subject.train, recipe.records, models=8)
        assert np.mean(subject.accuracies) > (0.75 if recipe is plain else 0.15)
    claim = private.claim(1e-5)
    assert 5 < claim.epsilon < 15
    findings = audit_membership(trials[plain], trials[private], protection="private SGD", proved=claim)
    best = max(findings, key=lambda finding: finding.off.value)
    assert best.off.low > 0.6
    assert best.on.high < best.off.low
    assert not any(finding.refuted for finding in findings)
    assert plain.claim(1e-5) is None
