"""A coordinator that asks the same clients in every round: clients that forget what they uploaded are seen."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.audit.scope import Scope
from tacit.kinds.horizontal import client as horizontal_client
from tacit.kinds.horizontal.attacks import attacks
from tacit.kinds.horizontal.attacks.participations import audit_participations
from tacit.kinds.horizontal.attacks.variants import few_sampled, same_clients
from tacit.kinds.horizontal.protections.distributed_dp import skellam_encoding
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import settings_for

LAYOUT = Layout.of({"weights": np.zeros(20)})


def capped(most: int | None = 3):
    round = {"start_fl_job_threshold": 20} | ({} if most is None else {"participations": most})
    return settings_for(clients=60, rounds=9, round=round, encrypt={"encrypt_type": "DDP_ENCRYPT"})


def few():
    return few_sampled(capped(), Scope())


def test_clients_that_keep_the_cap_pass():
    found = audit_participations(few(), LAYOUT, protection="p")
    assert (found.broken, found.refuted) == ((), False)
    assert found.watched == 3 * few().sampled == 30


def test_clients_that_forget_their_uploads_in_a_restart_are_seen(monkeypatch):
    honest = horizontal_client.Client.state
    monkeypatch.setattr(horizontal_client.Client, "state", lambda self: honest(self) | {"sums": 0})
    found = audit_participations(few(), LAYOUT, protection="p")
    assert found.refuted
    assert found.broken == ("a client uploads 6 times, and the noise is sized for 3",)


def test_the_step_belongs_to_the_audit_of_a_file_with_a_cap():
    name = "the same clients in every round"
    assert name in [step.name for step in attacks(capped(), Scope()).steps]
    assert name not in [step.name for step in attacks(capped(None), Scope()).steps]
    with pytest.raises(ValueError, match=r"no round\.participations"):
        audit_participations(capped(None), LAYOUT, protection="p")


def test_sums_are_subtracted_with_the_noise_of_the_file():
    """With all clients in each round a cap cannot be, and the noise stays that of as many sums."""
    nearly = same_clients(capped(), Scope())
    assert (nearly.round.participations, nearly.rounds) == (None, 3)
    same = nearly.model_copy(update={"encrypt": capped().encrypt})
    assert skellam_encoding(same, 20).noise_multiplier == pytest.approx(
        skellam_encoding(capped(), 20).noise_multiplier, rel=0.01
    )
