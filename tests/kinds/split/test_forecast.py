"""The forecast against what trainings then cost."""

from __future__ import annotations

import math

import pytest

from tacit.kinds.split.forecast import Sizes, forecast
from tests.kinds.split.networks import RECORDS, TEST, parts_u, parts_v, settings_u, settings_v, train

NOISED = {"protection": "noised", "noise_multiplier": 4.0, "bits": 8}


def planned(settings, parts):
    return forecast(settings, Sizes.of(settings, parts))


def test_sizes_are_those_of_the_parts():
    sizes = Sizes.of(settings_v(), parts_v())
    assert (sizes.records, sizes.test_records) == (RECORDS, TEST)
    assert sizes.cuts == {"east": (6,), "west": (5,)}
    assert sizes.parameters["east"] == 4 * 6 + 6
    assert Sizes.of(settings_u(), parts_u()).back_cut == (6, 8)
    with pytest.raises(ValueError, match="part of a follower"):
        Sizes.of(settings_u(), {"office": parts_u()["cloud"]})


def test_the_epsilon_that_is_forecast_is_the_one_that_is_spent():
    settings = settings_v(embedding_dp={"eps": 5}, gradients=NOISED, label_dp={"eps": 2})
    figures = planned(settings, parts_v()).figures
    outcomes = train(settings, parts_v())
    assert figures["embedding_eps_claimed"] == 5
    assert figures["embedding_epsilon_training.east"] == outcomes["east"].ledgers["records"].pure_epsilon() == 75
    assert figures["embedding_epsilon_visit.west"] == 12.5
    spent = outcomes["lead"].ledgers["records"].epsilon(1e-5)
    assert figures["gradient_epsilon_training"] == pytest.approx(spent)
    assert figures["label_epsilon"] == outcomes["lead"].ledgers["labels"].pure_epsilon() == 2
    assert outcomes["east"].ledgers["evaluation records"].pure_epsilon() == 75


def test_in_u_the_leaders_records_pay_for_bits_and_gradients():
    settings = settings_u(embedding_dp={"eps": 1}, gradients=NOISED)
    figures = planned(settings, parts_u()).figures
    ledger = train(settings, parts_u())["office"].ledgers["records"]
    assert figures["embedding_epsilon_training.office"] == 5 * 48 / 2
    total = figures["embedding_epsilon_training.office"] + figures["gradient_epsilon_training"]
    assert ledger.epsilon(1e-5) == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize(("kind", "make"), [(settings_v, parts_v), (settings_u, parts_u)], ids=["V", "U"])
@pytest.mark.parametrize("changes", [{}, {"embedding_dp": {"eps": 5}, "gradients": {"bits": 8}}])
def test_bytes_of_a_step(kind, make, changes):
    """One more step of 8 records costs what is forecast, and the heads of its messages."""
    few, more = (kind(train={"epochs": 1, "batch": 8, "steps": s}, **changes) for s in (7, 8))
    parts = make()
    moved = [sum(outcome.bytes_sent for outcome in train(settings, parts).values()) for settings in (few, more)]
    figures = planned(few, parts).figures
    assert 0 < moved[1] - moved[0] - figures["bytes_step"] < 50 * 4
    assert figures["bytes_step"] <= figures["bytes_step_unpacked"]
    if changes:
        assert figures["bytes_activations_unpacked"] / figures["bytes_activations"] == pytest.approx(32, rel=0.05)


def test_words():
    plain = planned(settings_v(), parts_v())
    text = " ".join(line for lines in plain.parts.values() for line in lines)
    assert "Gradients that cross back: epsilon none." in text
    assert "Activations have no epsilon" in text
    protected = planned(settings_v(embedding_dp={"eps": 5}), parts_v())
    text = " ".join(protected.parts["Epsilon"])
    assert "The embedding is protected by EmbeddingDP with eps 5.000000. For a whole record that is epsilon 75" in text
    assert any("in place of" in line for line in protected.parts["Messages"])
    insecure = planned(settings_v(embedding_dp={"eps": 5}, simulation={"insecure_noise_seed": 1}), parts_v())
    assert insecure.figures["embedding_epsilon_training.east"] == math.inf
