"""What makes no sense is refused in words; the file of the design is read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tacit.kinds.vertical_logistic.settings import Settings

PARTIES = {"bank": {"role": "active"}, "shop": {"role": "passive"}}

THREE = PARTIES | {"post": {"role": "passive"}}
DEALT = PARTIES | {"notary": {"role": "dealer"}}


def test_two_parties_on_shares_have_no_helper_unless_there_is_a_dealer():
    for given in ({}, {"helper": "none"}, {"protocol": "shared"}, {"protocol": "shared", "helper": "none"}):
        found = Settings.model_validate({"parties": PARTIES} | given)
        assert (found.protocol, found.helper, found.dealer) == ("shared", "none", None)
        assert found.agreed() == Settings.model_validate({"parties": PARTIES, "helper": "none"}).agreed()
    dealt = Settings.model_validate({"parties": DEALT})
    assert (dealt.protocol, dealt.helper, dealt.dealer) == ("shared", None, "notary")


@pytest.mark.parametrize("parties", [PARTIES, THREE])
def test_a_file_that_names_the_masked_protocol_has_it_also_when_it_was_stored(parties):
    found = Settings.model_validate({"protocol": "masked", "parties": parties})
    assert (found.protocol, found.helper) == ("masked", None)
    assert Settings.model_validate(found.model_dump(mode="json")) == found  # every key is stored, also `helper: null`


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parties": {"a": {"role": "passive"}}}, "0 of them are active"),
        ({"parties": {"a": {"role": "active"}, "b": {"role": "active"}}}, "2 of them are active"),
        ({"parties": {"a": {"role": "active"}}}, "no passive one"),
        ({"parties": THREE}, "role dealer, or take protocol: masked"),
        ({"protocol": "shared", "parties": THREE}, "role dealer, or take protocol: masked"),
        ({"helper": "none", "parties": THREE}, "role dealer, or take protocol: masked"),
        ({"helper": "dealer"}, "none of bank, shop is a dealer"),
        ({"protocol": "masked", "helper": "none"}, "masked, which has no dealer"),
        ({"helper": "none", "parties": DEALT}, "notary is a dealer: leave out one of them"),
        ({"parties": DEALT | {"judge": {"role": "dealer"}}}, "2 of them are dealers"),
        ({"data": {"post": {"path": "x.csv"}}}, "none of the parties"),
        ({"data": {"shop": {"path": "x.csv", "label": "y"}}}, "passive and has no label"),
        ({"data": {"bank": {"path": "x.csv"}}, "task": "cancer"}, "both given"),
        ({"task_options": {"overlap": 1}}, "without a task"),
        ({"train": {"epochs": 30}, "checks": {"row_uses": 20}}, "lower the first or raise the last"),
        ({"train": {"schedule": "step", "decay": 2.0}}, "at most 1"),
        ({"model": "linear", "train": {"class_weight": "balanced"}}, "leave it out with model: linear"),
        ({"train": {"class_weight": {"yes": 0}}}, "greater than 0"),
        ({"train": {"batch": 1}}, "greater than or equal to 2"),
        ({"train": {"secret_spread": -0.1}}, "greater than or equal to 0"),
        ({"train": {"epoch": 1}}, "Extra inputs"),
        ({"paillier": {"bits": 1000}}, "512, 1024, 2048"),
        ({"parties": {"bank": {"role": "active", "address": "nowhere"}, "shop": {"role": "passive"}}}, "HOST:PORT"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(changes, words):
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate({"parties": PARTIES} | changes)


def test_the_model_is_part_of_what_is_agreed():
    one, other = (Settings.model_validate({"parties": PARTIES, "model": model}) for model in ("logistic", "linear"))
    assert one.agreed() != other.agreed()


def test_a_cosine_falls_from_the_learning_rate_to_nothing():
    train = Settings.model_validate(
        {"parties": PARTIES, "train": {"schedule": "cosine", "epochs": 4, "learning_rate": 2.0}}
    ).train
    rates = [train.rate(epoch) for epoch in range(5)]
    assert rates == pytest.approx([2.0, 1 + 2**-0.5, 1.0, 1 - 2**-0.5, 0.0])


def test_the_file_of_the_design():
    settings = Settings.model_validate(
        {
            "kind": "vertical_logistic",
            "protocol": "masked",
            "parties": {
                "bank": {"role": "active", "address": "bank.example:8443"},
                "shop": {"role": "passive", "address": "shop.example:8443"},
            },
            "data": {"bank": {"path": "bank.csv", "id": "id", "label": "y"}, "shop": {"path": "shop.csv", "id": "id"}},
            "align": True,
            "train": {"epochs": 20, "batch": 512, "learning_rate": 0.1, "l2": 0.001, "batch_order": "epoch"},
            "paillier": {"bits": 3072, "workers": 2},
        }
    )
    assert settings.active == "bank"
    assert settings.passives == ("shop",)
    assert settings.notes() == ["one passive: bank sees the score w·x of shop for every row, in every epoch"]


@pytest.mark.parametrize(("spread", "warned"), [(0.0, True), (0.1, True), (0.3, False), (1.0, False)])
def test_a_spread_of_secret_offsets_at_which_labels_were_read_is_warned_of(spread, warned):
    settings = Settings.model_validate({"protocol": "masked", "parties": PARTIES, "train": {"secret_spread": spread}})
    assert any(f"train.secret_spread is {spread:g}" in note for note in settings.notes()) == warned


def test_only_logistic_regression_under_masks_has_secret_offsets():
    assert Settings.model_validate({"protocol": "masked", "parties": PARTIES}).secret_spread == 1.0
    linear = Settings.model_validate({"protocol": "masked", "parties": PARTIES, "model": "linear"})
    shared = Settings.model_validate({"parties": DEALT})
    assert linear.secret_spread == shared.secret_spread == 0.0
    assert not any("secret_spread" in note for each in (linear, shared) for note in each.notes())
