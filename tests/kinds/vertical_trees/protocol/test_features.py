import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.protocol.features import Chosen, PlainFeatures


@st.composite
def tables(draw):
    rows, features = draw(st.integers(1, 30)), draw(st.integers(1, 4))
    bins = draw(st.lists(st.sampled_from([2, 3, 7, 256]), min_size=features, max_size=features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    binned = np.stack([rng.integers(0, count, rows) for count in bins], axis=1).astype(np.uint8)
    words = rng.integers(-(2**63), 2**63, rows, dtype=np.int64)
    nodes = [np.flatnonzero(rng.random(rows) < share) for share in draw(st.lists(st.floats(0, 1), max_size=4))]
    return binned, np.array(bins), words, nodes


@given(tables())
def test_histograms_equal_sums_of_plain_integers(table):
    binned, bins, words, nodes = table
    features = PlainFeatures(binned, bins)
    features.start(words)
    for rows, found in zip(nodes, features.histograms(nodes), strict=True):
        expected = [[0] * max(bins) for _ in bins]
        for row in rows.tolist():
            for feature in range(len(bins)):
                expected[feature][binned[row, feature]] += int(words[row])
        assert [[int(sum_) % 2**64 for sum_ in line] for line in found] == [
            [sum_ % 2**64 for sum_ in line] for line in expected
        ]


def test_histograms_of_long_nodes_are_added_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    features = PlainFeatures(rng.integers(0, 4, (50, 3)).astype(np.uint8), np.full(3, 4))
    features.start(rng.integers(-(2**62), 2**62, 50))
    whole = features.histograms([np.arange(50)])[0]
    monkeypatch.setattr("tacit.kinds.vertical_trees.protocol.features._EXACT_ROWS", 7)
    assert np.array_equal(features.histograms([np.arange(50)])[0], whole)


def test_divide_sends_the_bins_of_the_mask_left():
    features = PlainFeatures(np.array([[0], [1], [2], [1]], dtype=np.uint8), np.array([3]))
    chosen = Chosen(np.array([0, 1, 3]), 0, np.array([False, True, False]))
    assert features.divide([chosen])[0].tolist() == [False, True, True]


def test_a_cell_outside_its_bins_is_refused():
    with pytest.raises(ValueError, match="2 to 256 bins"):
        PlainFeatures(np.array([[3]], dtype=np.uint8), np.array([3]))
    with pytest.raises(ValueError, match="2 to 256 bins"):
        PlainFeatures(np.array([[0]], dtype=np.uint8), np.array([257]))


def test_lengths_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="as many numbers of bins"):
        PlainFeatures(np.zeros((2, 2), dtype=np.uint8), np.array([3]))
    with pytest.raises(ValueError, match="as many words"):
        PlainFeatures(np.zeros((2, 1), dtype=np.uint8), np.array([3])).start(np.zeros(3, dtype=np.int64))
