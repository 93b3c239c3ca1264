"""The order of columns from the answers to chosen splits."""

import numpy as np

from tacit.kinds.vertical_trees.attacks.split_bits import audit_order, for_all_rows, recovered
from tests.kinds.vertical_trees.attacks.small_trees import recorded


def test_hidden_answers_are_for_all_rows():
    passive, _, record = recorded(150, 4)
    hidden = for_all_rows(record, passive.binned)
    assert len(hidden.divided) == len(record.divided)
    for wide, narrow in zip(hidden.divided, record.divided, strict=True):
        assert len(wide.rows) == 150
        assert np.array_equal(wide.left[narrow.rows], narrow.left)


def test_every_cut_over_all_rows_gives_the_whole_column():
    passive, _, record = recorded(300, 40)
    hidden = for_all_rows(record, passive.binned)
    cuts = {tuple(split.left_bins[:-1]) for split in record.divided if split.feature == 0}
    right, rank = recovered(hidden, 0, passive.binned[:, 0], int(passive.bins[0]))
    groups = len({tuple(cut[bin_] for cut in cuts) for bin_ in range(int(passive.bins[0]) - 1)})
    assert groups > 10
    assert right.mean() > 0.6
    assert rank > 0.97


def test_hidden_partitions_tell_more_of_the_order_than_shown_ones():
    passive, _, record = recorded(300, 10)
    found = audit_order(record, passive.binned, passive.bins)
    assert found.off.value > found.on.value > found.on.baseline
    assert found.also[0][0].value > found.also[0][1].value > 0.1


def test_without_splits_nothing_is_recovered():
    passive, _, record = recorded(150, 1, least=140)
    none = type(record)(record.g, record.h, record.opened, ())
    right, rank = recovered(none, 0, passive.binned[:, 0], int(passive.bins[0]))
    assert right.mean() < 0.15
    assert rank == 0
