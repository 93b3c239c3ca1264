"""Which attacks of an honest party's view an audit of a file makes, and that files without categories are audited."""

import numpy as np
import pytest

from tacit.audit.scope import Scope
from tacit.kinds.vertical_logistic.attacks.readable import readings
from tests.kinds.vertical_logistic.attacks.census import FEWER, census
from tests.kinds.vertical_logistic.parties import deal, labelled, shared_out

QUICK = Scope(quick=True)


def of_numbers(model: str = "two", columns: int = 40, **train):
    settings = deal(
        1, model="linear" if model == "linear" else "logistic", train={"epochs": 1, "batch": 120, "test": 0.2, **train}
    )
    x, y = labelled(300, columns, model)
    return settings, shared_out(x, settings), y


def findings(settings, features, labels, scope=QUICK):
    steps, _ = readings(settings, features, labels, scope)
    return {step.name: found for step in steps for found in step.find()}


def test_labels_of_the_first_batch_are_named_without_offsets_and_not_with_them():
    """40 columns at the passive's half of the table: 20 to 120 rows, which is 10 to 60 in the lattice."""
    settings, features, y = of_numbers(secret_spread=1.0)
    (found,) = findings(settings, features, y).values()
    assert found.off.value == 1.0
    assert found.on.value == found.on.baseline < 0.7
    assert "10 numbers over 60 rows; cut down from 20 columns and batches of 120 rows" in found.sees
    assert found.protection == "a secret offset of each row at the active, of spread 1"
    assert findings(*of_numbers(secret_spread=0.0)).popitem()[1].on is None


def test_a_file_with_many_rows_to_a_column_is_attacked_in_that_ratio_and_not_in_a_better_one():
    (found,) = findings(*of_numbers(columns=8, secret_spread=0.0)).values()
    assert "2 numbers over 60 rows" in found.sees
    assert not found.off.informative


def test_three_classes_are_attacked_by_one_of_them():
    (found,) = findings(*of_numbers("three", secret_spread=1.0)).values()
    assert found.off.value == 1.0


def test_a_file_without_categories_says_what_is_not_tested():
    settings, features, y = of_numbers()
    _, left_out = readings(settings, features, y, QUICK)
    assert left_out == ["counts and scores of categories: no passive has a column of two values"]


def test_a_linear_model_says_what_is_not_tested():
    settings, features, y = of_numbers("linear")
    steps, left_out = readings(settings, features, y, QUICK)
    assert not steps
    assert "labels of a linear model" in left_out[0]


@pytest.mark.parametrize("passives", [1, 2])
def test_categories_are_counted_and_people_told_apart(passives):
    """The second passive has numbers: sums with its scores hide which people are equal."""
    tables = census(1500, FEWER, passives=4)
    settings = deal(passives, train={"epochs": 1, "batch": 1500, "secret_spread": 1.0})
    features = {"bank": tables.active, "shop0": tables.own, "shop1": tables.passives}
    found = findings(settings, {name: features[name] for name in settings.parties}, tables.labels)
    counts, equal, read = (found[f"{name} shop0{rest}"] for name, rest in NAMES)
    assert counts.off.value == 1.0
    assert counts.on.value < 0.6
    assert equal.off.value == 1.0
    assert read.off.value > 0.5 > 5 * read.off.baseline
    for each in (equal, read):
        assert (each.on is None) == (passives == 1)
        assert each.on is None or each.on.value == 0.0


NAMES = (("positives of each category of", ""), ("equal people of", ""), ("attributes of", " from scores"))


def test_categories_of_a_later_passive_are_found():
    tables = census(300, FEWER, passives=4)
    settings = deal(2, train={"epochs": 1, "batch": 300})
    features = {"bank": tables.active, "shop0": tables.passives, "shop1": tables.own}
    steps, _ = readings(settings, features, tables.labels, QUICK)
    assert "positives of each category of shop1" in {step.name for step in steps}


def test_numbers_beside_categories_and_too_many_combinations_are_left_out_in_words():
    rng = np.random.default_rng(0)
    beside = np.hstack([census(200, FEWER).own, rng.normal(size=(200, 1))])
    settings = deal(1, train={"epochs": 1, "batch": 200})
    _, left_out = readings(
        settings, {"bank": rng.normal(size=(200, 2)), "shop0": beside}, rng.integers(0, 2, 200), QUICK
    )
    assert [text.split(":")[0] for text in left_out] == ["equal people of shop0", "attributes of shop0 from its scores"]
    wide = census(2000, (30,) * 12).own
    features = {"bank": rng.normal(size=(2000, 2)), "shop0": wide}
    _, left_out = readings(settings, features, rng.integers(0, 2, 2000), QUICK)
    assert any("too many combinations" in text for text in left_out)
