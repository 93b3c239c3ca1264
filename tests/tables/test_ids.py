"""Ids are the same at every party: as an alignment compares them, hashed if they have parts, each once."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.align.intersection import normalised
from tacit.tables.cells import Numbers, Raw, Texts, clean
from tacit.tables.ids import ids_of, key, normal
from tacit.tables.settings import Data, Ids


def raw(**columns):
    made, padded = [], {}
    for name, values in columns.items():
        if isinstance(values[0], str):
            texts, rows = clean(values)
            made.append(Texts(texts))
            padded |= {name: tuple(rows)} if rows else {}
        else:
            made.append(Numbers(np.array(values, dtype=float)))
    return Raw("bank.csv", tuple(columns), tuple(made), lambda row: f"line {row + 2}", (), padded)


def data(**options):
    return Data(path="bank.csv", **options)


def kinds(found):
    return {problem.kind: problem.severity for problem in found.problems}


def test_ids_stay_as_they_are_written_and_numbers_have_one_text():
    assert ids_of(raw(id=["007", "7", "x"]), data()).ids == ["007", "7", "x"]
    assert ids_of(raw(id=[7.0, 8.0]), data()).ids == ["7", "8"]


@given(st.lists(st.text(min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=20, unique=True))
def test_ids_agree_with_an_alignment(texts):
    try:
        expected = normalised(texts)
    except ValueError:
        return  # twice after normalisation
    assert normal(texts, Ids()) == expected
    assert normalised(normal(texts, Ids())) == expected
    folded = normal(texts, Ids(casefold=True))
    assert (
        normal(
            [text.upper() if text.upper().casefold() == text.casefold() else text for text in texts], Ids(casefold=True)
        )
        == folded
    )


def test_a_key_of_several_columns_is_the_same_however_they_are_written():
    shop = raw(a=[" Ann ", "Bob"], b=[7.0, 8.0], c=["x", "y"])
    bank = raw(c=["y", "x"], b=["8", "7"], a=["BOB", "ANN"])
    options = {"id": ("a", "b"), "ids": Ids(casefold=True)}
    found = ids_of(shop, data(**options)).ids
    assert found == ids_of(bank, data(**options)).ids[::-1]
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in (b"tacit id key", b"ann", b"7"))
    assert found[0] == hashlib.sha256(framed).hexdigest()[:32]


def test_parts_do_not_run_into_each_other():
    assert key(["ab", "c"]) != key(["a", "bc"])
    assert key(["", "ab"]) != key(["ab", ""])


def test_rows_without_an_id_are_errors():
    found = ids_of(raw(id=["x", "", "y", "NA"], a=[1, 2, 3, 4]), data())
    (problem,) = found.problems
    assert str(problem) == "bank.csv, lines 3 and 5, column 'id': 2 rows have no id: fill it in, or remove the row"
    assert ids_of(raw(a=["x", "y"], b=["1", ""]), data(id=("a", "b"))).problems[0].place == "line 3"


def test_ids_that_come_twice_are_refused_or_the_first_is_kept():
    table = raw(id=["x", "y", "x", "x", "y"], a=[1, 2, 3, 1, 5])
    found = ids_of(table, data())
    assert kinds(found) == {"same row": "warning", "id twice": "error"}
    assert [problem.place for problem in found.problems] == ["line 5", "lines 4 and 6"]
    found = ids_of(table, data(ids=Ids(dedupe="first")))
    assert kinds(found) == {"same row": "warning", "id twice": "warning"}
    assert (found.ids, found.rows.tolist()) == (["x", "y"], [0, 1])


def test_rows_that_are_the_same_in_every_cell_are_one_row():
    found = ids_of(raw(id=["x", "y", "x "], a=["1", "", "1"], b=[1, 2, 1]), data())
    assert kinds(found) == {"same row": "warning", "id spaces": "warning"}
    assert (found.ids, found.rows.tolist()) == (["x", "y"], [0, 1])


SEQUENCE = [str(index) for index in range(1, 2000)]
SPARSE = [str(10_000_000 + 777 * index) for index in range(100)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["x ", "y"], "id spaces"),
        (["Ann", "ann", "Bob"], "id case"),
        ([*SPARSE, "777"], "id zeros"),
        (["00071", "00072", "00073", "00074", "75"], "id zeros"),
        (["1.23E+05", "124000"], "id exponent"),
        (["123.0", "124.0"], "id decimals"),
        (SEQUENCE, None),
        (SPARSE, None),
        (["A1", "B22", "C333"], None),
        (["Ann", "Bob"], None),
    ],
)
def test_ids_that_may_be_written_in_another_way_elsewhere(ids, expected):
    found = ids_of(raw(id=ids, a=list(range(len(ids)))), data())
    assert kinds(found) == ({expected: "warning"} if expected else {})


def test_white_space_is_an_error_if_it_is_not_to_be_left_out():
    assert kinds(ids_of(raw(id=["x ", "y"]), data(ids=Ids(strip=False)))) == {"id spaces": "error"}


def test_with_casefold_capital_letters_make_no_other_id():
    table = raw(id=["Ann", "ann"], a=[1, 2])
    assert kinds(ids_of(table, data(ids=Ids(casefold=True)))) == {"id twice": "error"}
