"""Labels by lattice reduction: every label of a first batch that starts at zero, and what secret offsets leave."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tacit.audit.attacks import lattice
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
    secret_offsets,
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
    [(60, 10), (100, 15), *(pytest.param(*size, marks=pytest.mark.slow) for size in ((100, 30), (150, 40)))],
)
def test_every_label_of_a_batch_that_starts_at_zero_is_recovered(rows, features):
    made = tables(rows, features)
    found = two_valued_labels(made.columns.integers, first(made).gradient)
    assert found.tolist() == made.labels.tolist()


@pytest.mark.parametrize("features", [15, *(pytest.param(more, marks=pytest.mark.slow) for more in (10, 20))])
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


def test_columns_of_large_multiples_are_read_as_well():
    """Whole numbers that were not scaled: their grid leaves zeros at the end."""
    columns = np.random.default_rng(2).integers(-500, 500, (30, 8))
    labels = np.random.default_rng(3).integers(0, 2, 30)
    gradient = (columns * 2**11).T @ (11_111_111 - 2**24 * labels)
    assert two_valued_labels(columns * 2**11, gradient).tolist() == labels.tolist()


def test_secret_weights_of_an_active_without_columns_hide_nothing():
    made = tables(60, 10, active=0)
    start = secret_weights(made.others, 1.0, np.random.default_rng(0))
    assert two_valued_labels(made.columns.integers, first(made, start).gradient).tolist() == made.labels.tolist()


def test_secret_weights_of_a_binary_column_give_away_the_labels_and_the_column():
    """Residues then have four values. A passive that knows how far apart they are, to 1e-7 (it may try them out), finds
    labels and column together: two bits a row. So weights on the active's own columns are no cover for any table."""
    made, rows = tables(60, 20), 60
    column = np.random.default_rng(5).integers(0, 2, rows)
    level = 1 / (1 + np.exp(-np.where(column, 0.8, -0.7)))
    gradient = made.columns.values.T @ (np.rint((level - made.labels) * 2**24) / 2**24)
    q, r = np.linalg.qr(made.columns.values)
    fine, weight, apart = 2**10, 2.0**10 / 1e-7, level.max() - level.min() + 1e-7
    equations = np.rint(np.vstack([weight * q, -weight * apart * q])).astype(np.int64)
    basis = lattice.reduced(np.hstack([2 * fine * np.eye(2 * rows, dtype=np.int64), equations]))
    point = np.concatenate([np.full(2 * rows, float(fine)), weight * np.linalg.solve(r.T, -gradient)])
    found = lattice.near(basis, point, width=256)[0][: 2 * rows] // (2 * fine)
    assert found.tolist() == [*made.labels, *column]


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
def test_secret_offsets_of_spread_one_leave_least_squares_only(rows, features):
    """No label is certain. The ranking by least squares stays: that is what the mitigation does not stop."""
    areas = []
    for seed in range(3):
        made = tables(rows, features, seed)
        start = secret_offsets(made.others, 1.0, np.random.default_rng(seed))
        seen = views(made.columns, made.others, made.labels, Training(rows), start)
        guess = guess_labels(made.columns, seen)
        assert not guess.explained
        areas.append(roc_auc_score(made.labels, guess.scores))
    assert 0.55 < np.mean(areas) < 0.9


def test_secret_offsets_keep_later_steps_and_several_epochs_from_being_solved():
    made = tables(60, 20, 1)
    start = secret_offsets(made.others, 1.0, np.random.default_rng(1))
    seen = views(made.columns, made.others, made.labels, Training(60, epochs=30), start)
    assert all(not guess_labels(made.columns, [seen[step]]).explained for step in (0, 2, 29))
    made = tables(60, 8, 3)
    start = secret_offsets(made.others, 1.0, np.random.default_rng(1))
    assert not guess_labels(
        made.columns, views(made.columns, made.others, made.labels, Training(30, 2, 0.05), start)
    ).explained


