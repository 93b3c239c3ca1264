"""A column that tells the label is found, by scikit-learn's AUC or by its categories, and chance is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tacit.tables.cells import Numbers, Texts
from tacit.tables.labels import Labels
from tacit.tables.telling import auc, tells

RNG = np.random.default_rng(3)
CODES = RNG.integers(0, 2, 400)
THREE = RNG.integers(0, 3, 400)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=50))
def test_the_area_is_that_of_scikit_learn(rows):
    values = np.array([float(value) for value, _ in rows])
    codes = np.array([int(code) for _, code in rows])
    if 0 < codes.sum() < len(codes):
        assert auc(values, codes) == pytest.approx(roc_auc_score(codes, values))
    else:
        assert auc(values, codes) is None


def two(codes=CODES):
    return Labels(("no", "yes"), codes)


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (Numbers(-CODES + RNG.normal(0, 0.1, 400)), True),
        (Numbers(np.where(CODES == 1, np.nan, 5.0)), True),  # that it is missing tells
        (Numbers(CODES + RNG.normal(0, 1.0, 400)), False),
        (Texts(["late" if code else "paid" for code in CODES]), True),
        (Texts([f"{'late' if code else 'paid'} {index % 5}" for index, code in enumerate(CODES)]), True),
        (Texts([f"person {index}" for index in range(400)]), False),  # every row for itself tells nothing of others
        (Texts([str(code) for code in RNG.integers(0, 3, 400)]), False),
    ],
)
def test_columns_for_two_classes(cells, found):
    assert bool(tells(cells, two())) is found


def test_several_classes():
    labels = Labels(("a", "b", "c"), THREE)
    assert tells(Numbers((THREE * 2.0 + 1) % 5), labels)
    assert tells(Texts([f"class {code}" for code in THREE]), labels)
    assert not tells(Numbers(RNG.normal(size=400)), labels)
    assert not tells(Numbers((THREE == 0).astype(float)), labels)


def test_a_number_as_label():
    y = RNG.normal(size=400)
    assert tells(Numbers(3 * y + 1), y)
    assert not tells(Numbers(y + RNG.normal(size=400)), y)
    assert not tells(Texts(["a"] * 400), y)


def test_a_few_rows_tell_nothing():
    codes = np.array([0, 1] * 5)
    assert tells(Numbers(codes.astype(float)), two(codes)) == ""
