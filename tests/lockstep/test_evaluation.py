"""Curves and tables at the end of a training, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    f1_score,
    mean_absolute_error,
    precision_recall_curve,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

from tacit.events import Curve, Tabled, from_json, to_json
from tacit.lockstep.evaluation import area_under_curve, evaluated, probabilities

CLASSES = ("paid", "default")


def two_classes(rows=1500, seed=3, decimals=2):
    """Labels, and scores with ties that tell something about them."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.3).astype(np.int64)
    return np.round(rng.normal(size=(rows, 1)) - 1 + 1.3 * labels[:, None], decimals), labels


def told(scores, labels, classes=CLASSES, *, held_out=True, linear=False):
    return {event.name: event for event in evaluated(scores, labels, classes, held_out=held_out, linear=linear)}


def on(points, x, y):
    """Whether every point is one of the curve's."""
    found = {(round(a, 12), round(b, 12)) for a, b in zip(x, y, strict=True)}
    return all((round(a, 12), round(b, 12)) in found for a, b in points)


def test_two_classes_get_every_curve_and_table_of_the_section():
    events = told(*two_classes())
    names = ["ROC", "Precision and recall", "Calibration", "Cumulative gains", "Lift", "KS", "Thresholds"]
    assert list(events) == [*names, "Class balance"]
    assert {event.section for event in events.values()} == {"On held-out rows"}
    assert {event.section for event in told(*two_classes(), held_out=False).values()} == {"On training rows"}
    assert all(event.caption for event in events.values())


def test_roc_is_that_of_scikit_learn():
    scores, labels = two_classes()
    roc = told(scores, labels)["ROC"]
    false, true, _ = roc_curve(labels, scores[:, 0], drop_intermediate=False)
    assert on(roc.points, false, true)
    assert roc.points[0] == [0, 0]
    assert roc.points[-1] == [1, 1]
    assert len(roc.points) == 200
    assert f"AUC {roc_auc_score(labels, scores[:, 0]):.4f}" in roc.caption
    assert roc.lines == {"chance": [[0, 0], [1, 1]]}


def test_scores_whose_probabilities_are_1_are_still_ranked():
    scores = np.array([[40.0], [60.0], [80.0], [-1.0]])
    assert f"AUC {roc_auc_score([0, 1, 1, 0], scores[:, 0]):.4f}" in told(scores, np.array([0, 1, 1, 0]))["ROC"].caption


def test_precision_and_recall_are_those_of_scikit_learn():
    scores, labels = two_classes()
    curve = told(scores, labels)["Precision and recall"]
    precision, recall, _ = precision_recall_curve(labels, scores[:, 0])
    assert on(curve.points, recall, precision)
    assert f"Average precision {average_precision_score(labels, scores[:, 0]):.4f}" in curve.caption
    assert curve.lines["chance"][0] == [0, pytest.approx(labels.mean())]


@pytest.mark.parametrize("decimals", [8, 1])
def test_calibration_is_that_of_scikit_learn_in_ten_groups(decimals):
    scores, labels = two_classes(decimals=decimals)
    curve = told(scores, labels)["Calibration"]
    observed, predicted = calibration_curve(labels, probabilities(scores), n_bins=10, strategy="quantile")
    assert np.allclose(curve.points, np.column_stack([predicted, observed]), atol=1e-12)
    assert curve.lines == {"perfect": [[0, 0], [1, 1]]}


def test_gains_and_lift_count_the_rows_with_the_highest_scores():
    scores, labels = two_classes()
    events = told(scores, labels)
    ordered = labels[np.argsort(-scores[:, 0], kind="stable")]
    descending = np.sort(scores[:, 0])[::-1]
    for share, found in events["Cumulative gains"].points:
        taken = round(share * len(labels))
        assert taken in (0, len(labels)) or descending[taken - 1] > descending[taken]  # equal scores stay together
        assert found == pytest.approx(ordered[:taken].sum() / labels.sum())
    for share, lift in events["Lift"].points:
        assert share >= 0.01
        assert lift == pytest.approx(ordered[: round(share * len(labels))].mean() / labels.mean())
    assert events["Cumulative gains"].lines["perfect"][1] == [pytest.approx(labels.mean()), 1]
    assert events["Lift"].points[-1] == [1, 1]