@pytest.mark.parametrize("kept", [False, True])
def test_a_secret_column_that_is_trained_fades_and_late_batches_are_solved(kept):
    """3000 rows in batches of 60, an active without columns: after 80 steps the weight of a secret column that started
    at 1 is nearly 0. Offsets that are kept hold."""
    made = tables(3000, 20, active=0)
    drawn = np.random.default_rng(0).normal(size=(3000, 1))
    others, start = (made.others, Start(np.zeros(0), offsets=drawn[:, 0])) if kept else (drawn, Start(np.ones(1)))
    seen = views(made.columns, others, made.labels, Training(60, epochs=2), start)
    late = (40, 60, 80)
    guesses = [guess_labels(made.columns, [seen[step]]) for step in (0, *late)]
    assert not guesses[0].explained
    assert any(guess.explained for guess in guesses) is not kept
    for step, guess in zip(late, guesses[1:], strict=True):
        assert not guess.explained or ((guess.scores > 0.5) == made.labels[seen[step].rows]).all()


def test_the_limit_of_noise_halves_with_each_row_to_a_column():
    assert noise_limit(60, 20) == pytest.approx(1 / 16)
    assert noise_limit(80, 20) == pytest.approx(1 / 32)
    assert noise_limit(80, 0) == 0


def test_the_finding_names_all_labels_from_zero_and_guesses_with_secret_offsets():
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


def message_passing(equations: np.ndarray, values: np.ndarray, spread: float, turns: int = 60) -> np.ndarray:
    """How likely each label is 1, for residues σ(o) − y with normal o: approximate message passing with that prior
    (Donoho, Maleki, Montanari 2009), for normal equations with columns of length 1."""
    count, rows = equations.shape
    points, masses = np.polynomial.hermite_e.hermegauss(61)
    levels = expit(spread * points)
    residues, priors = np.concatenate([levels, levels - 1]), np.tile(masses / masses.sum() / 2, 2)
    means, rest, likely = np.zeros(rows), values.copy(), np.full(rows, 0.5)
    for _ in range(turns):
        variance = rest @ rest / count + 1e-9
        logs = -(((means + equations.T @ rest)[:, None] - residues) ** 2) / (2 * variance)
        chances = np.exp(logs - logs.max(axis=1, keepdims=True)) * priors
        chances /= chances.sum(axis=1, keepdims=True)
        means, likely = chances @ residues, chances[:, 61:].sum(axis=1)
        spreads = chances @ residues**2 - means**2
        rest = values - equations @ means + rest * spreads.mean() / variance * rows / count
    return likely


@pytest.mark.parametrize(("spread", "part", "gain"), [(1.0, 1 / 3, 0.01), (1.0, 0.5, 0.03), (1e-4, 0.5, None)])
def test_knowing_how_offsets_are_distributed_ranks_labels_hardly_better_than_least_squares(spread, part, gain):
    """The positive control is a spread of nearly 0: there the same guess is far better than least squares."""
    areas = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        count = int(1200 * part)
        equations, labels = rng.normal(size=(count, 1200)) / np.sqrt(count), rng.integers(0, 2, 1200)
        values = equations @ (expit(spread * rng.normal(size=1200)) - labels)
        shortest = equations.T @ np.linalg.solve(equations @ equations.T, values)
        likely = message_passing(equations, values, spread)
        areas.append((roc_auc_score(labels, -shortest), roc_auc_score(labels, likely)))
    least_squares, passing = np.mean(areas, axis=0)
    assert passing > least_squares + 0.03 if gain is None else abs(passing - least_squares) < gain


def test_one_column_alone_tells_nothing_once_the_intercept_is_unknown():
    drawn = tables(60, 1)
    made = Tables(drawn.own + 3.0, drawn.active, drawn.labels, scale=False)
    start = secret_offsets(made.others, 1.0, np.random.default_rng(1))
    found = guess_labels(made.columns, [first(made, start)])
    assert not found.explained
    assert not found.scores.any()
