"""The attacks as steps of an audit."""

import numpy as np
import pytest

from tacit.audit.scope import Scope
from tacit.kinds.vertical_trees.attacks.audit_steps import Case, steps
from tacit.kinds.vertical_trees.protocol.boosting import Terms
from tacit.kinds.vertical_trees.protocol.growth import Options
from tacit.kinds.vertical_trees.protocol.losses import Logistic, Squared
from tests.kinds.vertical_trees.attacks.small_trees import drawn


def case(rows=200, loss=None, hidden=False):
    active, passive, labels = drawn(rows)
    terms = Terms(20, growth=Options(3, least=32))
    return Case([active, passive], labels, loss or Logistic(), terms, hidden)


def test_every_attack_finds_what_it_looks_for():
    found = {step.name: step.find()[0] for step in steps(case(), Scope())}
    assert list(found) == [
        "rows of a bin", "whole columns", "order of columns", "labels from nodes", "labels from splits"
    ]  # fmt: skip
    for finding in list(found.values())[:-1]:
        assert finding.off is not None
        assert finding.off.informative
    assert found["whole columns"].on.value > 0.95
    assert "bits: 8, least: 32, 16 bins" in found["whole columns"].protection


@pytest.mark.parametrize("hidden", [False, True])
def test_a_partition_that_the_file_does_not_have_protects_nothing(hidden):
    found = {
        step.name: step.find()[0]
        for step in steps(case(hidden=hidden), Scope())
        if "from" in step.name or "order" in step.name
    }
    labels, order = found["labels from nodes"], found["order of columns"]
    assert labels.on.informative != hidden
    assert (labels.on == labels.off) == (not hidden)
    assert ("none here: partition: hidden" in labels.protection) == (not hidden)
    assert (order.on == order.off) == hidden
    assert all(off == on for off, on in (labels.also if not hidden else order.also))


def test_hidden_partitions_tell_the_active_of_all_rows():
    shown, hidden = (case(hidden=each).record() for each in (False, True))
    assert all(len(split.rows) == 200 for split in hidden.divided)
    assert min(len(split.rows) for split in shown.divided) < 200
    assert [split.feature for split in hidden.divided] == [split.feature for split in shown.divided]


def test_labels_of_numbers_are_not_attacked():
    assert "labels from nodes" not in [step.name for step in steps(case(loss=Squared()), Scope())]


def test_few_rows_are_refused():
    with pytest.raises(ValueError, match="30 rows in common"):
        steps(case().rows(np.arange(30)), Scope())
