from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tacit.config.source import ConfigError
from tacit.kinds.vertical_trees.columns import Column, Columns
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.protocol.bins import Categories, Numbers
from tacit.kinds.vertical_trees.protocol.tree import LEAF, Ensemble, Tree

COLUMNS = Columns((Column("age", Numbers((1.5,)), sign=1), Column("city", Categories(("Rome",)))), {})
TREE = Tree(
    np.array([0, 1, LEAF, LEAF, LEAF]),
    np.array([1, 7, 0, 0, 0]),
    np.array([[True, False, False]] * 5),
    np.array([[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]),
    np.array([0.0, 0.0, 1.0, 2.0, 3.0]),
    np.array([5.0, 4.0, 0.0, 0.0, 0.0]),
)


def key(feature, mask=1):
    return feature.to_bytes(4, "little") + mask.to_bytes(32, "little")


def active():
    return Part(COLUMNS, ("bank", "shop"), bytes(16), Ensemble(np.array([0.5]), (TREE,)), ("no", "yes"))


def passive():
    return Part(COLUMNS, ("bank", "shop"), bytes(16), won=Counter({key(1): 7, key(0): 1}))


@pytest.mark.parametrize("part", [active(), passive()])
def test_a_part_is_stored_and_read_again(part):
    found = Part.of(part.file())
    assert (found.columns, found.parties, found.session) == (part.columns, part.parties, part.session)
    assert (found.classes, found.won) == (part.classes, part.won)
    assert (found.ensemble is None) == (part.ensemble is None)
    if part.ensemble is not None:
        assert found.ensemble.arrays().keys() == part.ensemble.arrays().keys()
        for name, array in part.ensemble.arrays().items():
            np.testing.assert_array_equal(found.ensemble.arrays()[name], array)


@pytest.mark.parametrize("name", ["about", "trees.party", "trees.nodes"])
def test_a_damaged_part_is_refused(name):
    for broken in ({**active().file(), name: np.zeros(3, dtype=np.uint8)}, active().file()):
        if broken[name].shape != (3,):
            del broken[name]
        with pytest.raises(ConfigError, match="part of the trees is damaged"):
            Part.of(broken)


def test_splits_that_were_stored_by_their_left_sides_are_read_by_the_side_of_the_first_bin():
    stored = Part(COLUMNS, ("bank", "shop"), bytes(16), won=Counter({key(0): 1, key(1): 3, key(1, 2): 4, key(0, 6): 2}))
    assert Part.of(stored.file()).won == {key(0): 3, key(1): 7}


@pytest.mark.parametrize("broken", [key(2)[:-1], key(2)])
def test_damaged_splits_are_refused(broken):
    file = passive().file() | {"splits": np.frombuffer(broken, dtype=np.uint8)[None], "counts": np.array([1])}
    with pytest.raises(ConfigError, match="part of the trees is damaged"):
        Part.of(file)


def test_importance_is_of_own_columns_only():
    assert active().importance() == {"city": 5.0}  # the gain of 4 is another party's
    assert passive().importance() == {"city": 7.0, "age": 1.0}
