"""Trees in words: a sentence is true for the rows that go left, and splits of others tell no more than numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.events import Tree as Drawn
from tacit.events import from_json, to_json
from tacit.kinds.vertical_trees.columns import Column, Columns
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.pictures import split_words, told
from tacit.kinds.vertical_trees.protocol.bins import Categories, Numbers
from tacit.kinds.vertical_trees.protocol.tree import LEAF, Ensemble, Tree

AGE = Column("age", Numbers((20.0, 35.5, 60.0)))  # four bins of values, and that of missing ones
CITY = Column("city", Categories(("Rome", "Oslo", "Lima", "Bonn", "Bern")))


def flags(text):
    return np.array([letter == "1" for letter in text])


@pytest.mark.parametrize(
    ("column", "left", "words"),
    [
        (AGE, "10000", "age ≤ 20"),
        (AGE, "11001", "age ≤ 35.5 or missing"),
        (AGE, "11100", "age ≤ 60"),
        (AGE, "11110", "age is known"),
        (AGE, "00001", "age is missing"),
        (Column("age", AGE.bins, 0.0), "11001", "age ≤ 35.5"),
        (CITY, "010000", "city is Oslo"),
        (CITY, "100001", "city is Rome, missing or rare"),
        (CITY, "111110", "city is Rome, Oslo, Lima and 2 more"),
    ],
)
def test_splits_in_words(column, left, words):
    assert split_words(column, flags(left)) == words


@pytest.mark.parametrize("left", ["10000", "11000", "11100"])
def test_the_bound_is_the_one_that_rows_are_put_into_bins_by(left):
    bound = float(split_words(AGE, flags(left)).removeprefix("age ≤ "))
    values = np.array([19.0, 20.0, 20.5, 35.5, 36.0, 60.0, 61.0])
    assert (flags(left)[AGE.bins.apply(values)] == (values <= bound)).all()


def part(classes=("no", "yes"), outputs=1, trees=4):
    tree = Tree(
        np.array([0, 1, LEAF, LEAF, LEAF]),
        np.array([0, 2, 0, 0, 0]),
        np.stack([flags("11000000"), flags("01101000"), *[np.zeros(8, dtype=bool)] * 3]),
        np.array([[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]),
        np.array([0.0, 0.0, 0.25, -0.5, 0.125]),
        np.array([12.5, 3.0, 0.0, 0.0, 0.0]),
    )
    columns = Columns((AGE, CITY), {})
    return Part(columns, ("bank", "shop"), b"s", Ensemble(np.zeros(outputs), (tree,) * trees * outputs), classes)


def test_a_tree_has_own_splits_in_words_and_those_of_others_as_numbers():
    first, *_ = found = told(part())
    assert [each.name for each in found] == ["Tree 1", "Tree 2", "Tree 3"]
    assert first.words == [
        "age ≤ 35.5 (gain 12.5)",
        "feature 3 in bins 2–3, 5 (gain 3)",
        "+0.25",
        "−0.5",
        "+0.125",
    ]
    assert first.owners == ["bank", "shop", "", "", ""]
    assert first.children == [[1, 2], [3, 4], [], [], []]
    assert "the score of yes" in first.caption
    assert from_json(to_json(first)) == first
    assert isinstance(first, Drawn)


def test_trees_of_several_classes_name_them():
    assert [each.name for each in told(part(("a", "b", "c"), 3))][:4] == [
        "Tree 1, a",
        "Tree 1, b",
        "Tree 1, c",
        "Tree 2, a",
    ]
    assert len(told(part(tuple("abcdefgh"), 8))) == 12


def test_scores_of_numbers_have_no_class():
    assert "adds to the score." in told(part(()))[0].caption


def test_a_passive_has_no_trees():
    assert told(Part(Columns((AGE,), {}), ("bank", "shop"), b"s")) == []
