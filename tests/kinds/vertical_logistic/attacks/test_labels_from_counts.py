"""Attacks on counts of labels: exact where everything can be tried, with controls on both sides."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tacit.kinds.vertical_logistic.attacks import labels_from_counts
from tacit.kinds.vertical_logistic.attacks.labels_from_counts import (
    View,
    audit_label_counts,
    certain,
    counted,
    learned,
    ranked,
)
from tests.kinds.vertical_logistic.grouped import Neighbours, merged_in_the_clear


def by_trying_all(groups: list[np.ndarray], labels: np.ndarray) -> list[bool]:
    """The oracle: every table of labels."""
    counts = [np.bincount(numbers, weights=labels).tolist() for numbers in groups]
    fitting = [
        table
        for table in product((0, 1), repeat=len(labels))
        if all(np.bincount(numbers, weights=table).tolist() == c for numbers, c in zip(groups, counts, strict=True))
    ]
    return [len({table[row] for table in fitting}) == 1 for row in range(len(labels))]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), columns=st.integers(1, 3), most=st.integers(2, 5))
def test_certain_labels_are_those_that_all_tables_agree_on(seed, columns, most):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 10)
    groups = [np.unique(rng.integers(0, most, 10), return_inverse=True)[1].astype(np.int64) for _ in range(columns)]
    found = certain(counted(groups, labels), labels)
    assert not found.undecided.any()
    assert found.rows.tolist() == by_trying_all(groups, labels)


def test_labels_that_follow_only_from_two_columns_together_are_found():
    """No group has one class only, and yet: row 0 is alone in what two groups do not share."""
    first, second = np.array([0, 0, 0, 1, 1]), np.array([1, 0, 0, 1, 1])
    labels = np.array([1, 1, 0, 0, 1])
    assert certain(counted([first, second], labels), labels).rows.tolist() == [True, False, False, False, False]


def test_labels_that_follow_one_from_the_other_need_no_program(monkeypatch):
    """Row 0 is alone in a group; with it row 1 follows in another, and row 2 from that."""
    labels, groups = np.array([1, 0, 1]), [np.array([0, 1, 1]), np.array([0, 0, 1])]
    monkeypatch.setattr(labels_from_counts, "_MOST_CELLS", 0)
    found = certain(counted(groups, labels), labels)
    assert found.rows.all()
    assert not found.undecided.any()
    single = certain(counted([np.array([0, 0, 1, 1])], np.array([1, 0, 0, 0])), np.array([1, 0, 0, 0]))
    assert single.rows.tolist() == [False, False, True, True]


def test_rows_of_a_table_that_is_too_large_for_programs_are_undecided(monkeypatch):
    monkeypatch.setattr(labels_from_counts, "_MOST_CELLS", 0)
    labels, groups = np.array([1, 0, 0, 1]), [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    found = certain(counted(groups, labels), labels)
    assert not found.rows.any()
    assert found.undecided.all()


def test_that_a_group_was_sparse_is_used():
    """19 positives of 24. If 12 rows have 5 to 7 of them, the other 12 have all that they can."""
    numbers, labels = np.repeat([0, 1], 12), np.array([1] * 12 + [1] * 7 + [0] * 5)
    whole = counted([np.zeros(24, dtype=np.int64)], labels)
    assert not certain(whole, labels).rows.any()
    told = certain([View(numbers, sparse=np.array([True, False])), *whole], labels)
    assert not told.undecided.any()
    assert told.rows.tolist() == [True] * 12 + [False] * 12


def test_a_sparse_group_has_at_most_four_of_a_class():
    """4 positives among its first 5 rows, 7 among the others and the dense group: its last 7 rows have none."""
    tested, halves = np.repeat([0, 1], 12), np.repeat([0, 1], [5, 19])
    labels = np.array([1] * 4 + [0] + [0] * 7 + [1] * 7 + [0] * 5)
    found = certain([View(tested, sparse=np.array([True, False])), *counted([halves], labels)], labels)
    assert found.rows.tolist() == [False] * 5 + [True] * 7 + [False] * 12


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_sparse_groups_are_constraints_like_counts(seed):
    """Beside every table of labels, with the sparsity of 10 of 14 rows known."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(14) < rng.choice([0.1, 0.3, 0.9])).astype(np.int64)
    numbers, halves = np.array([0] * 10 + [1] * 4), rng.integers(0, 2, 14)
    halves[0], halves[1] = 0, 1

    def tells(table):
        positives = int(sum(table[:10]))
        return min(positives, 10 - positives) < 5, np.bincount(halves, weights=table).tolist()

    fitting = [table for table in product((0, 1), repeat=14) if tells(table) == tells(labels)]
    wanted = [len({table[row] for table in fitting}) == 1 for row in range(14)]
    sparse = np.array([tells(labels)[0], True])  # 4 rows never have 5 of either
    found = certain([View(numbers, sparse=sparse), *counted([halves], labels)], labels)
    assert not found.undecided.any()
    assert found.rows.tolist() == wanted


