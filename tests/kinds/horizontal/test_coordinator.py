"""When a round closes (with all updates, enough and a grace, or without lost clients), and who is invited."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import Kept, RoundStarted
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator, Phase
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Masked
from tests.kinds.horizontal.federations import Numbers, finished, run, settings_for

GRACE = 30.0  # seconds, the default


def opened(**keys):
    kept = Kept()
    coordinator = Coordinator(settings_for(rounds=1, **keys), Numbers().model(), kept, lambda: 0.0)
    return coordinator, coordinator.begin(0.0), kept


def update(coordinator, client, now):
    coordinator.receive(client, Update(0, client, np.ones(5), 1), now)


def test_a_round_closes_a_grace_after_enough_updates():
    coordinator, _, kept = opened(clients=10)
    for client in range(5):  # half of them: update_model_ratio
        assert coordinator.phase is Phase.COLLECTING
        update(coordinator, client, 7.0 + client)
    coordinator.tick(11.0 + GRACE - 0.001)
    assert coordinator.phase is Phase.COLLECTING
    update(coordinator, 5, 20.0)  # in the grace, and it is not made longer
    coordinator.tick(11.0 + GRACE)
    assert finished(kept)[0].survivors == 6


def test_with_too_few_updates_the_whole_window_is_waited():
    coordinator, _, kept = opened(clients=10, round={"update_model_time_window": 500_000})
    for client in range(4):
        update(coordinator, client, 1.0)
    coordinator.tick(499.9)
    assert coordinator.phase is Phase.COLLECTING
    coordinator.tick(500.0)
    assert coordinator.phase is Phase.BETWEEN
    assert not finished(kept)


def test_a_grace_does_not_outlast_the_window():
    coordinator, _, kept = opened(clients=4, round={"update_model_time_window": 10_000})
    for client in range(2):
        update(coordinator, client, 9.0)
    coordinator.tick(10.0)
    assert finished(kept)[0].survivors == 2


@pytest.mark.parametrize("slow", [0, 1, 3])
def test_masked_uploads_too_are_waited_for_a_grace(slow):
    """The sum is that of the clients that uploaded in time, whatever the others send afterwards."""
    settings = settings_for(clients=8, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT"})
    kept, task = Kept(), Numbers()
    layout = Layout.of(task.model())
    coordinator = Coordinator(settings, task.model(), kept, lambda: 0.0)
    clients = {identity: Client(settings, identity, task.fit, layout) for identity in range(8)}
    belated = []
    outgoing = coordinator.begin(0.0)
    while outgoing:
        answers = []
        for identity, message in outgoing:
            for answer in clients[identity].receive(message, 5.0):
                if isinstance(answer, Masked) and identity < slow:
                    belated.append((identity, answer))
                else:
                    answers += coordinator.receive(identity, answer, 5.0)
        outgoing = answers
        if not outgoing and coordinator.phase is Phase.COLLECTING:
            assert not coordinator.tick(5.0 + GRACE - 0.001)
            outgoing = coordinator.tick(5.0 + GRACE)
            for identity, answer in belated:
                outgoing += coordinator.receive(identity, answer, 5.0 + GRACE)
    (only,) = finished(kept)
    assert only.survivors == 8 - slow
    weights = [(client, client + 1) for client in range(slow, 8)]
    mean = sum(value * weight for value, weight in weights) / sum(weight for _, weight in weights)
    np.testing.assert_allclose(coordinator.model["weights"], mean, atol=1e-5)


def test_a_client_that_was_given_up_may_be_back_in_time():
    coordinator, _, kept = opened(clients=4)
    coordinator.gone(3, 1.0)
    update(coordinator, 3, 2.0)
    for client in range(3):
        update(coordinator, client, 3.0)
    assert finished(kept)[0].survivors == 4
    assert finished(kept)[0].refused == 0


def test_a_client_that_was_refused_is_not_taken_again():
    coordinator, _, kept = opened(clients=4)
    coordinator.receive(3, Update(0, 3, np.full(5, math.nan), 1), 1.0)
    update(coordinator, 3, 2.0)
    for client in range(3):
        update(coordinator, client, 3.0)
    assert finished(kept)[0].survivors == 3


def test_without_the_clients_that_are_gone_a_round_closes_at_once():
    coordinator, _, kept = opened(clients=4)
    for client in range(3):
        update(coordinator, client, 1.0)
    coordinator.gone(3, 1.0)
    assert finished(kept)[0].survivors == 3


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_more_clients_are_invited_than_a_round_needs(encrypt_type):
    times = {"start_fl_job_threshold": 8, "over_select": 1.25, "update_model_ratio": 0.75}
    settings = settings_for(clients=14, encrypt={"encrypt_type": encrypt_type}, round=times)
    assert (settings.wanted, settings.sampled, settings.needed) == (8, 10, 6)
    if settings.masked:
        assert settings.secure(1, 64).sharing == settings.sharing == 7  # 80% of the wanted, not of the invited
    _, kept = run(settings, Numbers())
    assert [event.sampled for event in kept.events if isinstance(event, RoundStarted)] == [10] * 3
    assert [event.survivors for event in finished(kept)] == [10] * 3


@given(st.integers(1, 400), st.integers(1, 400), st.floats(1, 3), st.floats(0.01, 1))
def test_no_setting_invites_fewer_than_are_needed(clients, threshold, over_select, ratio):
    threshold = min(threshold, clients)
    if threshold == clients:
        over_select = 1.0
    times = {"start_fl_job_threshold": threshold, "over_select": over_select, "update_model_ratio": ratio}
    settings = settings_for(clients=clients, round=times)
    assert 1 <= settings.needed <= settings.wanted <= settings.sampled <= clients


def test_to_invite_more_where_all_are_invited_is_a_mistake():
    with pytest.raises(ValueError, match=r"over_select is 1\.5, but every client is invited already"):
        settings_for(clients=5, round={"over_select": 1.5})
