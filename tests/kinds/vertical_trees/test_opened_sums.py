"""What a training opens, counted before it runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.opened_sums import most_equations, opened_words, ratio_that_determines
from tests.kinds.vertical_trees.attacks.small_trees import recorded


@pytest.mark.parametrize(("rows", "trees", "depth", "least"), [(300, 3, 4, 16), (300, 2, 5, 64), (200, 4, 2, 1)])
def test_no_training_opens_more_than_planned(rows, trees, depth, least):
    _, _, record = recorded(rows, trees, depth=depth, least=least)
    assert 0 < 2 * len(record.opened) <= most_equations(rows, trees, depth, least)


@given(st.integers(2, 256), st.integers(2, 15), st.floats(1, 1000))
def test_more_bits_and_more_rows_in_a_bin_determine_sooner(bins, bits, rows):
    ratio = ratio_that_determines(bins, bits, rows)
    assert 0 < ratio_that_determines(bins, bits + 1, rows) < ratio
    assert ratio_that_determines(bins, bits, 2 * rows) < ratio


def test_the_sentence_has_the_ratio_and_the_groups():
    many = opened_words(1000, 100, 5, 64, 9)
    assert "3,000 sums" in many
    assert "(3 a row)" in many
    assert "enough to solve" in many
    assert "8 groups in each column, or missing: of about 125 rows each if values are spread evenly" in many
    few = opened_words(100_000, 10, 4, 64, 33)
    assert "160 sums" in few
    assert "a part of the cells" in few