def test_ks_is_the_largest_gap_between_the_rates_and_is_named_in_the_caption():
    scores, labels = two_classes()
    events = told(scores, labels)
    false, true, thresholds = roc_curve(labels, scores[:, 0], drop_intermediate=False)
    best = int(np.argmax(true - false))
    chance = 1 / (1 + np.exp(-thresholds[best]))
    assert f"KS, is {true[best] - false[best]:.4f}, at a probability of {chance:.4f}" in events["KS"].caption
    for name, code in (("class default", 1), ("class paid", 0)):
        for x, y in events["KS"].lines[name]:
            assert y == pytest.approx(np.mean(probabilities(scores)[labels == code] < x - 1e-12))
    row = next(row for row in events["Thresholds"].rows if str(row[0]).endswith("(KS)"))
    assert row[7] - row[3] / np.sum(labels == 0) == pytest.approx(true[best] - false[best])


def test_thresholds_count_as_scikit_learn_does():
    scores, labels = two_classes()
    table = told(scores, labels)["Thresholds"]
    assert table.header[:2] == ["threshold", "taken for default"]
    shown = [row[0] for row in table.rows if isinstance(row[0], float)]
    assert shown == [step / 20 for step in range(1, 20)]
    chance = probabilities(scores)
    for row in table.rows:
        if isinstance(row[0], str):
            continue
        taken = (chance >= row[0]).astype(int)
        (tn, fp), (fn, tp) = confusion_matrix(labels, taken, labels=[0, 1])
        assert row[1:6] == [tp + fp, tp, fp, tn, fn]
        assert row[6] == (pytest.approx(precision_score(labels, taken)) if tp + fp else "")
        assert row[7:] == [pytest.approx(recall_score(labels, taken)), pytest.approx(f1_score(labels, taken))]


def test_thresholds_are_in_rising_order_and_as_long_as_the_header():
    table = told(*two_classes())["Thresholds"]
    assert {len(row) for row in table.rows} == {len(table.header)}
    found = [float(str(row[0]).removesuffix(" (KS)")) for row in table.rows]
    assert found == sorted(found)


def test_class_balance_counts_each_class():
    _, labels = two_classes()
    rows = told(*two_classes())["Class balance"].rows
    assert [row[:2] for row in rows] == [["paid", int(np.sum(labels == 0))], ["default", int(np.sum(labels == 1))]]


@pytest.mark.parametrize("label", [0, 1])
def test_rows_of_one_class_only_have_a_balance_and_no_curves(label):
    events = told(np.array([[0.5], [1.5]]), np.array([label, label]))
    assert list(events) == ["Class balance"]
    assert "Only one class occurs" in events["Class balance"].caption


def test_several_classes_are_each_compared_with_all_others():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 400)
    scores = rng.normal(size=(400, 3)) + 2 * np.eye(3)[labels]
    events = told(scores, labels, ("a", "b", "c"))
    assert list(events) == ["ROC", "Confusion matrix", "Class balance"]
    for code, name in enumerate("abc"):
        false, true, _ = roc_curve(labels == code, scores[:, code], drop_intermediate=False)
        assert on(events["ROC"].lines[f"class {name}"], false, true)
        assert events["Class balance"].rows[code][3] == pytest.approx(roc_auc_score(labels == code, scores[:, code]))
    matrix = confusion_matrix(labels, scores.argmax(axis=1))
    assert [row[1:] for row in events["Confusion matrix"].rows] == matrix.tolist()


def test_a_class_without_rows_has_no_curve():
    scores = np.random.default_rng(1).normal(size=(30, 3))
    events = told(scores, np.arange(30) % 2, ("a", "b", "c"))
    assert "class c" not in events["ROC"].lines
    assert events["Class balance"].rows[2] == ["c", 0, "0.0%", ""]


