"""Distributed DP: the sum carries the noise that was promised, and no smaller or further sum is opened."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.dp.accounting import Ledger
from tacit.errors import BudgetError
from tacit.events import BudgetReached, RoundAborted
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.protections.distributed_dp import central, skellam_encoding
from tacit.kinds.horizontal.task import Fitted
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import Numbers, finished, run, settings_for

DDP = {"encrypt_type": "DDP_ENCRYPT", "ddp_eps": 4.0, "ddp_delta": 1e-5}


class Still(Numbers):
    """Clients that learn nothing: what remains is noise."""

    def fit(self, client, model, work):
        return Fitted({"weights": model["weights"].copy()}, client + 1)


def test_the_whole_run_costs_what_the_file_says():
    engine, kept = run(settings_for(encrypt=DDP, rounds=4))
    (spent,) = engine.coordinator.spent()
    assert (spent.view, spent.covers) == ("central", ("updates",))
    assert (spent.ledger.unit, spent.ledger.relation) == ("client", "zero-out")
    assert 3.9 < spent.epsilon <= 4.0
    epsilons = [event.epsilon for event in finished(kept)]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == spent.epsilon
    assert finished(kept)[-1].delta == 1e-5


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_the_mean_carries_the_noise_of_the_survivors(dropout):
    settings = settings_for(
        clients=60, rounds=1, encrypt=DDP | {"n_min": 30, "colluders": 3}, simulation={"dropout": dropout}, seed=4
    )
    engine, kept = run(settings, Still(4000))
    survivors = finished(kept)[0].survivors
    encoding = skellam_encoding(settings, 4000)
    # Each share has a 27th of the central variance: 30 survivors, 3 of whom may tell theirs.
    assert encoding.share_variance == pytest.approx(encoding.central_variance / 27)
    expected = math.sqrt(encoding.share_variance * survivors) / encoding.scale / survivors
    assert engine.coordinator.model["weights"].std() == pytest.approx(expected, rel=0.06)


def test_weights_are_equal_and_updates_clipped():
    encrypt = DDP | {"ddp_eps": 1e5, "ddp_norm_clip": 1.0}
    # The noise has a standard deviation of 0.0076: of secret noise, one in a hundred means would be 0.02 away.
    settings = settings_for(clients=20, rounds=1, encrypt=encrypt, simulation={"insecure_noise_seed": 1})
    engine, _ = run(settings, Numbers(4))
    # Client i learns i in each of 4 numbers, from i + 1 samples: clipped to norm 1 that is 1/2 for all but client 0.
    assert engine.coordinator.model["weights"] == pytest.approx(np.full(4, 0.5 * 19 / 20), abs=0.02)


def test_with_fewer_survivors_than_n_min_the_sum_stays_closed_and_costs_nothing():
    settings = settings_for(
        clients=20,
        rounds=2,
        encrypt=DDP | {"n_min": 16},
        simulation={"dropout": 0.5},
        round={"update_model_ratio": 0.1},
    )
    engine, kept = run(settings)
    assert [type(event) for event in kept.events if not finished(kept)][-1] is RoundAborted
    assert engine.coordinator.sums == 0
    assert engine.coordinator.spent()[0].epsilon == 0


def test_a_client_takes_part_in_no_more_sums_than_its_epsilon_pays_for():
    settings = settings_for(encrypt=DDP, rounds=2)
    task = Numbers()
    client = Client(settings, 1, task.fit, Layout.of(task.model()))
    client.restore({"attempts": 2, "uploads": 2, "sums": 2})
    with pytest.raises(BudgetError, match="central epsilon of updates"):
        client.receive(Work(2, np.zeros(5)), 0.0)


def test_an_abandoned_round_counts_against_the_epsilon_of_the_run():
    settings = settings_for(encrypt=DDP, rounds=3)
    engine, kept = run(settings_for(encrypt=DDP, rounds=3))
    again, kept = run(settings, abandoned=1)
    assert engine.coordinator.sums == again.coordinator.sums == 3
    assert len(finished(kept)) == 2
    (stop,) = [event for event in kept.events if isinstance(event, BudgetReached)]
    assert stop.epsilon > 4.0
    assert again.coordinator.spent()[0].epsilon <= 4.0


def test_the_event_is_the_one_that_is_priced():
    settings = settings_for(encrypt=DDP, rounds=5, clients=50)
    (cost,) = Costs(settings, 650).central
    ledger = Ledger("client", "zero-out")
    ledger.spend(cost.event, 5)
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(4.0, rel=1e-4)
    ledger.spend(cost.event, 1)
    assert ledger.epsilon(1e-5, "rdp") > 4.0


def test_whoever_takes_part_knows_his_own_noise():
    """The guarantee is for those who see the model, clients among them: one share at least is not secret from them."""
    settings = settings_for(encrypt=DDP, clients=6)
    assert settings.colluders == 1
    encoding = skellam_encoding(settings, 650)
    assert encoding.share_variance * (encoding.fewest - 1) == pytest.approx(encoding.central_variance)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        settings_for(encrypt=DDP | {"colluders": 0})


def test_the_budget_is_the_default_of_its_epsilon():
    assert central(settings_for(encrypt={"encrypt_type": "DDP_ENCRYPT"})) == (8.0, 1e-5)
    limited = settings_for(encrypt={"encrypt_type": "DDP_ENCRYPT"}, budget={"epsilon": 3.0, "delta": 1e-6})
    assert central(limited) == (3.0, 1e-6)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"encrypt": DDP | {"n_min": 12}}, "n_min is 12"),
        ({"encrypt": DDP | {"n_min": 5, "colluders": 5}}, "colluders is 5"),
        ({"encrypt": DDP, "clients": 2}, "DDP_ENCRYPT needs 3 clients"),
        ({"encrypt": DDP, "budget": {"epsilon": 2.0}}, "ddp_eps is 4, above the budget of 2"),
    ],
)
def test_settings_that_cannot_hold_are_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        settings_for(**keys)
