"""Labels from the splits that won: on a table where labels depend on a tail, and on ones where nothing follows."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tacit.kinds.vertical_trees.attacks.labels_from_splits import apart, audit_splits, by_chance
from tacit.kinds.vertical_trees.attacks.training import Table, train
from tacit.kinds.vertical_trees.protocol.boosting import Terms
from tacit.kinds.vertical_trees.protocol.growth import Options


def trained(x, labels):
    """The passive has all columns but the first; the record of a training."""
    active, passive = Table.of_numbers(x[:, :1], 9), Table.of_numbers(x[:, 1:], 9)
    return passive, train([active, passive], labels, Terms(8, growth=Options(3, least=32)))[1]


def of_a_tail(rows=1500):
    """The passive's second column tells labels in its upper tail; the others tell nothing."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 6))
    return x, (x[:, 2] + rng.normal(size=rows) / 2 > 1).astype(float)


@pytest.mark.parametrize("flipped", [False, True])
def test_splits_that_won_rank_rows_by_label_without_a_known_one(flipped):
    x, labels = of_a_tail()
    passive, record = trained(x, 1 - labels if flipped else labels)
    found = audit_splits(record, passive, (1 - labels if flipped else labels).astype(np.int64))
    assert found.on == found.off
    assert found.on.low > found.on.baseline + 0.1
    won = [(split.feature, split.left_bins) for split in record.divided]
    assert found.on.value == pytest.approx(roc_auc_score(labels, apart(won, passive.binned)))


def test_labels_that_no_column_tells_are_not_ranked():
    x, labels = of_a_tail()
    passive, record = trained(x, np.random.default_rng(0).permutation(labels))
    shuffled = np.random.default_rng(1).permutation(labels).astype(np.int64)
    score = audit_splits(record, passive, shuffled).on
    assert abs(score.value - 0.5) < 0.08
    assert abs(score.baseline - 0.5) < 0.08


def test_which_side_is_named_makes_no_difference():
    passive, record = trained(*of_a_tail())
    won = [(split.feature, split.left_bins) for split in record.divided]
    other = [(feature, ~bins) for feature, bins in won]
    np.testing.assert_allclose(apart(won, passive.binned), apart(other, passive.binned))


@pytest.mark.parametrize("ordered", [True, False])
def test_splits_by_chance_are_cuts(ordered):
    table = Table(
        np.zeros((5, 3), dtype=np.uint8), np.array([9, 4, 2]), np.full(3, ordered), np.zeros(3, dtype=np.int64)
    )
    for feature, side in by_chance(200, table, np.random.default_rng(0)):
        assert len(side) == table.bins[feature]
        assert 1 <= side.sum() <= max(1, len(side) - 2)
        if ordered:
            assert (np.diff(side.astype(int)) <= 0).all()
