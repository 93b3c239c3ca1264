"""Sums subtracted: everything is recovered without limits, and with them what the plan says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.audit.scope import Scope
from tacit.kinds.horizontal import attacks as horizontal
from tacit.kinds.horizontal.attacks.differences import Subtracting, audit_differences
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask
from tests.kinds.horizontal.federations import settings_for

CLIENTS = 8


def scene(encrypt_type="PW_ENCRYPT", rounds=10, **limits):
    return settings_for(
        clients=CLIENTS,
        rounds=rounds,
        encrypt={"encrypt_type": encrypt_type, "ddp_eps": 8.0},
        round=limits,
        simulation={"insecure_noise_seed": 3},
    )


def audited(models, encrypt_type="PW_ENCRYPT", **keys):
    found = audit_differences(
        scene(encrypt_type, **keys), tasks.make("digits", CLIENTS, 0, {}), models, protection="masks"
    )
    assert found.off.value == 1  # the control: each update, nearly exactly
    assert found.also[0][0].value < 1e-5
    return found


def test_the_same_model_gives_as_many_updates_as_repeats():
    found = audited("same model")
    assert found.on.value == 2 / CLIENTS
    (_, error), _, (counted_off, counted) = found.also
    assert error.value == 1  # of most clients nothing
    assert (counted_off.value, counted.value) == (1, 2 / CLIENTS)
    assert "3 were opened, 9 without" in found.sees
    assert "repeats: 2" in found.protection
    assert audited("same model", repeats=0).on.value == 0


def test_a_moved_model_gives_all_of_them():
    found = audited("moved model")
    assert found.on.value == 1
    assert found.also[-1][1].value == 1
    assert found.proved is None


def test_least_difference_gives_none():
    for models in ("same model", "moved model"):
        found = audited(models, least_difference=2)
        assert (found.on.value, found.also[-1][1].value) == (0, 0)
        assert "1 were opened" in found.sees


@pytest.mark.parametrize("models", ["same model", pytest.param("moved model", marks=pytest.mark.slow)])
def test_noise_answers_both(models):
    found = audited(models, "DDP_ENCRYPT")
    assert found.on.value == 0
    assert found.also[0][1].value > 10  # the noise is many times what it hides
    assert (found.proved.epsilon, found.proved.relation) == (8.0, "zero-out")
    assert len(found.also) == 2  # no samples leave a client


def test_no_more_sums_are_opened_than_were_paid_for():
    settings = scene("DDP_ENCRYPT", rounds=3)
    assert Subtracting(settings, tasks.make("digits", CLIENTS, 0, {})).subtract("same model").opened == 3


def test_a_client_that_cannot_be_judged_counts_as_not_recovered():
    class Fails(SoftmaxTask):
        def fit(self, client, model, work):
            if client == 1:
                raise FloatingPointError("in the data")
            return super().fit(client, model, work)

    made: Any = tasks.make("digits", CLIENTS, 0, {})
    coordinator = Subtracting(scene(repeats=100), Fails(made._parts, made._test, 10))
    with pytest.raises(FloatingPointError):  # a mistake of the task is not hidden
        coordinator.subtract("same model")


def test_it_is_part_of_the_audit_of_a_file_with_masks():
    def names(**keys):
        return [step.name for step in horizontal.attacks(settings_for(**keys), Scope()).steps]

    assert "sums subtracted" in names(encrypt={"encrypt_type": "PW_ENCRYPT"})
    assert "sums subtracted" in names(encrypt={"encrypt_type": "DDP_ENCRYPT"})
    assert "sums subtracted" not in names(encrypt={"encrypt_type": "DP_ENCRYPT"})
    with pytest.raises(ValueError, match="opens no sums"):
        audit_differences(settings_for(), tasks.make("digits", 12, 0, {}), "same model", protection="none")


def test_sums_that_never_open_are_no_finding():
    settings = settings_for(
        clients=CLIENTS, encrypt={"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"largest_weight": 9}}
    )
    task = tasks.make("digits", CLIENTS, 0, {})
    with pytest.raises(ValueError, match=r"no sum was opened.*pw_encrypt.largest_weight = 9: raise it"):
        audit_differences(settings, task, "same model", protection="masks")


def test_it_comes_to_the_same_again():
    settings = scene("DDP_ENCRYPT")
    task = tasks.make("digits", CLIENTS, 0, {})
    first, second = (Subtracting(settings, task).subtract("moved model") for _ in range(2))
    assert np.array_equal(first.errors, second.errors)
