"""Which columns the trees use, as each party knows it."""

from __future__ import annotations

from collections import Counter

import pytest

from tacit.events import Bars, Tabled
from tacit.kinds.vertical_trees.columns import Columns
from tacit.kinds.vertical_trees.importance import told
from tacit.kinds.vertical_trees.part import Part
from tests.kinds.vertical_trees.test_pictures import AGE, CITY, part


def test_the_active_sees_the_gain_of_its_columns_and_of_each_party():
    bars, table = told("bank", part(trees=2))
    assert isinstance(bars, Bars)
    assert (bars.unit, bars.bars) == ("gain", {"age": 25.0})
    assert isinstance(table, Tabled)
    assert table.rows == [["bank", 2, 25.0, pytest.approx(25 / 31)], ["shop", 2, 6.0, pytest.approx(6 / 31)]]


def test_a_passive_sees_how_many_of_its_splits_won():
    won = Counter({bytes([1, 0, 0, 0, 7]): 3, bytes([0, 0, 0, 0, 7]): 1, bytes([1, 0, 0, 0, 3]): 1})
    (bars,) = told("shop", Part(Columns((AGE, CITY), {}), ("bank", "shop"), b"s", won=won))
    assert (bars.unit, bars.bars) == ("splits", {"city": 4.0, "age": 1.0})
    assert list(bars.bars) == ["city", "age"]


def test_nothing_is_drawn_if_no_tree_splits():
    assert told("bank", part(trees=0)) == []
    assert told("shop", Part(Columns((AGE,), {}), ("bank", "shop"), b"s")) == []
