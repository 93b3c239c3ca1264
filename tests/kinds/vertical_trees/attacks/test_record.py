"""The record of a training equals what plain sums give."""

import numpy as np

from tests.kinds.vertical_trees.attacks.small_trees import recorded


def test_opened_sums_are_those_of_the_rows_by_bin():
    passive, _, record = recorded(120, 3)
    assert len(record.g) == 3
    assert record.opened
    assert record.divided
    for node in record.opened:
        for feature in range(3):
            for bin_ in range(passive.bins[feature]):
                rows = [row for row in node.rows if passive.binned[row, feature] == bin_]
                assert node.g[feature, bin_] == sum(int(record.g[node.tree][row]) for row in rows)
                assert node.h[feature, bin_] == sum(int(record.h[node.tree][row]) for row in rows)


def test_divided_nodes_have_the_side_of_every_row():
    passive, _, record = recorded(120, 3)
    for split in record.divided:
        assert [bool(split.left_bins[passive.binned[row, split.feature]]) for row in split.rows] == list(split.left)


def test_the_first_trees_are_a_part_of_the_record():
    _, _, record = recorded(120, 4)
    part = record.first(2)
    assert len(part.g) == 2
    assert {node.tree for node in part.opened} == {0, 1}
    assert all(node.tree < 2 for node in part.divided)
    assert [tree for tree, _ in record.nodes_seen()] == [node.tree for node in record.opened]


def test_noise_changes_the_sums_and_not_the_words():
    _, _, plain = recorded(120, 1)
    _, _, noisy = recorded(120, 1, noise=3.0)
    assert np.array_equal(plain.g[0], noisy.g[0])
    error = (noisy.opened[0].g - plain.opened[0].g) / 127
    assert 2 < error.std() < 4  # 48 draws of deviation 3
