"""People told apart and read by scores, on a made census."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.kinds.vertical_logistic.attacks.category_scores import (
    attributes_from_scores,
    attributes_of,
    audit_attributes_from_scores,
    audit_equal_scores,
    equal_people,
    variables,
)
from tacit.kinds.vertical_logistic.attacks.honest_steps import Training
from tests.kinds.vertical_logistic.attacks.census import FEWER, census

FULL = Training(2000)


def test_variables_are_neighbouring_columns_with_one_indicator_a_row():
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 3, 50), rng.integers(0, 4, 50)
    parts = [(each[:, None] == np.arange(size)).astype(float) for each, size in zip(drawn, (3, 4), strict=True)]
    own = np.hstack([rng.normal(size=(50, 1)), parts[0], parts[1], rng.normal(size=(50, 1))])
    groups = variables(own)
    assert [group.tolist() for group in groups] == [[1, 2, 3], [4, 5, 6, 7]]
    assert (attributes_of(own, groups) == np.stack(drawn, axis=1)).all()


def test_equal_scores_are_equal_as_they_are_sent():
    scores = np.array([0.5, 0.25, 0.5 + 2.0**-40, 0.5 + 2.0**-31])
    people = equal_people(scores)
    assert people[0] == people[2]
    assert len(set(people.tolist())) == 3


def test_equal_people_are_found_without_knowing_anything():
    found = audit_equal_scores(census(2000, FEWER, seed=1), FULL)
    assert found.off.value == 1.0 > 0.01 > found.off.baseline
    assert found.also[0][1].value == 1.0  # none of the pairs is wrong
    assert found.on is None


def test_scores_summed_with_a_passive_that_has_numbers_show_no_equal_people():
    """The negative control. Two passives with categories each are equal people again, in both tables at once."""
    found = audit_equal_scores(census(2000, FEWER, seed=1, passives=3), FULL)
    assert found.off.value == 1.0
    assert found.on.value == 0.0
    assert not found.on.informative


def test_people_who_are_all_different_cannot_be_paired():
    made = census(200, FEWER)
    with pytest.raises(ValueError, match="no equal people"):
        audit_equal_scores(replace(made, own=np.random.default_rng(0).normal(size=(200, 4))), FULL)


def test_sixty_known_rows_and_one_step_read_all_attributes_of_most_others():
    """34 columns of 6 variables: 90 of 100 people and more. Who is not read has a category that no known row has."""
    found = audit_attributes_from_scores(census(2000, FEWER, seed=1), FULL, known=60)
    assert found.off.value > 0.9
    assert found.off.baseline < 0.1
    assert "knows 60" in found.sees


def test_rows_that_are_read_are_right_but_for_categories_that_were_never_seen():
    made = census(1000, FEWER, seed=2)
    truth = attributes_of(made.own, variables(made.own))
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(size, 2)) for size in truth.max(axis=0) + 1]
    scores = sum(weight[truth[:, place]] for place, weight in enumerate(weights)) + 0.3
    known = np.arange(80)
    found = attributes_from_scores(scores, known, truth[known])
    seen = np.all([np.isin(column, column[known]) for column in truth.T], axis=0)
    assert (found[seen] == truth[seen]).all()
    assert (found[~seen] == -1).all()


def test_a_category_that_no_known_row_has_is_never_read():
    """Least squares gives it the weight 0, which is no weight: 3 is 2 for all and 1 for each category that was seen."""
    scores = np.array([[3.0], [3.0], [2.0]])
    assert attributes_from_scores(scores, np.array([0, 1]), np.array([[0], [2]]))[2].tolist() == [-1]


def test_scores_of_random_numbers_tell_no_attributes():
    made = census(1000, FEWER, seed=2)
    truth = attributes_of(made.own, variables(made.own))
    scores = np.random.default_rng(0).normal(size=(1000, 1))
    found = attributes_from_scores(scores, np.arange(60), truth[:60])[60:]
    assert (found == truth[60:]).all(axis=1).mean() < 0.03


def test_sums_with_a_passive_that_has_numbers_tell_no_attributes():
    found = audit_attributes_from_scores(census(2000, FEWER, seed=1, passives=3), FULL)
    assert found.off.value > 0.9
    assert found.on.value == 0.0


def test_too_many_combinations_are_refused_before_they_are_listed():
    truth = np.tile(np.arange(200)[:, None], (1, 6))
    with pytest.raises(ValueError, match="at most 1048576 are searched"):
        attributes_from_scores(np.zeros((300, 1)), np.arange(200), truth)


def test_a_table_of_numbers_has_no_attributes():
    made = replace(census(200, FEWER), own=np.random.default_rng(0).normal(size=(200, 4)))
    with pytest.raises(ValueError, match="linear algebra"):
        audit_attributes_from_scores(made, FULL)
