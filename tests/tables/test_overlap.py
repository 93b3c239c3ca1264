"""Ids of tables that are all here: how many are common, and what would make them more."""

from __future__ import annotations

from tacit.tables.check import compare_ids

PEOPLE = [f"Person{index:04d}" for index in range(100)]
NUMBERS = [f"{index:06d}" for index in range(1, 101)]


def test_common_ids_are_counted_and_need_no_advice():
    overlap = compare_ids({"bank": PEOPLE, "shop": [*PEOPLE[20:], "other"]})
    assert (overlap.common, overlap.advice) == (80, ())
    assert overlap.sizes == {"bank": 100, "shop": 81}


def test_what_would_raise_the_number():
    cases = {
        "strip: true": [f" {each}" for each in PEOPLE],
        "casefold: true": [each.upper() for each in PEOPLE],
    }
    for words, shop in cases.items():
        overlap = compare_ids({"bank": PEOPLE, "shop": shop})
        assert overlap.common == 0
        assert words in overlap.advice[0]
        assert overlap.advice[0].startswith("100 ids would be common instead of 0")
    zeros = compare_ids({"bank": NUMBERS, "shop": [str(int(each)) for each in NUMBERS]}).advice
    assert "zeros in front" in zeros[0]
    assert "without .0" in compare_ids({"bank": PEOPLE, "shop": [f"{each}.0" for each in PEOPLE]}).advice[0]


def test_several_differences_at_once_and_none():
    shop = [f" {each.lower()}" for each in PEOPLE]
    assert "white space, capital letters and zeros" in compare_ids({"bank": PEOPLE, "shop": shop}).advice[-1]
    (advice,) = compare_ids({"bank": PEOPLE, "shop": NUMBERS}).advice
    assert "check that id names the same thing" in advice
