"""What a prediction tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.multiclass import OneVsRestClassifier

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.kinds.vertical_logistic.release import (
    budget,
    deciles,
    refuse_unfit,
    released,
    rounded,
    sentences,
    table,
)
from tacit.kinds.vertical_logistic.settings import Settings

PARTIES = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
FACTOR = 20 / np.log(2)


def made(model="logistic", **predict):
    return Settings(protocol="masked", parties=PARTIES, model=model, predict=predict)


def told(ids, scores, classes, settings, **given):
    return table(ids, released(scores, settings, **given), classes, settings)


SCORES = np.array([[-3.0], [-0.01], [0.0], [2.5]])
IDS = ["a", "b", "c", "d"]


def test_exact_scores_are_probabilities_and_the_decision_follows_the_threshold():
    found = told(IDS, SCORES, ("good", "bad"), made())
    assert found.header == ("id", "score", "decision")
    assert [row[0] for row in found.rows] == IDS
    assert [row[1] for row in found.rows] == pytest.approx(1 / (1 + np.exp(-SCORES[:, 0])))
    assert [row[2] for row in found.rows] == ["good", "good", "bad", "bad"]  # from the threshold on
    strict = told(IDS, SCORES, ("good", "bad"), made(threshold=0.9))
    assert [row[2] for row in strict.rows] == ["good", "good", "good", "bad"]


def test_points_are_whole_and_higher_for_the_first_class():
    found = told(IDS, SCORES, ("good", "bad"), made(release="points"))
    offset = 600 - FACTOR * np.log(50)
    assert [row[1] for row in found.rows] == [round(offset - FACTOR * score) for score in SCORES[:, 0]]
    assert all(type(row[1]) is int for row in found.rows)


def test_a_decision_tells_no_more_than_the_points_beside_it():
    scores = np.linspace(-0.02, 0.02, 41)[:, None]  # all within one point or two of the threshold
    rows = told([str(i) for i in range(41)], scores, ("good", "bad"), made(release="points")).rows
    decisions = {}
    for _, points, decision in rows:
        decisions.setdefault(points, set()).add(decision)
    assert all(len(found) == 1 for found in decisions.values())


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20), st.floats(1, 50))
def test_a_passive_sends_whole_points_of_its_part(values, pdo):
    part, settings = np.array(values)[:, None], made(release="points", pdo=pdo)
    sent = rounded(part, settings)
    points = sent * pdo / np.log(2)
    assert np.allclose(points, np.rint(points), atol=1e-9)
    assert np.abs(sent - part).max() <= np.log(2) / pdo / 2 + 1e-12
    for row in range(len(part)):  # a row alone and among others: the same bits
        assert rounded(part[row : row + 1], settings)[0, 0] == sent[row, 0]


def test_parts_that_differ_by_less_than_rounding_are_sent_alike():
    settings = made(release="points")
    assert (rounded(np.array([[0.001]]), settings) == rounded(np.array([[0.012]]), settings)).all()


@pytest.mark.parametrize("release", ["exact", "decile"])
def test_other_releases_send_a_part_as_it_is(release):
    part = np.array([[0.123456789]])
    assert (rounded(part, made(release=release)) == part).all()


def test_points_of_rounded_parts_are_within_half_a_point_of_a_passive():
    own, other = np.random.default_rng(3).normal(size=(2, 200, 1))
    settings = made(release="points")
    ids = [str(i) for i in range(200)]
    found = [row[1] for row in told(ids, own + rounded(other, settings), ("g", "b"), settings).rows]
    exact = 600 - FACTOR * np.log(50) - FACTOR * (own + other)[:, 0]
    assert np.abs(np.array(found) - exact).max() <= 1 + 1e-9


def test_deciles_count_tenths_of_the_stored_scores_from_1():
    held_out = np.random.default_rng(1).normal(size=(1000, 1))
    edges = deciles(held_out)
    assert edges == pytest.approx(np.percentile(held_out, range(10, 100, 10)))
    rows = told([str(i) for i in range(1000)], held_out, ("g", "b"), made(release="decile"), edges=edges).rows
    counts = np.bincount([row[1] for row in rows], minlength=11)
    assert counts.tolist() == [0, *[100] * 10]
    best = max(rows, key=lambda row: held_out[int(row[0]), 0])
    assert best[1] == 10
    assert best[2] == "b"


def test_deciles_of_new_rows_do_not_depend_on_the_other_rows():
    edges = np.arange(9.0)
    among = told(["x", "y", "z"], np.array([[-5.0], [0.0], [99.0]]), ("g", "b"), made(release="decile"), edges=edges)
    assert [row[1] for row in among.rows] == [1, 2, 10]
    assert told(["y"], np.array([[0.0]]), ("g", "b"), made(release="decile"), edges=edges).rows[0] == among.rows[1]


def test_a_model_without_deciles_is_told_so():
    with pytest.raises(ConfigError, match="stored no deciles"):
        told(IDS, SCORES, ("g", "b"), made(release="decile"))


def test_a_linear_regression_has_values_and_no_decision():
    found = told(IDS, SCORES, (), made("linear"))
    assert found.header == ("id", "score")
    assert [row[1] for row in found.rows] == SCORES[:, 0].tolist()
    assert [row[1] for row in told(IDS, SCORES, (), made("linear", release="decile"), edges=np.arange(9.0)).rows] == [
        1,
        1,
        2,
        4,
    ]


def test_several_classes_are_those_of_scikit_learns_one_against_the_rest():
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    data = load_iris()
    model = OneVsRestClassifier(LogisticRegression()).fit(data.data, data.target)
    names = tuple(data.target_names)
    found = told([str(i) for i in range(150)], model.decision_function(data.data), names, made())
    assert found.header == ("id", "score", "decision", "score setosa", "score versicolor", "score virginica")
    chances = model.predict_proba(data.data)
    assert np.allclose([row[3:] for row in found.rows], chances)
    assert [row[2] for row in found.rows] == [names[code] for code in model.predict(data.data)]
    assert np.allclose([row[1] for row in found.rows], chances.max(axis=1))


@pytest.mark.parametrize(
    ("settings", "outputs", "words"),
    [
        (made("linear", release="points"), 1, "model is linear, which has no odds"),
        (made(release="points"), 3, "the label has 3 classes"),
        (made(release="decile"), 4, "the label has 4 classes"),
    ],
)
def test_a_release_that_the_model_has_not_is_refused(settings, outputs, words):
    with pytest.raises(ConfigError, match=words):
        refuse_unfit(settings, outputs)
    with pytest.raises(ConfigError, match=words):
        told(IDS, np.zeros((4, outputs)), ("a", "b", "c", "d")[:outputs], settings)


def test_the_budget_is_the_partys_own_or_else_the_shared_one():
    assert budget(made(), Local()) is None
    assert budget(made(budget=5), Local()) == 5
    assert budget(made(budget=5), Local.model_validate({"predict": {"budget": 7}})) == 7
    assert budget(made(), Local.model_validate({"predict": {"budget": 7}})) == 7


def test_what_a_prediction_tells_is_said_in_words():
    assert "exact score of every row" in sentences(made())[0]
    assert "rounds its part" in sentences(made(release="points"))[0]
    assert "which it sees" in sentences(made(release="decile"))[0]
    assert "at most 10,000 rows" in sentences(made(budget=10_000))[1]
    assert "any number of rows" in sentences(made())[1]


def test_a_part_without_classes_is_not_the_actives():
    with pytest.raises(ConfigError, match="this part of the model has no classes, as the active's has"):
        told(IDS, SCORES, (), made())
