"""What becomes of a column if the file does not say, and what is refused if it does."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.tables.cells import Numbers, Texts
from tacit.tables.choose import choose
from tacit.tables.settings import Column, Data

CITIES = Texts(["Rome"] * 30 + ["Oslo"] * 25 + ["Bari"] * 5 + ["Lecce"] * 3)
AGES = Numbers(np.array([30.0, 41, np.nan, 52]))


def chosen(cells, **given):
    choice = choose("x", cells, Column(**given))
    return choice.use, choice.column.missing, choice.said


def test_numbers_and_dates_stay_numbers():
    assert chosen(Numbers(np.array([1.0, 2]))) == ("numeric", "mean", "numbers")
    assert chosen(AGES) == ("numeric", "mean", "numbers, 1 missing: mean")
    assert chosen(Numbers(np.array([1.0, 2]), "date")) == ("numeric", "mean", "days since 1970-01-01")


def test_text_becomes_categories():
    assert chosen(CITIES) == ("one_hot", "own category", "4 categories, 2 rare together")
    assert chosen(CITIES, rare=1) == ("one_hot", "own category", "4 categories")
    assert chosen(CITIES, rare=5)[2] == "4 categories, 1 rare"


def test_text_of_its_own_in_nearly_every_row_is_dropped():
    own = [f"t{row}" for row in range(51)]
    assert chosen(Texts(own + ["same"] * 49)) == ("drop", None, "nearly every row has its own text")
    assert chosen(Texts(own[:49] + ["same"] * 40))[0] == "one_hot"  # 50 texts are few
    assert chosen(Texts(own + ["same"] * 53))[0] == "one_hot"  # half of the rows, not more


def test_columns_that_tell_nothing_are_dropped():
    assert chosen(Texts(["EUR"] * 9)) == ("drop", None, "one value only")
    assert chosen(Numbers(np.array([5.0, 5, np.nan]))) == ("drop", None, "one value only")
    assert chosen(Texts(["", ""])) == ("drop", None, "empty")
    assert chosen(Numbers(np.array([np.nan]))) == ("drop", None, "empty")
    assert chosen(Texts(["a"] * 9 + ["b"] * 9)) == ("drop", None, "no category has 20 rows")


def test_one_value_and_blanks_differ_if_blanks_count():
    assert chosen(Texts(["on"] * 30 + [""] * 30)) == ("one_hot", "own category", "1 category, 30 missing: own category")
    assert chosen(Numbers(np.array([5.0, np.nan])), missing="constant", value=0)[0] == "numeric"


def test_more_than_a_hundred_parts_are_cut_to_a_hundred():
    def counted(distinct, rare):
        return Texts([f"t{number}" for number in range(distinct) for _ in range(20)] + ["r"] * rare)

    choice = choose("x", counted(101, 0), Column())
    assert (choice.use, choice.most, choice.said) == ("one_hot", 100, "99 of 101 categories, the rest together")
    assert choose("x", counted(100, 1), Column()).most == 100
    assert choose("x", counted(100, 0), Column()).most is None
    assert choose("x", counted(101, 0), Column(use="one_hot")).most is None  # the file asked for them


def test_what_the_file_gives_is_taken_without_a_word():
    assert chosen(Numbers(np.array([1.0, 2])), use="log") == ("log", "mean", "")
    assert chosen(AGES, use="log", missing="median") == ("log", "median", "")
    assert chosen(AGES, use="bin") == ("bin", "own category", "1 missing: own category")
    assert chosen(AGES, use="one_hot") == ("one_hot", "own category", "1 missing: own category")
    assert chosen(Texts(["a", "b"]), use="woe") == ("woe", "own category", "")
    assert chosen(Texts(["a"]), use="one_hot")[0] == "one_hot"
    assert chosen(CITIES, use="drop") == ("drop", None, "")


@pytest.mark.parametrize("use", ["numeric", "log", "bin"])
def test_numbers_cannot_be_made_of_text(use):
    with pytest.raises(ValueError, match=f'column x: {use} needs numbers, .* such as "Rome": say one_hot or woe'):
        chosen(CITIES, use=use)
    with pytest.raises(ValueError, match="column x: it is empty"):
        chosen(Texts([""]), use=use)


@pytest.mark.parametrize(
    ("cells", "use", "missing"),
    [
        (CITIES, "one_hot", "mean"),
        (AGES, "one_hot", "median"),
        (AGES, "numeric", "own category"),
        (AGES, "log", "own category"),
    ],
)
def test_a_use_that_cannot_treat_missing_cells_so_is_refused(cells, use, missing):
    with pytest.raises(ValueError, match=f"column x: `missing: {missing}` does not go with {use}: say"):
        chosen(cells, use=use, missing=missing)


def test_missing_of_the_whole_table_is_for_columns_that_it_fits():
    data = Data(path="a.csv", missing="mean", columns={"city": {"use": "one_hot"}, "town": {"use": "woe"}})
    for name in ("city", "town", "street"):
        assert choose(name, CITIES, data.column(name)).column.missing == "own category"
    assert choose("age", AGES, data.column("age")).column.missing == "mean"
    own = Data(path="a.csv", missing="own category", columns={"age": {"use": "numeric"}, "sum": {"use": "bin"}})
    assert [choose(name, AGES, own.column(name)).column.missing for name in ("age", "debt", "sum")] == [
        "mean",
        "mean",
        "own category",
    ]
    refuse = Data(path="a.csv", missing="refuse", columns={"city": {"use": "one_hot"}})
    assert choose("city", CITIES, refuse.column("city")).column.missing == "refuse"


def test_a_constant_has_the_type_of_its_column():
    def value(cells, use, value):
        return choose("x", cells, Column(use=use, missing="constant", value=value)).column.value

    assert value(AGES, "numeric", "18") == 18.0
    assert value(Numbers(np.array([1.0]), "date"), "numeric", "1970-01-11") == 10.0
    assert value(AGES, "one_hot", 18) == "18"
    assert value(CITIES, "one_hot", "Rome") == "Rome"
    assert value(CITIES, "woe", 7) == "7"
    with pytest.raises(ValueError, match="column x: `value: Rome` is not a number"):
        value(AGES, "numeric", "Rome")
    with pytest.raises(ValueError, match="column x: `value: nan` is not a number"):
        value(AGES, "woe", "nan")
    with pytest.raises(ValueError, match="`value` is empty"):
        value(CITIES, "one_hot", " ")
