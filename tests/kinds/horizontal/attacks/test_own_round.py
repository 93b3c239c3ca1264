"""A file's own round: its records are read out of it where nothing protects, and not under masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.kinds.horizontal.attacks.own_round import audit_own_round, first_layer, fits
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask
from tests.kinds.horizontal.federations import Numbers, settings_for

TRAIN = {"epochs": 1, "batch": 1000, "learning_rate": 0.5}


def audited(encrypt, clients=6):
    settings = settings_for(rounds=1, clients=clients, train=TRAIN, encrypt=encrypt)
    return audit_own_round(settings, tasks.make("digits", clients, 0, {}), protection="a protection", seed=0)


def test_a_client_with_one_record_is_read():
    made: Any = tasks.make("digits", 6, 0, {})
    task = SoftmaxTask([(x[:1], y[:1]) for x, y in made._parts], made._test, 10)
    settings = settings_for(rounds=1, clients=6, train=TRAIN)
    each, total = audit_own_round(settings, task, protection="none", seed=0)
    assert each.off.value == 1
    assert each.on is None
    assert each.pictures.originals.shape == (6, 8, 8)
    np.testing.assert_allclose(each.pictures.off, each.pictures.originals, atol=1e-4)
    assert total.off.value < 1


def test_masks_hide_each_upload():
    each, _ = audited({"encrypt_type": "PW_ENCRYPT"})
    assert each.on.value == 0
    assert each.proved is None
    noisy, _ = audited({"encrypt_type": "DP_ENCRYPT", "dp_eps": 2.0, "dp_delta": 1e-5})
    assert noisy.on.value == 0
    assert (noisy.proved.epsilon, noisy.proved.relation) == (2.0, "replace-one")


def test_a_round_in_which_every_client_is_refused_says_why():
    """With 6 clients of the digits each has more than 100 samples."""
    with pytest.raises(ValueError, match=r"no client uploaded an update.*pw_encrypt.largest_weight = 100: raise it"):
        audited({"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"largest_weight": 100}})


def test_tasks_that_do_not_fit():
    assert fits(tasks.make("digits", 6, 0, {}))
    assert fits(tasks.make("digits_unsupervised", 6, 0, {}))
    assert not fits(Numbers())
    assert first_layer({"strange": np.zeros(3)}) is None
    with pytest.raises(ValueError, match="does not tell"):
        audit_own_round(settings_for(rounds=1, clients=4), Numbers(), protection="none", seed=0)
