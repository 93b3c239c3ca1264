"""A file's own training as a subject of the audit."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit import tasks
from tacit.audit.kinds import private_training
from tacit.audit.own_training import Subject, canary_plan, canary_training, noisy_sums, resized
from tacit.audit.steps import Scope
from tacit.dp.schedules import ClipAdaptation
from tacit.training.plan import Plan
from tacit.training.settings import Settings

PLAN = Plan(records=1500, batch=300, epochs=2, noise_multiplier=2.0, delta=1e-5)
SETTINGS = Settings(task="digits", privacy={"noise_multiplier": 2.0})


@pytest.fixture(scope="module")
def task():
    return tasks.make_training("digits", 0, {})


@pytest.mark.parametrize("tier", ["fast", "secure"])
def test_sums_are_clipped_and_noised_as_planned(tier):
    plan = Plan(records=10, batch=5, epochs=1, noise_multiplier=2.0, clip=0.5, delta=1e-5, tier=tier)
    sums = noisy_sums(plan, 3, 1)
    found = sums(np.array([[100.0, 0, 0], [0, 0.25, 0]]), 2000)
    assert found.mean(axis=0) == pytest.approx([0.5, 0.25, 0], abs=4 / np.sqrt(2000))
    assert found.std(axis=0) == pytest.approx(1.0, rel=0.1)
    assert (noisy_sums(plan, 3, 1)(np.zeros((1, 3)), 3) == noisy_sums(plan, 3, 1)(np.zeros((1, 3)), 3)).all()


def test_canaries_meet_the_same_plan():
    small = canary_plan(PLAN, 500, 7)
    assert (small.probability, small.initial_noise) == (PLAN.probability, PLAN.initial_noise)
    assert (small.steps, small.records) == (5, 500)
    members = np.arange(500) < 250
    train = canary_training(small, 3)
    first, second = train(members), train(members)
    assert (first != second).any()  # each run has noise of its own
    assert (canary_training(small, 3)(members) == first).all()
    quiet = canary_training(replace(small, noise_multiplier=0.01), 3)(members)
    # A canary in the data adds 1 / batch at each of about one step in five, however long its gradient.
    assert quiet[members].mean() - quiet[~members].mean() == pytest.approx(5 * 0.2 / 100, rel=0.15)


def test_trainings_repeat_and_privacy_costs_accuracy(task):
    pool, chosen = np.arange(400), np.arange(0, 400, 2)
    plan = Plan(records=200, batch=50, epochs=5, noise_multiplier=4.0, delta=1e-5)
    figures = {}
    for private in (False, True):
        subject = Subject(task, SETTINGS, plan, pool, private=private)
        losses = subject.train(chosen, 1)(np.arange(20))
        assert losses.shape == (20,)
        assert (subject.train(chosen, 1)(np.arange(20)) == losses).all()
        figures[private] = subject.figures[0]["accuracy"]
    assert figures[False] > figures[True] > 0.1


class Fewer(Scope):
    """A quarter of the draws of a quick audit."""

    def pick(self, quick, full):
        return quick // 4


@pytest.mark.parametrize("adapt", [None, pytest.param(ClipAdaptation("Geometric", 0.5, 0.2), marks=pytest.mark.slow)])
def test_noise_that_is_not_what_the_ledger_pays_for_is_found(adapt, monkeypatch):
    """The positive control: half of the noise is drawn, and the events stay."""
    plan = Plan(records=400, batch=100, epochs=2, noise_multiplier=1.1, delta=1e-5, adapt=adapt)
    assert not private_training._noise(plan, Fewer(), 0.999).refuted
    honest = Plan.noise_of
    monkeypatch.setattr(Plan, "noise_of", lambda self, step: honest(self, step) / 2)
    assert private_training._noise(plan, Fewer(), 0.999).refuted


@pytest.mark.parametrize("decay", [{}, {"decay": "Exp", "rate": 0.02}])
def test_models_on_more_or_fewer_records_cost_about_the_same(decay):
    half = Plan(records=200, batch=50, epochs=5, noise_multiplier=2.0, delta=1e-5, **decay)
    wanted = half.epsilon_after(half.steps)
    for records in (180, 200, 223):
        other = resized(half, records)
        assert (other.records, other.steps) == (records, half.steps)
        assert other.epsilon_after(other.steps) == pytest.approx(wanted, rel=0.05)


def test_the_noise_of_the_count_does_not_grow_with_smaller_batches():
    """Such a plan is for large batches: with as small a part of a small one the count would cost more than there is."""
    plan = Plan(records=2000, batch=500, epochs=3, noise_multiplier=11.0, adapt=ClipAdaptation("Linear", 0.5, 0.2))
    for small in (canary_plan(plan, 300, 50), private_training._half(plan, 300, Scope()), resized(plan, 100)):
        assert small.count_noise * small.batch == pytest.approx(plan.count_noise * plan.batch)
        assert small.noise_of(0) > 0


def test_few_records_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(private_training.tasks, "make_training", lambda *given: SimpleNamespace(records=range(39)))
    with pytest.raises(ValueError, match="39 records, an audit needs 40"):
        private_training.attacks(SETTINGS, Scope())