def test_what_is_learned_is_what_the_protocol_tells():
    rng = np.random.default_rng(3)
    values = rng.normal(size=500)
    labels = (rng.random(500) < np.clip(0.3 + 0.3 * values, 0.01, 0.99)).astype(np.int64)
    column = Neighbours.quantiles(values, 10)
    *tests, last = learned([column], labels)
    wanted, counts = merged_in_the_clear(column, labels)
    assert np.array_equal(last.numbers, wanted.numbers)
    assert last.positives.tolist() == counts
    assert tests[0].sparse.tolist() == [
        min(labels[column.numbers == g].sum(), 50 - labels[column.numbers == g].sum()) < 5 for g in range(10)
    ]
    assert all(view.positives is None for view in tests)


def test_the_guess_has_the_known_counts_and_is_scikit_learns_logistic_model():
    """Of largest entropy: an unpenalised regression on the groups' indicators has the same probabilities."""
    rng = np.random.default_rng(4)
    groups = [rng.integers(0, 4, 600), rng.integers(0, 3, 600)]
    labels = (rng.random(600) < 0.2 + 0.15 * groups[0] - 0.05 * groups[1]).astype(np.int64)
    guess = ranked(counted(groups, labels))
    for numbers in groups:
        expected = np.bincount(numbers, weights=guess)
        assert expected == pytest.approx(np.bincount(numbers, weights=labels), abs=0.05)
    indicators = np.hstack([np.eye(4)[groups[0]], np.eye(3)[groups[1]]])
    fitted = LogisticRegression(C=1e6, max_iter=2000).fit(indicators, labels).predict_proba(indicators)[:, 1]
    assert guess == pytest.approx(fitted, abs=2e-3)


def people(rows: int = 400, columns: int = 3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    labels = (rng.random(rows) < 1 / (1 + np.exp(-(x @ rng.normal(size=columns) - 1)))).astype(np.int64)
    groupings = {str(j): Neighbours.quantiles(x[:, j], rows // 50) for j in range(columns)}
    fine = {str(j): np.unique(x[:, j].round(2), return_inverse=True)[1].astype(np.int64) for j in range(columns)}
    return groupings, fine, labels


def test_single_rows_give_their_labels_and_merged_groups_do_not():
    """The positive control, and the protection."""
    groupings, fine, labels = people()
    found = audit_label_counts(groupings, fine, labels, seed=1)
    assert found.off.value > 0.99
    assert found.off.informative
    assert found.on.value == 0.0
    assert not found.on.informative
    (real_off, real_on), (lot_off, lot_on) = found.also
    assert real_off.value > 0.99
    assert lot_off.value > 0.99
    assert 0.6 < real_on.value < 0.95
    assert lot_on.value < real_on.value
    assert found.adversary == "passive, honest but curious"


def test_counts_of_random_groups_tell_next_to_nothing():
    """The negative control: two random groupings of 50 rows a group among 5000."""
    rng = np.random.default_rng(7)
    labels = (rng.random(5000) < 0.3).astype(np.int64)
    groupings = [Neighbours.quantiles(rng.random(5000), 10) for _ in range(2)]
    views = learned(groupings, labels)
    guess = ranked(views)
    assert 0.5 <= roc_auc_score(labels, guess) < 0.55
    fresh = (rng.random(5000) < 0.3).astype(np.int64)
    assert abs(roc_auc_score(fresh, guess) - 0.5) < 0.03
    found = certain(views, labels)
    assert not found.rows.any()


def test_rows_that_the_solver_cannot_decide_are_said():
    groupings, fine, labels = people(600, 8)
    found = audit_label_counts(groupings, fine, labels, seed=1, seconds=0.05)
    assert any("the solver did not finish in time" in text for text in found.not_tested)
    assert found.on.value == 0.0


def test_a_passive_that_learns_counts_of_sparse_groups_shows(monkeypatch):
    """Sabotage: merging that stops at a minimum of 1."""
    groupings, fine, labels = people()
    small = {name: Neighbours.quantiles(np.argsort(np.argsort(labels)) + 0.0, 40) for name in groupings}
    assert audit_label_counts(small, fine, labels, seed=1).on.value == 0.0
    monkeypatch.setattr(labels_from_counts, "FEWEST", 0)
    assert audit_label_counts(small, fine, labels, seed=1).on.value > 0.9
