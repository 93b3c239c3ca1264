from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

from tacit.kinds.vertical_trees.release import scores_table
from tacit.kinds.vertical_trees.settings import Settings

IDS = ["a", "b", "c"]


def told(objective, scores, classes=(), **predict):
    parties = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
    settings = Settings.model_validate({"parties": parties, "train": {"objective": objective}, "predict": predict})
    return scores_table(IDS, np.asarray(scores, dtype=float), classes, settings)


def test_two_classes_are_decided_by_the_threshold():
    found = told("binary", [[-1.0], [0.2], [3.0]], ("no", "yes"), threshold=0.9)
    assert found.header == ("id", "score", "decision")
    assert [row[1] for row in found.rows] == pytest.approx(expit([-1.0, 0.2, 3.0]).tolist())
    assert [row[2] for row in found.rows] == ["no", "no", "yes"]


def test_several_classes_have_a_probability_each():
    scores = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0], [0.0, 5.0, 0.0]])
    found = told("softmax", scores, ("x", "y", "z"))
    assert found.header == ("id", "score", "decision", "score x", "score y", "score z")
    assert [row[2] for row in found.rows] == ["z", "x", "y"]
    np.testing.assert_allclose([row[3:] for row in found.rows], softmax(scores, axis=1))
    assert [row[1] for row in found.rows] == [max(row[3:]) for row in found.rows]


def test_numbers_and_counts_are_told_as_they_are():
    assert told("squared", [[-1.0], [0.5], [2.0]]).rows == [("a", -1.0), ("b", 0.5), ("c", 2.0)]
    assert [row[1] for row in told("poisson", [[0.0], [1.0], [2.0]]).rows] == pytest.approx(np.exp([0, 1, 2]).tolist())
