"""Planted owners: all records of an owner are canaries. Honest code keeps its claim, training by records does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.audit.attacks.canaries import NOTHING
from tacit.audit.scope import Scope
from tacit.audit.tradeoff import gaussian_curve, test_curve
from tacit.kinds.private_training import attacks as private_training
from tacit.kinds.private_training.attacks.few_records import guess_with_few
from tacit.kinds.private_training.attacks.likelihood import Likelihood
from tacit.kinds.private_training.attacks.observer import Cast, observe
from tacit.kinds.private_training.attacks.single_steps import (
    LENGTH,
    balanced,
    guess_steps,
    learn,
    spread,
    step_curve,
    step_plan,
)
from tacit.kinds.private_training.attacks.whole_training import Work, guess_trainings, training_plan
from tacit.kinds.private_training.tasks import load as tasks
from tacit.runs.load import load
from tacit.training.ownership import Ownership
from tests.kinds.private_training.attacks.small_trainings import PLAN, training
from tests.kinds.private_training.test_owners import FILE

EACH = 4
OWNERS = replace(PLAN, unit="owner", owners=100, batch=20, records_per_owner=EACH)


def refuted_by_steps(plan, subject, canaries=83, steps=100):
    rng = np.random.default_rng(5)
    guesses, learned, small = guess_steps(subject, plan, canaries, steps, rng)
    assert (small.unit, small.records) == ("owner", EACH * small.owners)
    refuted = test_curve(*guesses.of(None, rng), step_curve(small), confidence=0.999).refuted
    return refuted, learned


@pytest.mark.parametrize("model", ["linear", "images", "reading"])
def test_steps_that_clip_owners_keep_their_claim(model):
    refuted, learned = refuted_by_steps(OWNERS, training(model), canaries=40 if model == "images" else 83)
    assert not refuted
    assert learned.signals == pytest.approx(1.0)


def test_an_owner_alone_or_among_others_keeps_its_claim():
    for opposing in (0, 3):
        without, with_it, small = guess_with_few(training(), OWNERS, opposing, 300, np.random.default_rng(1))
        assert not test_curve(without, with_it, gaussian_curve(1.0), confidence=0.999).refuted
        assert small.owners == 1 + opposing


def test_whole_trainings_keep_their_claim():
    rng = np.random.default_rng(2)
    subject = training()
    _, learned = refuted_by_steps(OWNERS, subject)
    pairs, small = guess_trainings(subject, OWNERS, learned, Work(6, 83, 50), rng)
    assert set(pairs) == {"all owners"}
    assert small.probability == pytest.approx(OWNERS.probability, rel=0.05)
    assert training_plan(OWNERS, 91, 50).records == 91 * EACH


def moved_by_each_record(learned, subject, steps):
    """Whether an owner moves each tensor by `EACH`, within six standard errors: half of the steps are learned from,
    with noise of 1, and a coordinate is compared with and without its owner."""
    errors = np.sqrt(8 / steps / np.array(list(subject.sizes().values())))
    return (np.abs(learned.signals - EACH) < 6 * errors).all() and (6 * errors < EACH - 1).all()


def test_training_by_records_breaks_the_claim_for_owners():
    """The attack works: the same planted owners, the same noise, and records that are clipped one by one."""
    subject, rng = training(), np.random.default_rng(5)
    spots, tensors = spread(subject.sizes(), 83, rng)
    steps = 100
    plan = step_plan(PLAN, (len(spots) + 1) * EACH, steps)
    coins = np.vstack([balanced(steps // 2, len(spots), rng), balanced(steps // 2, len(spots), rng)])
    order = np.arange(steps).reshape(2, -1).T.ravel()
    coins = coins[order]
    cast = Cast(
        np.append(spots, NOTHING),
        np.full(len(spots) + 1, LENGTH),
        np.hstack([coins, np.ones((steps, 1), dtype=np.bool_)]),
        spots,
        fresh=True,
    )
    seen = observe(subject, plan, cast, EACH)
    guesses, learned = learn(seen, seen, coins, tensors, Likelihood("gaussian"), 1.0)
    assert moved_by_each_record(learned, subject, steps)
    judged = test_curve(*guesses.of(None, rng), gaussian_curve(1.0), confidence=0.999)
    assert judged.refuted


def sampled_by_records(monkeypatch):
    """All records of an owner are taken, and each of them is clipped as if it were an owner."""

    def pieces(self, indices, size):
        return [(indices, tuple(range(len(indices) + 1)))]

    monkeypatch.setattr(Ownership, "pieces", pieces)


def test_records_of_owners_clipped_one_by_one_are_found(monkeypatch):
    sampled_by_records(monkeypatch)
    subject = training()
    refuted, learned = refuted_by_steps(OWNERS, subject)
    assert refuted
    assert moved_by_each_record(learned, subject, steps=100)


@pytest.mark.slow
def test_the_audit_of_a_file_plants_owners():
    made = private_training.attacks(load(FILE), Scope())
    (proved,) = made.promises
    assert proved.promise.unit == "owner"
    assert proved.promise.against.startswith("for each owner, against anyone who has the model")
    for step in made.steps[:2]:
        for finding in step.find():
            assert finding.proved.unit == "owner"
            assert not finding.refuted
            assert finding.audited is None or finding.audited.epsilon <= finding.proved.epsilon


def test_too_few_owners_are_refused():
    task = tasks.make_training(FILE["task"], 0, {})
    assert len(task.records) == 1500
    few = FILE | {"privacy": {**FILE["privacy"], "owner": f"{FILE['task'].partition(':')[0]}:label"}}
    with pytest.raises(ValueError, match="10 owners, an audit needs 40"):
        private_training.attacks(load(few | {"train": {"batch": 2}}), Scope())
