"""Weight of evidence against a loop over counts; which groups are merged, and with which."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tacit.tables.cells import Numbers, Texts
from tacit.tables.choose import choose
from tacit.tables.evidence import LEAST_OF_A_CLASS, Grouped, Woe, evidence, group, with_labels
from tacit.tables.groups import Categories, Quantiles
from tacit.tables.missing import Fill
from tacit.tables.settings import Column

OWN = Fill("own category")


def grouped(cells, **given):
    return group(cells, choose("x", cells, Column(use="woe", **given)))


def of_sizes(sizes, missing=None):
    """Groups of numbers with these sizes; `missing` is the size of one more, of missing cells."""
    edges = tuple(float(edge) for edge in range(1, len(sizes)))
    every = [*sizes, missing] if missing is not None else list(sizes)
    return Grouped(
        np.repeat(np.arange(len(every)), every), Quantiles(edges, len(sizes) if missing is not None else None), OWN
    )


def of_categories(**sizes):
    return Grouped(
        np.repeat(np.arange(len(sizes)), [*sizes.values()]), Categories(tuple((name,) for name in sizes)), OWN
    )


def by_hand(groups, labels):
    """Value of each group, and the information value, by a loop over counts."""
    positives = Counter(name for name, label in zip(groups, labels, strict=True) if label == 1)
    negatives = Counter(name for name, label in zip(groups, labels, strict=True) if label == 0)
    values, information = {}, 0.0
    for name in positives | negatives:
        p, n = positives[name] / sum(positives.values()), negatives[name] / sum(negatives.values())
        values[name] = math.log(p / n)
        information += (p - n) * values[name]
    return values, information


def test_values_and_information_of_categories_are_those_counted_by_hand():
    rng = np.random.default_rng(1)
    names = rng.choice(["a", "b", "c", ""], 3000, p=[0.5, 0.3, 0.15, 0.05]).tolist()
    chances = {"a": 0.1, "b": 0.3, "c": 0.2, "": 0.5}
    labels = np.array([int(rng.random() < chances[name]) for name in names])
    woe = with_labels(grouped(Texts(names)), labels)
    values, information = by_hand(names, labels.tolist())
    assert woe.apply(Texts(names))[:, 0].tolist() == pytest.approx([values[name] for name in names], abs=1e-12)
    assert woe.information == pytest.approx(information, abs=1e-12)
    assert woe.values[woe.groups.names.index("b")] > 0 > woe.values[woe.groups.names.index("a")]


def test_values_of_numbers_are_those_of_their_quantiles_counted_by_hand():
    rng = np.random.default_rng(2)
    column = np.where(rng.random(4000) < 0.1, np.nan, rng.normal(size=4000))
    labels = (rng.random(4000) < 1 / (1 + np.exp(1.5 - np.nan_to_num(column)))).astype(int)
    woe = with_labels(grouped(Numbers(column), bins=5), labels)
    edges = np.quantile(column[~np.isnan(column)], [0.2, 0.4, 0.6, 0.8]).tolist()
    names = ["missing" if math.isnan(value) else sum(value >= edge for edge in edges) for value in column]
    values, information = by_hand(names, labels.tolist())
    assert woe.apply(Numbers(column))[:, 0].tolist() == pytest.approx([values[name] for name in names], abs=1e-9)
    assert woe.information == pytest.approx(information, abs=1e-12)


def test_rare_categories_are_one_group_from_the_start():
    found = grouped(Texts(["a"] * 90 + ["b"] * 80 + ["c"] * 19 + ["d"] * 19 + ["e"] * 15))
    assert found.groups.texts == (("a",), ("b",), ("c", "d", "e"))
    assert found.sizes.tolist() == [90, 80, 53]


def test_groups_below_the_least_rows_are_merged_at_once():
    assert grouped(Texts(["a"] * 90 + ["b"] * 60 + ["c"] * 30)).groups.texts == (("a",), ("b", "c"))
    assert grouped(Texts(["a"] * 90 + ["b"] * 30 + ["c"] * 30)).groups.texts == (("a",), ("b", "c"))
    assert grouped(Texts(["a"] * 90 + ["b"] * 50 + ["c"] * 50)).count == 3
    assert grouped(Texts(["a"] * 90 + ["b"] * 50 + ["c"] * 49)).count == 2
    assert grouped(Texts(["a"] * 20 + ["b"] * 20)).count == 1
    numbers = grouped(Numbers(np.arange(120.0)), bins=10)
    assert (numbers.count, min(numbers.sizes)) == (2, 60)
    for missing, count in ((49, 4), (50, 5)):
        assert grouped(Numbers(np.r_[np.arange(200.0), np.full(missing, np.nan)])).count == count


@given(
    st.lists(st.floats(-5, 5) | st.just(math.nan), min_size=1, max_size=200), st.integers(2, 20), st.integers(10, 60)
)
def test_no_group_is_smaller_than_the_least_unless_it_is_the_only_one(values, bins, least):
    found = grouped(Numbers(np.array(values)), bins=bins, least=least)
    assert found.count == 1 or min(found.sizes) >= least
    assert found.sizes.sum() == len(values)
    assert set(found.numbers.tolist()) == set(range(found.count)) or found.count == 1


@given(
    st.dictionaries(st.text("abc", max_size=3), st.integers(1, 60), min_size=1, max_size=25),
    st.integers(1, 30),
    st.integers(10, 60),
)
def test_no_group_of_categories_is_smaller_than_the_least_and_each_category_has_one(counts, rare, least):
    cells = Texts([text for text, rows in counts.items() for _ in range(rows)])
    found = grouped(cells, rare=rare, least=least)
    assert found.count == 1 or min(found.sizes) >= least
    assert sorted(text for texts in found.groups.texts for text in texts) == sorted(counts)
    assert found.sizes.tolist() == [sum(counts[text] for text in texts) for texts in found.groups.texts]


def test_a_sparse_group_of_numbers_joins_its_smaller_neighbour():
    found = of_sizes([50, 10, 40, 90])
    assert found.ordered
    assert found.merge([False, True, False, False]).sizes.tolist() == [50, 50, 90]
    assert found.merge([True, False, False, False]).sizes.tolist() == [60, 40, 90]
    assert found.merge([False, False, False, True]).sizes.tolist() == [50, 10, 130]
    assert found.merge([False, True, False, False]).groups.edges == (1.0, 3.0)


def test_sparse_groups_join_one_after_the_other_and_a_joined_one_stays():
    found = of_sizes([50, 10, 20, 90])
    assert found.merge([False, True, True, False]).sizes.tolist() == [50, 30, 90]
    assert found.merge([True] * 4).sizes.tolist() == [170]


def test_missing_cells_join_the_smallest_group_and_no_number_joins_them_if_it_has_a_neighbour():
    found = of_sizes([50, 30, 70], missing=8)
    merged = found.merge([False, False, False, True])
    assert (merged.sizes.tolist(), merged.groups.missing) == ([50, 38, 70], 1)
    assert found.merge([False, False, True, False]).sizes.tolist() == [50, 100, 8]
    assert of_sizes([50], missing=8).merge([True, False]).sizes.tolist() == [58]


def test_a_sparse_category_joins_the_smallest_group():
    found = of_categories(a=50, b=9, c=30, d=70)
    assert not found.ordered
    merged = found.merge([False, True, False, False])
    assert (merged.groups.texts, merged.sizes.tolist()) == ((("a",), ("b", "c"), ("d",)), [50, 39, 70])


@given(st.data(), st.lists(st.integers(1, 50), min_size=1, max_size=12), st.none() | st.integers(1, 50), st.booleans())
def test_merging_keeps_rows_and_order_and_leaves_no_sparse_group_alone(data, sizes, missing, ordered):
    if ordered:
        found = of_sizes(sizes, missing)
    else:
        found = of_categories(**{f"c{place}": size for place, size in enumerate(sizes)})
    sparse = data.draw(st.lists(st.booleans(), min_size=found.count, max_size=found.count))
    merged = found.merge(sparse)
    pairs = sorted(set(zip(found.numbers.tolist(), merged.numbers.tolist(), strict=True)))
    assert len(pairs) == found.count  # the rows of a group stay together
    together = Counter(new for _, new in pairs)
    assert set(together) == set(range(merged.count))
    assert merged.count == 1 or all(together[new] > 1 for old, new in pairs if sparse[old])
    if not any(sparse):
        assert merged.count == found.count
    of_numbers = [new for old, new in pairs if old < len(sizes)]
    assert not ordered or of_numbers == sorted(of_numbers)
    if ordered:  # what was stored groups the rows as the merging did
        middle = np.array([*(np.arange(len(sizes)) + 0.5), *([np.nan] if missing is not None else [])])
        assert merged.groups.numbers(middle).tolist() == [new for _, new in pairs]


def test_answers_for_other_groups_are_refused():
    with pytest.raises(ValueError, match="2 answers for 3 groups"):
        of_sizes([9, 9, 9]).merge([True, False])


@given(st.data(), st.integers(2, 8))
def test_with_labels_no_group_has_fewer_than_five_of_either_class(data, count):
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    found = of_sizes(sizes)
    positives = [data.draw(st.integers(0, size)) for size in sizes]
    labels = np.concatenate([np.arange(size) < p for size, p in zip(sizes, positives, strict=True)]).astype(int)
    woe = with_labels(found, labels)
    numbers = woe.groups.numbers(np.repeat(np.arange(count) + 0.5, sizes))
    if woe.groups.count == 1:
        assert (woe.values, woe.information) == ((0.0,), 0.0)
    else:
        counts = Counter(zip(numbers.tolist(), labels.tolist(), strict=True))
        assert all(counts[number, label] >= LEAST_OF_A_CLASS for number in range(woe.groups.count) for label in (0, 1))
        values, information = by_hand(numbers.tolist(), labels.tolist())
        assert woe.values == pytest.approx([values[number] for number in range(woe.groups.count)], abs=1e-12)
        assert woe.information == pytest.approx(information, abs=1e-12)
        assert woe.information >= 0


def test_groups_that_are_large_enough_are_not_merged():
    labels = np.array(([0] * 45 + [1] * 5) * 3)
    assert with_labels(of_sizes([50, 50, 50]), labels).rows == (50, 50, 50)
    assert with_labels(of_sizes([50, 50, 50]), np.array(([0] * 45 + [1] * 5) * 2 + [0] * 46 + [1] * 4)).rows == (
        50,
        100,
    )


@pytest.mark.parametrize(
    ("positives", "words"), [([4, 20], "has 4 rows"), ([26, 20], "has 4 rows"), ([31, 9], "has -1 rows")]
)
def test_counts_of_fewer_than_five_are_refused(positives, words):
    with pytest.raises(ValueError, match=words):
        evidence(of_sizes([30, 60]), np.array(positives))
    assert evidence(of_sizes([30, 60]), np.array([5, 55])).rows == (30, 60)


def test_counts_of_other_groups_are_refused():
    with pytest.raises(ValueError, match="counts of shape"):
        evidence(of_sizes([30, 60]), np.array([9, 9, 9]))
    with pytest.raises(ValueError, match="3 labels for 90 training rows"):
        with_labels(of_sizes([30, 60]), np.array([0, 1, 1]))


def test_one_group_tells_nothing():
    woe = evidence(of_sizes([30]), np.array([0]))
    assert (woe.values, woe.information) == ((0.0,), 0.0)
    assert woe.apply(Numbers(np.array([3.0, np.nan]))).tolist() == [[0], [0]]


def test_an_unknown_category_has_the_value_0_and_a_rare_one_that_of_its_group():
    cells = Texts(["a"] * 60 + ["b"] * 60 + ["c"] * 15 + ["d"] * 45)
    labels = np.array([0, 0, 1] * 20 + [0, 1] * 30 + [1, 1, 0] * 20)
    woe = with_labels(grouped(cells, rare=50), labels)
    assert woe.groups.texts == (("a",), ("b",), ("c", "d"))
    unknown, missing, rare, together = woe.apply(Texts(["z", "", "c", "d"]))[:, 0]
    assert unknown == missing == 0
    assert rare == together == woe.values[2] > 0


columns = st.lists(st.floats(-5, 5) | st.just(math.nan), min_size=60, max_size=120) | st.lists(
    st.sampled_from(["a", "b", "c", ""]), min_size=60, max_size=120
)


@given(columns, columns, st.integers(0, 2**32))
def test_a_row_becomes_the_same_alone_and_among_others_and_after_being_stored(training, new, seed):
    assume(isinstance(training[0], str) == isinstance(new[0], str))
    make = Texts if isinstance(new[0], str) else lambda values: Numbers(np.array(values))
    found = grouped(make(training), rare=5, least=12, bins=4)
    woe = with_labels(found, np.random.default_rng(seed).integers(0, 2, len(training)))
    state = json.loads(json.dumps(woe.state()))
    stored = Woe.restore({key: value for key, value in state.items() if key != "use"})
    assert stored == woe
    among = woe.apply(make(new))
    assert among.tolist() == [kept.apply(make([cell]))[0].tolist() for cell in new for kept in [stored]]


CATEGORIES = {"texts": [["a"], ["b"]]}
GOOD = {
    "fill": {"how": "own category", "value": None},
    "groups": CATEGORIES,
    "values": [1.0, -1.0],
    "rows": [5, 5],
    "information": 0.5,
}


def test_a_good_state_is_taken():
    assert Woe.restore(GOOD).values == (1.0, -1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"values": [1.0]},
        {"values": [1.0, math.nan]},
        {"values": [1.0, None]},
        {"rows": [5]},
        {"information": math.inf},
        {"groups": {"texts": [["a"], ["a"]]}},
        {"groups": {"texts": [["a"], []]}},
        {"groups": {"edges": [1.0], "missing": None}},
        {"groups": {"edges": [1.0], "missing": None, "kind": "colour"}},
        {"groups": {}},
        {"groups": []},
        {"fill": {"how": "mean", "value": 1.0}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_damaged_state_is_refused(change):
    with pytest.raises(ValueError, match=r"."):
        Woe.restore(GOOD | change)
