"""Transforms against scikit-learn; a row becomes the same numbers alone and among others, to the last bit."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

from tacit.tables.cells import Numbers, Texts
from tacit.tables.choose import choose
from tacit.tables.missing import Fill
from tacit.tables.settings import Column
from tacit.tables.transforms import Bin, Log, Numeric, OneHot

FIT = {"numeric": Numeric.fit, "log": Log.fit, "bin": Bin.fit, "one_hot": OneHot.fit}


def fitted(cells, **given):
    choice = choose("x", cells, Column(**given))
    return FIT[choice.use](cells, choice)


def texts(**counts):
    return Texts([text for text, rows in counts.items() for _ in range(rows)])


def numbers(*values):
    return Numbers(np.array(values, dtype=float))


def test_numbers_are_as_scikit_learn_imputes_and_scales_them():
    rng = np.random.default_rng(3)
    values = np.where(rng.random(200) < 0.2, np.nan, rng.normal(50, 9, 200))
    ours = Numeric.fit(Numbers(values[:150]), choose("x", Numbers(values), Column())).apply(Numbers(values))
    theirs = SimpleImputer().fit(values[:150, None]).transform(values[:, None])
    first, second = (StandardScaler().fit(column[:150]).transform(column) for column in (ours, theirs))
    assert np.allclose(first, second, rtol=0, atol=1e-12)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_log_keeps_the_sign_and_shortens_the_size(values):
    found = Log(Fill("refuse")).apply(Numbers(np.array(values)))[:, 0]
    expected = np.sign(values) * np.log1p(np.abs(values))
    assert np.allclose(found, expected, rtol=1e-15, atol=0)


def test_log_fills_in_before_it_takes_the_logarithm():
    log = fitted(numbers(0, 8, np.nan), use="log")
    assert log.apply(numbers(np.nan))[0, 0] == math.log1p(4)


def test_bins_are_those_of_scikit_learn():
    rng = np.random.default_rng(4)
    values, new = rng.gamma(2, 3, 401), rng.gamma(2, 4, 100)
    ours = fitted(Numbers(values), use="bin", bins=7)
    oracle = KBinsDiscretizer(7, encode="onehot-dense", quantile_method="linear").fit(values[:, None])
    assert np.array_equal(ours.apply(Numbers(new)), oracle.transform(new[:, None]))
    assert ours.rows == tuple(oracle.transform(values[:, None]).sum(axis=0).astype(int))


def test_missing_numbers_are_a_bin_if_the_training_had_enough_of_them():
    values = numbers(1, 2, 3, 4, np.nan)
    few = fitted(values, use="bin", bins=2, rare=2)  # an indicator of one row would tell its label
    assert few.parts == ("below 2.5", "2.5 and above")
    assert few.apply(numbers(np.nan)).tolist() == [[0.5, 0.5]]
    own = fitted(values, use="bin", bins=2, rare=1)
    assert own.parts == ("below 2.5", "2.5 and above", "missing")
    assert own.apply(numbers(np.nan, 0)).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert fitted(values, use="bin", bins=2, missing="mean").apply(numbers(np.nan)).tolist() == [[0, 1]]


def test_a_missing_number_that_the_training_did_not_know_gets_the_mean_of_each_bin():
    unknown = fitted(numbers(1, 2, 3, 3), use="bin", bins=2)
    assert unknown.parts == ("below 2.5", "2.5 and above")
    assert fitted(numbers(1, 2, 3, 4, 4), use="bin", bins=2).apply(numbers(np.nan)).tolist() == [[0.4, 0.6]]


@pytest.mark.parametrize("rare", [1, 20, 60])
def test_categories_are_those_of_scikit_learn(rare):
    rng = np.random.default_rng(5)
    values = rng.choice(["a", "b", "c", "d", "e", "f"], 1000, p=[0.4, 0.3, 0.2, 0.04, 0.03, 0.03]).tolist()
    ours = fitted(Texts(values), use="one_hot", rare=rare)
    oracle = OneHotEncoder(min_frequency=rare, sparse_output=False).fit(np.array(values, dtype=object)[:, None])
    assert np.array_equal(ours.apply(Texts(values)), oracle.transform(np.array(values, dtype=object)[:, None]))
    named = [name.removeprefix("x0_").replace("infrequent_sklearn", "other") for name in oracle.get_feature_names_out()]
    assert list(ours.parts) == named


def test_categories_have_counts_and_an_order():
    hot = fitted(texts(b=30, a=25, c=3, d=40), use="one_hot", rare=3)
    assert (hot.parts, hot.rows, hot.other) == (("a", "b", "c", "d"), (25, 30, 3, 40), False)
    assert fitted(Numbers(np.repeat([10.0, 9, 100], 30)), use="one_hot").parts == ("9", "10", "100")
    days = Numbers(np.repeat([0.0, -1, 1], 30), "date")
    assert fitted(days, use="one_hot").parts == ("1969-12-31", "1970-01-01", "1970-01-02")


def test_rare_categories_are_together_and_the_smallest_join_them_until_they_are_enough():
    assert fitted(texts(a=50, b=40, c=12, d=9), use="one_hot").rows == (50, 40, 21)
    hot = fitted(texts(a=50, b=40, c=30, d=9), use="one_hot")
    assert (hot.categories, hot.other, hot.rows) == (("a", "b"), True, (50, 40, 39))
    assert fitted(texts(a=50, d=9), use="one_hot").rows == (59,)  # 9 rows would tell their labels: nothing is told
    assert fitted(texts(a=9, b=9, c=9), use="one_hot").rows == (27,)


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(1, 60), min_size=1), st.integers(1, 30))
def test_no_group_has_fewer_rows_than_rare_unless_there_is_nothing_to_join(counts, rare):
    hot = fitted(texts(**counts), use="one_hot", rare=rare)
    assert sum(hot.rows) == sum(counts.values())
    assert all(counts[text] == rows for text, rows in zip(hot.categories, hot.rows, strict=False))
    if len(hot.rows) > 2:
        assert min(hot.rows) >= rare
    smallest_kept = min((counts[text] for text in hot.categories), default=math.inf)
    assert all(rows <= smallest_kept for text, rows in counts.items() if text not in hot.categories)


def test_two_parts_are_one_column():
    hot = fitted(texts(no=30, yes=40), use="one_hot")
    assert (hot.parts, hot.every_part) == (("yes",), ("no", "yes"))
    assert hot.apply(Texts(["yes", "no", "maybe"])).tolist() == [[1], [0], [40 / 70]]


def test_an_unknown_category_is_a_rare_one_or_adds_nothing():
    assert fitted(texts(a=30, b=30, c=25, d=1), use="one_hot", rare=2).apply(Texts(["z"])).tolist() == [[0, 0, 1]]
    plain = fitted(texts(a=30, b=40, c=25), use="one_hot")
    training = plain.apply(texts(a=30, b=40, c=25))
    scaler = StandardScaler().fit(training)
    assert np.allclose(scaler.transform(plain.apply(Texts(["z"]))), 0, atol=1e-12)


def test_missing_is_a_category_of_its_own_if_the_training_had_any():
    hot = fitted(Texts(["a"] * 30 + ["b"] * 30 + [""] * 30), use="one_hot")
    assert hot.parts == ("a", "b", "missing")
    assert hot.apply(Texts([""])).tolist() == [[0, 0, 1]]
    few = fitted(Texts(["a"] * 30 + ["b"] * 30 + ["c"] * 18 + [""] * 3), use="one_hot")
    assert (few.parts, few.rows) == (("a", "b", "other"), (30, 30, 21))
    assert few.apply(Texts([""])).tolist() == few.apply(Texts(["c"])).tolist() == [[0, 0, 1]]
    none = fitted(texts(a=30, b=30, c=30), use="one_hot")
    assert none.apply(Texts([""])).tolist() == none.apply(Texts(["z"])).tolist()
    filled = fitted(Texts(["a"] * 30 + ["b"] * 30 + ["c"] * 30), use="one_hot", missing="constant", value="b")
    assert filled.apply(Texts([""])).tolist() == [[0, 1, 0]]


def test_parts_keep_apart_from_categories_that_are_called_so():
    hot = fitted(texts(missing=30, other=30, x=3, y=27), use="one_hot")
    assert hot.parts == ("missing", "other", "(other)")
    blank = fitted(Texts(["missing"] * 30 + [""] * 30 + ["a"] * 30), use="one_hot")
    assert blank.parts == ("a", "missing", "(missing)")


def test_numbers_and_their_texts_are_one_category():
    hot = fitted(Numbers(np.repeat([7.0, 8, 9.5], 30)), use="one_hot")
    assert hot.apply(Texts(["7", "9.5"])).tolist() == hot.apply(numbers(7.0, 9.5)).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_column_of_very_many_texts_keeps_the_most_frequent():
    counts = {f"t{number:03d}": 20 + number for number in range(150)}
    cells = texts(**counts)
    hot = fitted(cells)
    assert set(hot.categories) == {text for text, _ in Counter(counts).most_common(99)}
    assert (len(hot.parts), hot.rows[-1]) == (100, sum(range(20, 71)))
    assert len(fitted(cells, use="one_hot").parts) == 150
    with pytest.raises(ValueError, match="one_hot makes 10001 columns, at most 10000: raise `rare` or say woe"):
        fitted(Texts([str(number) for number in range(10_001)]), use="one_hot", rare=1)


floats = st.floats(-1e100, 1e100) | st.integers(-3, 3).map(float) | st.just(math.nan)
words = st.sampled_from(["", "a", "b", "c", "missing", "other", "é"]) | st.text("abc", max_size=2)
number_columns = st.builds(lambda values: Numbers(np.array(values)), st.lists(floats, min_size=2, max_size=40))
text_columns = st.builds(Texts, st.lists(words, min_size=2, max_size=40))


@st.composite
def transforms(draw):
    """A transform fitted on some rows, and other rows of the same kind."""
    use = draw(st.sampled_from(["numeric", "log", "bin", "one_hot"]))
    of_numbers = use != "one_hot" or draw(st.booleans())
    cells, new = (
        draw(number_columns if of_numbers else text_columns),
        draw(number_columns if of_numbers else text_columns),
    )
    how = draw(st.sampled_from(["own category", "constant"] if use == "one_hot" else ["mean", "median", "constant"]))
    if of_numbers and how in ("mean", "median"):
        cells = Numbers(np.append(cells.values, 1.5))
    value = (2.5 if use != "one_hot" else "b") if how == "constant" else None
    given = {
        "use": use,
        "missing": how,
        "value": value,
        "bins": draw(st.integers(2, 6)),
        "rare": draw(st.integers(1, 9)),
    }
    return fitted(cells, **given), new


def row_of(cells, row):
    return (
        Numbers(cells.values[row : row + 1], cells.kind) if isinstance(cells, Numbers) else Texts([cells.values[row]])
    )


@given(transforms())
def test_a_row_becomes_the_same_alone_and_among_others_and_after_being_stored(case):
    transform, new = case
    state = json.loads(json.dumps(transform.state()))
    stored = type(transform).restore({key: value for key, value in state.items() if key != "use"})
    assert stored == transform
    among = transform.apply(new)
    assert among.shape == (len(new), len(transform.parts))
    assert among.dtype == np.float64
    for row in range(len(new)):
        for kept in (transform, stored):
            assert kept.apply(row_of(new, row)).tobytes() == np.ascontiguousarray(among[row : row + 1]).tobytes()


@given(transforms())
def test_applying_changes_neither_cells_nor_transform(case):
    transform, new = case
    before = new.values.copy(), transform.state()
    first, second = transform.apply(new), transform.apply(new)
    assert np.array_equal(first, second)
    assert transform.state() == before[1]
    assert np.array_equal(np.array(new.values), np.array(before[0]), equal_nan=isinstance(new, Numbers))


def test_the_logarithm_of_many_rows_is_that_of_each():
    values = np.random.default_rng(6).lognormal(5, 3, 1003)
    log = Log(Fill("refuse"))
    alone = [log.apply(numbers(value))[0, 0] for value in values]
    assert log.apply(Numbers(values))[:, 0].tolist() == alone
    assert log.apply(Numbers(np.repeat(values, 2)[::2]))[:, 0].tolist() == alone  # not side by side in memory


def test_states_are_plain_and_readable():
    hot = fitted(texts(a=30, b=25, c=9, d=12), use="one_hot")
    assert hot.state() == {
        "use": "one_hot",
        "fill": {"how": "own category", "value": None},
        "categories": ["a", "b"],
        "other": True,
        "rows": [30, 25, 21],
    }
    assert json.dumps(fitted(numbers(0.1, 0.3), use="log").state()) == (
        '{"use": "log", "fill": {"how": "mean", "value": 0.2}}'
    )


FILL = {"how": "refuse", "value": None}
EDGES = {"edges": [1.0], "missing": None, "kind": "number"}


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (Numeric, {}),
        (Numeric, {"fill": {"how": "mean", "value": None}}),
        (Numeric, {"fill": {"how": "constant", "value": "x"}}),
        (Numeric, {"fill": {"how": "own category", "value": None}}),
        (Numeric, {"fill": {"how": "refuse"}}),
        (Numeric, {"fill": FILL, "more": 1}),
        (Log, {"fill": {"how": "constant", "value": True}}),
        (Log, {"fill": {"how": "nothing", "value": None}}),
        (Log, {"fill": {**FILL, "more": 1}}),
        (Bin, {"fill": FILL, "quantiles": EDGES, "rows": [1]}),
        (Bin, {"fill": FILL, "quantiles": EDGES, "rows": [1, -1]}),
        (Bin, {"fill": FILL, "quantiles": EDGES, "rows": [0, 0]}),
        (Bin, {"fill": FILL, "quantiles": {**EDGES, "missing": 1}, "rows": [1, 1]}),
        (Bin, {"fill": FILL, "quantiles": {**EDGES, "edges": ["1"]}, "rows": [1, 1]}),
        (OneHot, {"fill": FILL, "categories": ["a", "a"], "other": False, "rows": [1, 1]}),
        (OneHot, {"fill": FILL, "categories": ["a", "b"], "other": True, "rows": [1, 1]}),
        (OneHot, {"fill": FILL, "categories": [], "other": False, "rows": []}),
        (OneHot, {"fill": FILL, "categories": "ab", "other": False, "rows": [1, 1]}),
        (OneHot, {"fill": {"how": "constant", "value": 1.0}, "categories": ["a"], "other": False, "rows": [1]}),
    ],
)
def test_a_damaged_state_is_refused(kind, state):
    with pytest.raises(ValueError, match=r"."):
        kind.restore(state)
