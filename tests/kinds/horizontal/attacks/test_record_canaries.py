"""Planted records in whole federations: private training keeps its claim, training without noise does not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.audit.attacks.mechanisms import Effort, judged
from tacit.audit.scope import Scope
from tacit.audit.tradeoff import Curve
from tacit.dp.claim import Claim
from tacit.kinds.horizontal import attacks as horizontal
from tacit.kinds.horizontal.attacks.record_canaries import LENGTH, Planting, Work, as_seen, audit_records, guess_records
from tacit.kinds.horizontal.record_plan import round_plan
from tacit.kinds.horizontal.record_privacy import most_answers
from tacit.kinds.horizontal.task import FitWork
from tacit.runs.load import load
from tests.kinds.horizontal.test_record_level import FILE, NETS, TRAIN, private
from tests.kinds.horizontal.torch_tasks.private_nets import owned_task, task

PRIVACY = {"epsilon": 2.0, "clip": 1.0}
OWNED = PRIVACY | {"unit": "owner", "owner": "person", "records_per_owner": 4}
EFFORT = Effort(0, 0.99)


def settings(privacy=PRIVACY, **keys):
    return private(**{"rounds": 3, "round": {"abandoned_rounds": 0}, "train": TRAIN | {"privacy": privacy}} | keys)


def found(file, subject, *, silent, unit="record", work=None):
    asked = work or Work(10, 3, 80)
    without, with_it, ledger = guess_records(file, subject, asked, np.random.default_rng(1), silent=silent)
    claim = Claim(ledger.epsilon(1e-5), 1e-5, unit, "add-remove")
    return judged("planted", claim, Curve.of(ledger, "pld"), [(without, with_it)], EFFORT), ledger


def test_private_training_keeps_its_claim_and_without_noise_the_same_audit_exceeds_it():
    file = settings()
    honest, ledger = found(file, task, silent=False)
    assert not honest.refuted
    assert honest.audited.epsilon <= honest.proved.epsilon
    assert honest.proved.epsilon == pytest.approx(2.0, rel=1e-3)  # all answers that the noise was sized for
    plan = round_plan(file.train, 3, 200)
    assert ledger.lines == ((plan.event(0), 3 * plan.steps),)
    bare, _ = found(file, task, silent=True)
    assert bare.refuted
    assert bare.audited.epsilon > 2.0


def test_planted_owners_keep_their_claim_and_records_clipped_one_by_one_do_not():
    file = settings(OWNED)
    honest, ledger = found(file, owned_task, silent=False, unit="owner", work=Work(10, 3, 60))
    assert ledger.unit == "owner"
    assert not honest.refuted
    bare, _ = found(file, owned_task, silent=True, unit="owner", work=Work(10, 3, 60))
    assert bare.refuted


def test_the_small_federation_has_the_noise_of_the_file():
    file = private(rounds=9, clients=4, encrypt={"encrypt_type": "DDP_ENCRYPT"})
    small = as_seen(file, 2)
    assert most_answers(small) == most_answers(file) == 19
    assert round_plan(small.train, most_answers(small), 500) == round_plan(file.train, most_answers(file), 500)
    assert (small.updates.name, small.rounds) == ("NOT_ENCRYPT", 2)


def test_a_planted_record_moves_its_coordinate_by_what_clipping_leaves():
    """All are in the sample, nothing else is there and no noise: one step of at most the clipping norm each."""
    file = settings(train=TRAIN | {"batch": 1000, "learning_rate": 1.0, "privacy": PRIVACY | {"clip": 0.5}}, rounds=1)
    without, with_it, _ = guess_records(file, task, Work(2, 1, 20), np.random.default_rng(0), silent=True)
    assert LENGTH > 1
    assert np.median(with_it) - np.median(without) == pytest.approx(0.5 / 200, rel=0.2)


def test_only_client_0_is_planted():
    planting = Planting(task, {"0.weight": np.array([1])}, np.array([True]))
    before = task.attached
    planting.fit(1, task.model(), _work())
    assert task.attached is before
    planting.fit(0, task.model(), _work())
    assert task.attached is before


def _work():
    return FitWork(0, settings().train, (0, 0), answers=3)


def test_the_audit_of_a_file_has_it_and_asks_the_rest_without_private_training():
    made = horizontal.attacks(load(FILE | {"encrypt": {"encrypt_type": "DDP_ENCRYPT"}}), Scope())
    names = [step.name for step in made.steps]
    assert "planted records in whole federations" in names
    units = [each.promise.unit for each in made.promises]
    assert units == ["client", "record"]
    of_records = made.promises[1].promise
    assert of_records.epsilon == pytest.approx(4.0, rel=1e-3)
    assert of_records.against.startswith("for each record of a client")


@pytest.mark.slow
@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_every_step_of_the_audit_runs(encrypt_type):
    made = horizontal.attacks(load(FILE | {"encrypt": {"encrypt_type": encrypt_type}}), Scope())
    for step in made.steps:
        for each in step.find():
            assert not getattr(each, "refuted", False), (step.name, each)


@pytest.mark.slow
def test_the_audit_of_owners_at_clients():
    file = load(FILE | {"task": f"{NETS}:owned_task", "train": TRAIN | {"privacy": OWNED}})
    finding = audit_records(file, owned_task, Scope(), EFFORT)
    assert finding.proved.unit == "owner"
    assert "planted owners" in finding.attack
    assert not finding.refuted
