from __future__ import annotations

import pytest
from pydantic import ValidationError

from tacit.kinds.vertical_trees.settings import Data, Settings

PARTIES = {"bank": {"role": "active"}, "shop": {"role": "passive"}}


def made(**changes):
    return Settings.model_validate({"parties": PARTIES, **changes})


def test_the_active_comes_first_in_the_order_of_trees():
    settings = made(parties={"a": {"role": "passive"}, "b": {"role": "active"}, "c": {"role": "passive"}})
    assert settings.order == ("b", "a", "c")
    assert settings.hub == settings.lead == "b"
    assert settings.label_kind("a") is None


def test_terms_are_those_of_the_file():
    terms = made(
        train={"trees": 7, "depth": 2, "l2": 3.0, "min_child_weight": 4.0, "min_gain": 0.5, "rows": 0.5,
               "features": 0.25, "learning_rate": 0.2, "patience": 3},
        privacy={"bits": 6, "least": 100}, seed=9,
    ).terms  # fmt: skip
    assert (terms.rounds, terms.learning_rate, terms.patience, terms.seed) == (7, 0.2, 3, 9)
    growth = terms.growth
    assert (growth.depth, growth.bits, growth.least, growth.rows, growth.features) == (2, 6, 100, 0.5, 0.25)
    assert (growth.rules.l2, growth.rules.min_child_weight, growth.rules.min_gain) == (3.0, 4.0, 0.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parties": {"a": {"role": "active"}, "b": {"role": "active"}}}, "2 of them are active"),
        ({"parties": {"a": {"role": "active"}}}, "no passive one"),
        ({"data": {"who": {"path": "x.csv"}}}, "who is none of the parties bank, shop"),
        ({"data": {"shop": {"path": "x.csv", "label": "y"}}}, "shop is passive and has no label"),
        ({"task": "cancer", "data": {"shop": {"path": "x.csv"}}}, "task and data are both given"),
        ({"task_options": {"overlap": 0.5}}, "task_options without a task"),
        ({"train": {"objective": "squared", "class_weight": "balanced"}}, "class_weight is for classes"),
        ({"train": {"patience": 3, "test": 0.0}}, "patience needs held-out rows"),
        ({"train": {"bins": 2}}, "greater than or equal to 3"),
        ({"privacy": {"bits": 17}}, "less than or equal to 16"),
        ({"privacy": {"partition": "secret"}}, "'shown' or 'hidden'"),
    ],
)
def test_what_does_not_fit_is_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        made(**changes)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"columns": {"x": "woe"}}, "woe is for regressions"),
        ({"columns": {"x": {"missing": "mean"}}}, "trees have a bin for missing values"),
        ({"missing": "median"}, "trees have a bin for missing values"),
        ({"label_counts": True}, "label_counts are for weight of evidence"),
        ({"columns": {"x": {"use": "one_hot", "monotone": "rising"}}}, "monotone is for numbers"),
        ({"columns": {"x": {"monotone": "up"}}}, "'rising' or 'falling'"),
    ],
)
def test_columns_that_only_a_regression_has_are_refused(data, words):
    with pytest.raises(ValidationError, match=words):
        Data.model_validate({"path": "x.csv", **data})


def test_monotone_signs_are_those_of_the_columns():
    data = Data.model_validate(
        {"path": "x.csv", "columns": {"a": {"monotone": "rising"}, "b": {"monotone": "falling"}, "c": "numeric"}}
    )
    assert [data.sign(name) for name in "abcd"] == [1, -1, 0, 0]


def test_notes_tell_of_small_bins_and_of_nodes_that_are_shown():
    assert len(made().notes()) == 0
    (shown,) = made(privacy={"partition": "shown"}).notes()
    assert "rank the rows by their labels" in shown
    (small,) = made(train={"bins": 32}).notes()
    assert "in a node of 64 rows a bin has about 2.1" in small
    assert "take 248 or more" in small
