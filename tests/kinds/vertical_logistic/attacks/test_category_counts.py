"""Counts of labels by category, out of one gradient, on a made census."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.kinds.vertical_logistic.attacks.category_counts import (
    audit_category_counts,
    certain_labels,
    counted_positives,
    estimated_positives,
    indicators,
)
from tacit.kinds.vertical_logistic.attacks.honest_steps import Start, Training, secret_offsets, views
from tests.kinds.vertical_logistic.attacks.census import census


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("intercept", [0.0, -1.3])
@pytest.mark.parametrize("rare", [1, 20])
def test_the_first_gradient_over_all_rows_counts_every_category_exactly(scale, intercept, rare):
    """Merging rare categories leaves fewer counts, and all of them exact."""
    made = replace(census(4000, rare=rare), scale=scale)
    view = views(made.columns, made.others, made.labels, Training(4000), Start(np.zeros(5), intercept))[0]
    found = counted_positives(made.columns.integers, view.gradient)
    assert found.tolist() == (made.own.T @ made.labels).astype(int).tolist()
    assert len(found) == made.own.shape[1] == (78 if rare == 20 else 99)


def test_one_batch_of_many_is_counted_too():
    made = census(4000)
    view = views(made.columns, made.others, made.labels, Training(500))[0]
    inside = made.own[view.rows]
    varies = inside.std(axis=0) > 0
    found = counted_positives(made.columns.integers[view.rows], view.gradient)
    assert found.tolist() == (inside[:, varies].T @ made.labels[view.rows]).astype(int).tolist()


def test_columns_with_two_values_are_indicators_and_numbers_are_not():
    columns = np.array([[3, 7, 0], [5, 7, 1], [3, 7, 2]])
    places, members = indicators(columns)
    assert places.tolist() == [0]
    assert members.tolist() == [[False], [True], [False]]


def test_secret_offsets_leave_estimates():
    """No count is exact, but they are still far better than the share of all rows: the sum of 30 secret numbers is off
    by one label."""
    made = census(4000)
    start = secret_offsets(made.others, 1.0, np.random.default_rng(3))
    seen = views(made.columns, made.others, made.labels, Training(4000, epochs=5), start)
    truth, sizes = made.own.T @ made.labels, made.own.sum(axis=0)
    share = made.labels.mean()
    for view in (seen[0], seen[4]):
        assert counted_positives(made.columns.integers, view.gradient) is None
        errors = np.abs(estimated_positives(made.columns, view, share) - truth)
        assert 0.2 < errors.mean() < np.abs(sizes * share - truth).mean() / 4


def test_estimates_from_zero_are_exact_at_once_and_close_some_steps_later():
    made = census(4000)
    seen = views(made.columns, made.others, made.labels, Training(4000, epochs=5))
    truth = made.own.T @ made.labels
    assert estimated_positives(made.columns, seen[0], made.labels.mean()) == pytest.approx(truth, abs=0.01)
    assert np.abs(estimated_positives(made.columns, seen[4], made.labels.mean()) - truth).mean() < 1


def test_residues_that_no_counts_explain_are_not_counted():
    made = census(1000)
    drawn = np.random.default_rng(0).integers(-(2**24), 2**24, 1000)
    assert counted_positives(made.columns.integers, made.columns.integers.T @ drawn) is None


def test_a_gradient_that_several_counts_explain_is_not_counted():
    """Of two rows, one in the category: nobody has label 1, or both."""
    columns = np.array([[-1], [1]])
    assert counted_positives(columns, np.array([0])) is None
    assert counted_positives(columns, columns.T @ np.array([2**23, -(2**23)])).tolist() == [1]


def test_labels_follow_from_counts_of_nobody_of_all_and_of_what_is_left():
    members = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]], dtype=bool)
    labels = np.array([0, 0, 1, 0])
    assert certain_labels(members, members.T @ labels).tolist() == [0, 0, 1, 0]
    unclear = np.array([1, 0, 0, 1])
    assert certain_labels(members[:, :2], members[:, :2].T @ unclear).tolist() == [-1, -1, -1, -1]


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_are_called_certain_are_right(seed):
    made = census(600, seed=seed)
    found = certain_labels(made.own.astype(bool), (made.own.T @ made.labels).astype(int))
    known = found >= 0
    assert known.any()
    assert (found[known] == made.labels[known]).all()


def test_the_finding_counts_all_categories_from_zero_and_few_with_secret_offsets():
    found = audit_category_counts(census(4000), Training(256), secret=1.0)
    assert found.off.value == 1.0
    assert found.off.informative
    assert found.on.value < 0.5
    certain = found.also[0]
    assert certain[0].value > 0.002
    assert certain[1].value == 0.0


def test_merging_rare_categories_leaves_fewer_labels_certain():
    many, few = (audit_category_counts(census(4000, rare=rare), Training(256)) for rare in (1, 20))
    assert many.off.value == few.off.value == 1.0
    assert few.also[0][1].value < many.also[0][1].value / 2
    assert many.on is None


def test_a_table_of_numbers_has_no_categories_to_count():
    made = census(100)
    numbers = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(ValueError, match="no categories to count"):
        audit_category_counts(replace(made, own=numbers), Training(100))
