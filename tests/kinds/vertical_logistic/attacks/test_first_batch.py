"""Labels by lattice reduction: every label of a first batch that starts at zero, and what a secret column leaves."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tacit.kinds.vertical_logistic.attacks.first_batch import (
    audit_first_batch,
    guess_labels,
    noise_limit,
    noisy_labels,
    two_valued_labels,
    two_valued_levels,
)
from tacit.kinds.vertical_logistic.attacks.honest_steps import (
    Start,
    Tables,
    Training,
    secret_column,
    secret_weights,
    views,
)


def tables(rows: int, features: int, seed: int = 0, active: int = 5) -> Tables:
    """Normal numbers, and labels by lot: nothing but the gradient tells them."""
    rng = np.random.default_rng([seed, rows, features])
    labels = rng.integers(0, 2, rows)
    return Tables(rng.normal(size=(rows, features)), rng.normal(size=(rows, active)), labels)


def first(made: Tables, start: Start | None = None, **training):
    return views(made.columns, made.others, made.labels, Training(**{"batch": len(made.labels), **training}), start)[0]


@pytest.mark.parametrize(
    ("rows", "features"),
    [(60, 10), (100, 15), (100, 30), pytest.param(150, 40, marks=pytest.mark.slow)],
)
def test_every_label_of_a_batch_that_starts_at_zero_is_recovered(rows, features):
    made = tables(rows, features)
    found = two_valued_labels(made.columns.integers, first(made).gradient)
    assert found.tolist() == made.labels.tolist()


@pytest.mark.parametrize("features", [10, 15, 20])
def test_every_label_of_a_batch_of_breast_cancer_is_recovered(features):
    """114 of 114: a fifth of the patients."""
    x, y = load_breast_cancer(return_X_y=True)
    made = Tables(x[:, 30 - features :], x[:, : 30 - features], y)
    view = first(made, batch=114)
    found = two_valued_labels(made.columns.integers[view.rows], view.gradient)
    assert len(view.rows) == 114
    assert found.tolist() == y[view.rows].tolist()


@pytest.mark.parametrize("batch", [40, 80])
@pytest.mark.parametrize("intercept", [0.731, -2.5])
def test_a_random_intercept_hides_no_label(batch, intercept):
    """It is read off the gradient modulo 2^24. Over all rows the columns sum to nearly 0, and the rounding is left."""
    made = tables(80, 16)
    view = first(made, Start(np.zeros(5), intercept), batch=batch)
    columns = made.columns.integers[view.rows]
    levels = two_valued_levels(columns.sum(axis=0), view.gradient)
    assert round(2**24 / (1 + np.exp(-intercept))) in levels
    assert two_valued_labels(columns, view.gradient).tolist() == made.labels[view.rows].tolist()


def test_columns_that_sum_to_zero_need_no_intercept():
    columns = np.random.default_rng(2).integers(-(2**15), 2**15, (40, 12))
    columns[-1] -= columns.sum(axis=0)
    labels = np.random.default_rng(3).integers(0, 2, 40)
    gradient = columns.T @ (11_111_111 - 2**24 * labels)
    assert two_valued_labels(columns, gradient).tolist() == labels.tolist()


def test_secret_weights_of_an_active_without_columns_hide_nothing():
    made = tables(60, 10, active=0)
    start = secret_weights(made.others, 1.0, np.random.default_rng(0))
    assert two_valued_labels(made.columns.integers, first(made, start).gradient).tolist() == made.labels.tolist()


def test_nothing_is_named_for_residues_of_many_values():
    """The negative control: a gradient of residues that no labels explain."""
    made = tables(60, 10)
    integers = np.random.default_rng(4).integers(-(2**24), 2**24, 60)
    gradient = made.columns.integers.T @ integers
    assert two_valued_labels(made.columns.integers, gradient) is None
    assert noisy_labels(made.columns, [replace(first(made), gradient=gradient)]) is None


@pytest.mark.parametrize("seed", range(3))
def test_small_secret_weights_are_noise_that_a_lattice_corrects(seed):
    """A spread of 0.03 in the scores moves residues by 0.007: far below the limit of 0.06 for 3 rows to a column."""
    made = tables(60, 20, seed)
    view = first(made, secret_weights(made.others, 0.03, np.random.default_rng(seed)))
    assert two_valued_labels(made.columns.integers, view.gradient) is None
    assert noisy_labels(made.columns, [view]).tolist() == made.labels.tolist()


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_second_step_from_zero_gives_every_label_too(rate):
    made = tables(60, 20, 1)
    second = views(made.columns, made.others, made.labels, Training(60, epochs=2, rate=rate))[1]
    assert noisy_labels(made.columns, [second]).tolist() == made.labels.tolist()


def test_steps_over_two_epochs_are_solved_together():
    """60 rows in batches of 30 with 8 columns: half an equation for each row."""
    made = tables(60, 8, 3)
    seen = views(made.columns, made.others, made.labels, Training(30, epochs=2, rate=0.05))
    assert noisy_labels(made.columns, seen).tolist() == made.labels.tolist()


@pytest.mark.parametrize(("rows", "features"), [(60, 10), (60, 20), pytest.param(100, 30, marks=pytest.mark.slow)])
def test_a_secret_column_of_weight_one_leaves_least_squares_only(rows, features):
    """No label is certain. The ranking by least squares stays: that is what the mitigation does not stop."""
    areas = []
    for seed in range(3):
        made = tables(rows, features, seed)
        wider, start = secret_column(made.others, 1.0, np.random.default_rng(seed))
        seen = views(made.columns, wider, made.labels, Training(rows), start)
        guess = guess_labels(made.columns, seen)
        assert not guess.explained
        areas.append(roc_auc_score(made.labels, guess.scores))
    assert 0.55 < np.mean(areas) < 0.9


def test_a_secret_column_keeps_later_steps_and_several_epochs_from_being_solved():
    made = tables(60, 20, 1)
    wider, start = secret_column(made.others, 1.0, np.random.default_rng(1))
    seen = views(made.columns, wider, made.labels, Training(60, epochs=30), start)
    assert all(not guess_labels(made.columns, [seen[step]]).explained for step in (0, 2, 29))
    made = tables(60, 8, 3)
    wider, start = secret_column(made.others, 1.0, np.random.default_rng(1))
    assert not guess_labels(
        made.columns, views(made.columns, wider, made.labels, Training(30, 2, 0.05), start)
    ).explained


def test_the_limit_of_noise_halves_with_each_row_to_a_column():
    assert noise_limit(60, 20) == pytest.approx(1 / 16)
    assert noise_limit(80, 20) == pytest.approx(1 / 32)
    assert noise_limit(80, 0) == 0


def test_the_finding_names_all_labels_from_zero_and_guesses_with_a_secret_column():
    found = audit_first_batch(tables(300, 12), Training(250), secret=1.0, most=60)
    assert found.off.value == 1.0
    assert found.off.informative
    assert found.on.value == found.on.baseline < 0.7
    assert not found.on.informative
    assert found.also[0][0].value == 1.0 > found.also[0][1].value
    assert "12 numbers over 60 rows" in found.sees


def test_a_protocol_without_mitigation_has_one_score():
    found = audit_first_batch(tables(80, 12), Training(60))
    assert found.on is None
    assert found.protection == "none"
    assert found.off.value == 1.0