def test_of_many_classes_the_most_frequent_are_drawn_and_all_are_in_the_tables():
    rng = np.random.default_rng(2)
    labels = np.concatenate([np.full(5 + 3 * code, code) for code in range(9)])
    names = tuple(f"n{code}" for code in range(9))
    events = told(rng.normal(size=(len(labels), 9)), labels, names)
    assert list(events["ROC"].lines) == ["chance", *(f"class n{code}" for code in range(3, 9))]
    assert len(events["Class balance"].rows) == len(events["Confusion matrix"].rows) == 9


def test_numbers_are_compared_in_groups_and_their_residuals_counted():
    rng = np.random.default_rng(7)
    predicted = rng.normal(size=1000)
    actual = predicted + 0.5 * rng.normal(size=1000)
    events = told(predicted[:, None], actual, (), linear=True)
    assert list(events) == ["Predicted and actual", "Residuals"]
    curve, residuals = events.values()
    assert len(curve.points) == 20
    ordered = np.argsort(predicted)
    assert curve.points[0] == pytest.approx([predicted[ordered[:50]].mean(), actual[ordered[:50]].mean()])
    assert f"R² {r2_score(actual, predicted):.4f}" in curve.caption
    assert f"mean absolute error {mean_absolute_error(actual, predicted):.4g}" in curve.caption
    area = sum(
        y * (right - left)
        for (left, y), (right, after) in zip(residuals.points, residuals.points[1:], strict=False)
        if y == after
    )
    width = (residuals.points[-1][0] - residuals.points[0][0]) / 25
    assert area / width == pytest.approx(1000)


def test_a_label_that_is_always_the_same_has_no_r_squared():
    events = told(np.array([[1.0], [2.0]]), np.array([1.5, 1.5]), (), linear=True)
    assert "R²" not in events["Predicted and actual"].caption
    assert "Root mean squared error 0.5" in events["Predicted and actual"].caption


def test_events_survive_their_file():
    for event in [*told(*two_classes()).values(), *told(np.ones((3, 1)), np.arange(3.0), (), linear=True).values()]:
        assert isinstance(event, Curve | Tabled)
        assert from_json(to_json(event)) == event


def test_no_rows_have_nothing_to_show_and_wrong_shapes_are_refused():
    assert evaluated(np.zeros((0, 1)), np.zeros(0), CLASSES, held_out=True, linear=False) == []
    for scores, labels in (
        (np.zeros(3), np.zeros(3)),
        (np.zeros((3, 1)), np.zeros(4)),
        (np.full((1, 1), np.nan), np.zeros(1)),
    ):
        with pytest.raises(ValueError, match="finite scores of each row"):
            evaluated(scores, labels, CLASSES, held_out=True, linear=False)


@pytest.mark.parametrize("outputs", [1, 3, 9])
def test_the_probability_of_a_row_does_not_depend_on_the_others(outputs):
    scores = np.random.default_rng(outputs).normal(0, 8, size=(501, outputs))
    among = probabilities(scores)
    for row in range(len(scores)):
        assert (probabilities(scores[row : row + 1])[0] == among[row]).all()
        assert (probabilities(scores[row:])[0] == among[row]).all()


@settings(max_examples=60, deadline=None)
@given(
    scores=arrays.arrays(
        np.float64, st.tuples(st.integers(1, 40), st.sampled_from([1, 3])), elements=st.floats(-900, 900)
    ),
    seed=st.integers(0, 99),
)
def test_any_scores_give_finite_points_and_probabilities(scores, seed):
    names = ("a", "b") if scores.shape[1] == 1 else ("a", "b", "c")
    labels = np.random.default_rng(seed).integers(0, len(names), len(scores))
    for event in evaluated(scores, labels, names, held_out=True, linear=False):
        if isinstance(event, Curve):
            assert np.isfinite([point for line in (event.points, *event.lines.values()) for point in line]).all()
    chance = probabilities(scores)
    assert ((chance >= 0) & (chance <= 1)).all()
    assert chance.ndim == 1 or np.allclose(chance.sum(axis=1), 1)


def test_the_area_under_the_curve_counts_ties_by_half():
    scores, labels = two_classes()
    assert area_under_curve(scores[:, 0], labels == 1) == pytest.approx(roc_auc_score(labels, scores[:, 0]))
    assert area_under_curve(scores[:, 0], labels >= 0) is None
