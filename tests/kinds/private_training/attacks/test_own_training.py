"""A file's own training as a subject of the audit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.audit.scope import Scope
from tacit.dp.schedules import ClipAdaptation
from tacit.kinds.private_training import attacks as private_training
from tacit.kinds.private_training.attacks.own_training import Subject, resized
from tacit.kinds.private_training.attacks.single_steps import step_plan
from tacit.kinds.private_training.attacks.whole_training import training_plan
from tacit.kinds.private_training.owners import Planned
from tacit.kinds.private_training.settings import Settings
from tacit.kinds.private_training.tasks import load as tasks
from tacit.training.plan import Plan
from tacit.training.sampler import Sampler

SETTINGS = Settings(task="digits", privacy={"noise_multiplier": 2.0})


@pytest.fixture(scope="module")
def task():
    return tasks.make_training("digits", 0, {})


def test_trainings_repeat_and_privacy_costs_accuracy(task):
    pool, chosen = np.arange(400)[:, None], np.arange(0, 400, 2)
    plan = Plan(records=200, batch=50, epochs=5, noise_multiplier=4.0, delta=1e-5)
    figures = {}
    for private in (False, True):
        subject = Subject(task, SETTINGS, plan, pool, private=private)
        losses = subject.train(chosen, 1)(np.arange(20))
        assert losses.shape == (20,)
        assert (subject.train(chosen, 1)(np.arange(20)) == losses).all()
        figures[private] = subject.figures[0]["accuracy"]
    assert figures[False] > figures[True] > 0.1


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
    for small in (training_plan(plan, 300, 50), private_training._half(plan, 300, Scope()), resized(plan, 100)):
        assert small.count_noise * small.batch == pytest.approx(plan.count_noise * plan.batch)
        assert small.noise_of(0) > 0


def test_few_records_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(tasks, "make_training", lambda *given: SimpleNamespace(records=range(39)))
    with pytest.raises(ValueError, match="39 records, an audit needs 40"):
        private_training.attacks(SETTINGS, Scope())


def test_a_model_without_trained_parameters_is_refused(task, monkeypatch):
    frozen = task.model().requires_grad_(False)
    monkeypatch.setattr(task, "model", lambda: frozen)
    monkeypatch.setattr(tasks, "make_training", lambda *given: task)
    with pytest.raises(ValueError, match="has no parameter that is trained: there is nothing to audit"):
        private_training.attacks(SETTINGS, Scope())


def test_every_training_of_an_audit_has_batches_of_one_size_if_the_file_has():
    """With an epsilon a file may cut samples more often than a plan of a given noise may."""
    plan = Plan(records=1000, batch=200, epochs=2, epsilon=1.0, delta=1e-5, truncate=280)
    half = private_training._half(plan, 400, Scope())
    for small in (half, resized(half, 190), resized(half, 213), training_plan(plan, 300, 50), step_plan(plan, 30, 9)):
        assert small.truncate is not None
        assert small.event(0).log2_slack <= plan.event(0).log2_slack


def test_the_cost_in_utility_is_that_of_batches_of_one_size(task, monkeypatch):
    seen = []
    monkeypatch.setattr(Sampler, "sample", lambda self, step: seen.append(self._plan) or np.arange(5))
    plan = Plan(records=len(task.records), batch=200, epochs=1, epsilon=1.0, delta=1e-5, truncate=290)
    found = private_training._utility(task, SETTINGS, Planned(plan, None), Scope())
    assert "accuracy after 1 epoch" in [each.metric for each in found]
    assert {each.truncate is not None and each.truncate >= 290 for each in seen} == {True}
