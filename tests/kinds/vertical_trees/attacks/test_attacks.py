"""The attacks on a file's own tables."""

from __future__ import annotations

import pytest

from tacit.audit.scope import Scope
from tacit.config.source import ConfigError
from tacit.kinds.vertical_trees.attacks import attacks, cases
from tacit.kinds.vertical_trees.attacks.training import train
from tacit.kinds.vertical_trees.settings import Column
from tests.kinds.vertical_trees.trees_tables import of_tables

ON_SUMS = ["rows of a bin", "whole columns", "order of columns", "labels from nodes", "labels from splits"]
OVER_CHANNELS = ["words of gradients", "the wire"]


def names(made):
    return [step.name for step in made.steps]


def test_steps_fit_the_file(tmp_path):
    made = attacks(of_tables(tmp_path), Scope())
    assert names(made) == [*ON_SUMS, *OVER_CHANNELS]
    assert "10 rows or more at 8 bits" in made.protection
    two = attacks(of_tables(tmp_path, 2), Scope())
    assert names(two) == [f"{step}: {name}" for name in ("shop0", "shop1") for step in [*ON_SUMS, *OVER_CHANNELS]]
    numbers = attacks(of_tables(tmp_path, objective="squared"), Scope())
    assert "labels from nodes" not in names(numbers)
    assert any("objective: squared" in text for text in numbers.not_tested)


def test_a_case_has_the_training_rows_and_the_passive_last(tmp_path):
    settings = of_tables(tmp_path, 2, rows=200, columns=7)
    found = cases(settings)
    assert list(found) == ["shop0", "shop1"]
    for case in found.values():
        assert len(case.labels) == 160
        assert [table.binned.shape for table in case.tables] == [(160, 3), (160, 2), (160, 2)]
    assert (found["shop0"].tables[-1].binned == found["shop1"].tables[1].binned).all()


def test_monotone_constraints_of_the_file_hold_in_the_trees_that_are_attacked(tmp_path):
    """The active's first column raises labels; it may only lower them here, so that no tree splits by it."""
    settings = of_tables(tmp_path)
    bank = settings.data["bank"]
    falling = bank.model_copy(update={"columns": {f"bank_{k}": Column(monotone="falling") for k in range(3)}})
    first = []
    for each in (settings, settings.model_copy(update={"data": {**settings.data, "bank": falling}})):
        case = cases(each)["shop0"]
        trees = train(case.tables, case.labels, case.terms, loss=case.loss)[0].ensemble.trees
        first.append([tree.feature[tree.party == 0].tolist().count(0) for tree in trees])
    assert all(first[0])
    assert not any(first[1])


def test_a_file_whose_run_would_not_begin_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"privacy\.least lets no node below 1000 be opened"):
        attacks(of_tables(tmp_path, privacy={"least": 1000}), Scope())


@pytest.mark.parametrize("least", [64, 550])
def test_large_nodes_are_attacked_on_rows_enough_to_open_some(tmp_path, least):
    settings = of_tables(tmp_path, rows=800, privacy={"least": least}, train={"trees": 3})
    (step,) = (each for each in attacks(settings, Scope()).steps if each.name == "whole columns")
    (finding,) = step.find()
    assert finding.on is not None
    assert f"least: {least}" in finding.protection
