"""Buckets are merged so that a group has more than ten rows, however ranks were rounded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.shared import histogram

counts = st.lists(st.integers(0, 30), min_size=16, max_size=64)


@given(counts, st.integers(0, 2**32))
def test_every_group_has_more_than_ten_rows(buckets, seed):
    cumulated = np.cumsum(buckets)
    fractions = cumulated / 4
    up = np.random.default_rng(seed).random(len(buckets)) < fractions % 1
    ends = histogram.merged(np.floor(fractions).astype(np.int64) + up)
    groups = histogram.add_up(np.array(buckets, dtype=np.uint32), ends)
    assert ends[-1]
    assert groups.sum() == cumulated[-1]
    assert len(groups) == 1 or groups.min() > histogram.LEAST


@given(st.integers(0, 2**32), st.sampled_from([32, 512]))
def test_rotated_tables_count_words(seed, entries):
    rng = np.random.default_rng(seed)
    bits = 32 - (entries.bit_length() - 1)
    places = rng.integers(0, entries, size=(50, 2))
    words = (places << bits).astype(np.uint32)  # no low bits: nothing is carried over
    mask = rng.integers(0, 2**32, size=(50, 2), dtype=np.uint32)
    table = np.zeros((50, 2, entries), dtype=np.uint32)
    histogram.write_table(mask, table)
    found = histogram.counted(words + mask, table)
    expected = [np.bincount(places[:, output], minlength=entries) for output in range(2)]
    np.testing.assert_array_equal(found, expected)


def test_the_grid_is_fine_where_decisions_fall():
    grid = histogram.grid(256)
    middle = np.abs(grid) < 1
    assert np.diff(grid[middle]).max() < 0.06
    assert grid[-1] > 64
