from dataclasses import replace

import numpy as np
import pytest

from tacit.kinds.vertical_trees.protocol.tree import LEAF, Ensemble, Tree

# Node 0 splits by bin 0 of party 1's feature 0, its left child by bins 0 and 2 of party 0's feature 1.
TREE = Tree(
    party=np.array([1, 0, LEAF, LEAF, LEAF]),
    feature=np.array([0, 1, 0, 0, 0]),
    left=np.array([[1, 0, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=bool),
    children=np.array([[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]),
    value=np.array([0, 0, 1.0, 2.0, 3.0]),
    gain=np.array([5.0, 4.0, 0, 0, 0]),
)
STUMP = Tree(
    party=np.array([LEAF]),
    feature=np.array([0]),
    left=np.zeros((1, 1), dtype=bool),
    children=np.zeros((1, 2), dtype=int),
    value=np.array([0.5]),
    gain=np.zeros(1),
)
BINNED = [np.array([[0, 0], [0, 1], [0, 2], [0, 2]], dtype=np.uint8), np.array([[0], [0], [0], [1]], dtype=np.uint8)]


def test_rows_are_routed_by_the_bins_of_all_parties():
    assert TREE.leaves(BINNED).tolist() == [3, 4, 3, 2]
    assert TREE.depth == 2
    assert STUMP.depth == 0


def test_trees_add_to_the_outputs_in_turn():
    ensemble = Ensemble(np.array([10.0, 20.0]), (TREE, STUMP, TREE, STUMP))
    assert ensemble.scores(BINNED).tolist() == [[14, 21], [16, 21], [14, 21], [12, 21]]
    assert ensemble.first(1).scores(BINNED).tolist() == [[12, 20.5], [13, 20.5], [12, 20.5], [11, 20.5]]


def test_importance_is_the_gain_of_each_feature():
    ensemble = Ensemble(np.zeros(1), (TREE, STUMP, TREE))
    assert ensemble.importance(0, 2).tolist() == [0, 8]
    assert ensemble.importance(1, 1).tolist() == [10]


@pytest.mark.parametrize("trees", [(), (STUMP,), (TREE, STUMP, TREE)])
def test_arrays_give_the_ensemble_back(trees):
    ensemble = Ensemble(np.array([1.0]), trees)
    again = Ensemble.of_arrays(ensemble.arrays())
    assert len(again.trees) == len(trees)
    assert np.array_equal(again.scores(BINNED), ensemble.scores(BINNED))
    assert again.importance(0, 2).tolist() == ensemble.importance(0, 2).tolist()


def test_arrays_of_different_lengths_are_refused():
    arrays = Ensemble(np.zeros(1), (TREE,)).arrays()
    with pytest.raises(ValueError, match="one entry per node"):
        Ensemble.of_arrays(arrays | {"gain": np.zeros(4)})
    with pytest.raises(ValueError, match="one entry per node"):
        replace(TREE, value=np.zeros(4))
    with pytest.raises(ValueError, match="at most 256 bins"):
        replace(TREE, left=np.zeros((5, 257), dtype=bool))


@pytest.mark.parametrize("children", [[0, 2], [1, 1], [3, 2], [1, 5]])
def test_a_tree_that_is_none_is_refused(children):
    wrong = TREE.children.copy()
    wrong[0] = children
    with pytest.raises(ValueError, match="do not come after it, or are another's too"):
        replace(TREE, children=wrong)
