"""Labels: classes in their order, or numbers; rows without one are left out and counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.tables.cells import Numbers, Raw, Texts
from tacit.tables.labels import labels_of


def found(values, wanted="classes", rows=None):
    cells = Texts(values) if isinstance(values[0], str) else Numbers(np.array(values, dtype=float))
    raw = Raw("bank.csv", ("y",), (cells,), lambda row: f"line {row + 2}")
    return labels_of(raw, "y", wanted, np.arange(len(values)) if rows is None else np.array(rows))


@pytest.mark.parametrize(
    ("values", "classes", "codes"),
    [
        (["0", "1", "1.0"], ("0", "1"), [0, 1, 1]),
        (["-1", "+1", "1"], ("-1", "1"), [0, 1, 1]),
        (["10", "9", "9"], ("9", "10"), [1, 0, 0]),
        (["yes", "no", "yes"], ("no", "yes"), [1, 0, 1]),
        (["red", "blue", "green"], ("blue", "green", "red"), [2, 0, 1]),
        ([1.0, 0.0, 2.0], ("0", "1", "2"), [1, 0, 2]),
        (["2024-01-31", "2023-01-31"], ("2023-01-31", "2024-01-31"), [1, 0]),
    ],
)
def test_classes_in_order(values, classes, codes):
    labelled = found(values)
    assert (labelled.labels.classes, labelled.labels.codes.tolist()) == (classes, codes)
    assert labelled.problems == ()


def test_rows_without_a_label_are_left_out_with_their_number():
    labelled = found(["1", "", "0", "", "1"], rows=[0, 1, 2, 4])
    assert labelled.rows.tolist() == [0, 2, 4]
    assert labelled.labels.codes.tolist() == [1, 0, 1]
    assert [str(each) for each in labelled.problems] == [
        "bank.csv, line 3, column 'y': 1 row has no label (blank, NA, null or none): left out of the training"
    ]
    assert found([1, math.nan, 2.5], "number").labels.tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("values", "wanted", "message"),
    [
        (["1", "1"], "classes", "one class only ('1')"),
        (["", ""], "classes", "2 rows have no label"),
        (
            [str(index) for index in range(101)],
            "classes",
            "101 classes, at most 100 are learnt: if it is a number, take a model",
        ),
        (["red", "blue"], "number", "the label is not a number (such as 'red')"),
        (["1", "2", "x"], "number", "1 label is not a number ('x')"),
        ([1.0, math.inf], "number", "1 label is not a number ('inf')"),
        ([3.0, 3.0], "number", "all labels are the same number"),
    ],
)
def test_labels_that_cannot_be_learnt(values, wanted, message):
    errors = [problem for problem in found(values, wanted).problems if problem.severity == "error"]
    assert len(errors) == 1
    assert message in str(errors[0])


def test_numbers_as_they_are_written():
    assert found(["1,234.5", "7", "2,000"], "number").labels.tolist() == [1234.5, 7, 2000]


@pytest.mark.parametrize("mark", ["?", "-", "unknown", "N.A."])
def test_a_mark_among_classes_that_are_numbers_is_no_label(mark):
    labelled = found(["0", mark, "1", "1"])
    assert labelled.rows.tolist() == [0, 2, 3]
    assert (labelled.labels.classes, labelled.labels.codes.tolist()) == (("0", "1"), [0, 1, 1])
    assert "1 row has no label" in str(labelled.problems[0])
    assert found(["yes", mark, "no"]).labels.classes == tuple(sorted(["yes", mark, "no"]))  # a class among words


def test_an_infinite_class_is_refused():
    labelled = found([0.0, math.inf, 1.0, -math.inf])
    assert [str(each) for each in labelled.problems] == [
        "bank.csv, lines 3 and 5, column 'y': 2 labels are infinite: correct them, or leave them blank"
    ]
