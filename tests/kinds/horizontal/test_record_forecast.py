"""The plan of private training at clients: prices by size."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.kinds.horizontal.forecast import plan
from tacit.kinds.horizontal.plan_words import in_words
from tacit.kinds.horizontal.record_forecast import record_prices, record_warnings
from tacit.kinds.horizontal.record_plan import round_plan
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import Numbers, settings_for

TRAIN: dict[str, Any] = {"epochs": 1, "batch": 32, "learning_rate": 0.5, "privacy": {"epsilon": 3.0, "clip": 1.0}}


def private(**keys):
    return settings_for(**{"clients": 4, "rounds": 10, "train": TRAIN} | keys)


def test_prices_for_several_sizes_keep_the_same_epsilon():
    settings = private()
    made = record_prices(settings)
    assert [each.units for each in made.sizes] == [100, 1_000, 10_000]
    assert (made.epsilon, made.answers, made.rounds, made.unit) == (3.0, 20, 10, "record")
    for each in made.sizes:
        small = round_plan(settings.train, 20, each.units)
        assert each.noise_multiplier == small.initial_noise
        ledger = small.ledger()
        ledger.spend(small.event(0), 10 * small.steps)
        assert each.epsilon_run == pytest.approx(ledger.epsilon(1e-5))
        assert each.epsilon_round < each.epsilon_run < 3.0
    noises = [each.noise_multiplier for each in made.sizes]
    assert noises == sorted(noises, reverse=True)


def test_sizes_are_those_of_the_clients_if_the_task_tells():
    made = record_prices(private(), [40, 90, 100, 400])
    assert [each.units for each in made.sizes] == [40, 95, 400]
    owned = private(train=TRAIN | {"privacy": TRAIN["privacy"] | {
        "unit": "owner", "owner": "person", "records_per_owner": 3
    }})  # fmt: skip
    assert [each.units for each in record_prices(owned, [40, 90, 100, 400]).sizes] == [100, 1_000, 10_000]
    assert record_prices(owned).unit == "owner"


def test_the_plan_says_it_in_words_and_figures():
    made = in_words(plan(private(), Layout.of(Numbers().model()), None))
    (price,) = made.parts["What it costs in privacy"]
    assert price.head.startswith("training records: for each record of a client, for adding it or leaving it out")
    assert price.head.endswith("(unit record, add-remove)")
    assert [name for name, _ in price.rows][2:] == ["100", "1,000", "10,000"]
    assert price.rows[2][1].startswith("records at a client: noise multiplier")
    assert made.figures["records"]["epsilon"] == 3.0
    both = in_words(plan(private(encrypt={"encrypt_type": "DDP_ENCRYPT"}), Layout.of(Numbers().model()), None))
    assert len(both.parts["What it costs in privacy"]) == 2
    plain = in_words(plan(settings_for(), Layout.of(Numbers().model()), None))
    assert "records" not in plain.figures


def test_noise_for_rounds_that_may_never_come_is_noted():
    assert "sized for 20 trainings" in record_warnings(private())[0]
    assert record_warnings(private(round={"abandoned_rounds": 1})) == []
    assert record_warnings(settings_for()) == []
    weak = private(round={"abandoned_rounds": 0}, train=TRAIN | {"privacy": {"epsilon": 50.0}})
    assert record_warnings(weak) == ["train.privacy.epsilon 50 for each record hides nothing."]


def test_weights_are_not_claimed_by_samples():
    said = plan(private(encrypt={"encrypt_type": "PW_ENCRYPT"}), Layout.of(Numbers().model()), None)
    assert not any("largest_weight" in each for each in (*said.unprotected, *said.warnings))
