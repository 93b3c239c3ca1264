"""Numbers in text: a column's decimal mark, thousands and sign are found, and numbers come back exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.tables import numerals


def style(*texts, decimal=None):
    return numerals.found(dict.fromkeys(texts, 1), decimal)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1.5", "-2", "3e4"], (".", "", "")),
        (["1,234.50", "17"], (".", ",", "")),
        (["1.234,50", "17"], (",", ".", "")),
        (["1.234.567", "1.234"], (",", ".", "")),
        (["1,5", "17"], (",", "", "")),
        (["1,234", "12,5"], (",", "", "")),  # a comma that three digits do not follow tells
        (["0,123", "1,234"], (",", "", "")),  # no number of thousands starts with 0
        (["1,234", "5,678"], (".", ",", "")),
        (["1 234,5", "2 000"], (",", " ", "")),
        (["1\u00a0234", "2\u202f000"], (".", " ", "")),
        (["1'234.5", "2\u2019000"], (".", "'", "")),
        (["€ 5", "€1,000.50"], (".", ",", "€")),
        (["5 €", "1.000,50 €"], (",", ".", "€")),
        (["12%", "3.5 %"], (".", "", "%")),
        (["-$5", "$-7"], (".", "", "$")),
        (["CHF 1'234", "CHF 2"], (".", "'", "CHF")),
    ],
)
def test_the_style_of_a_column(texts, expected):
    found = style(*texts)
    assert (found.decimal, found.thousands, found.affix) == expected
    assert found.cells == len(texts)


@pytest.mark.parametrize(("texts", "ambiguous"), [(["1,234"], True), (["1,234", "1,234,567"], False), (["1,5"], False)])
def test_only_commas_before_three_digits_are_ambiguous(texts, ambiguous):
    assert style(*texts).ambiguous is ambiguous


def test_a_given_decimal_mark_is_taken():
    assert style("1,234", decimal=",") == numerals.Style(",", "", "", 1)
    assert style("1.234", decimal=",") == numerals.Style(",", ".", "", 1)


@pytest.mark.parametrize("text", ["1_000", "inf", "nan", "1e999", "", "x", "12,34", "1,2345", "--1", "€5€", "1,,000"])
def test_what_is_no_number_with_thousands(text):
    assert numerals.value(text, ".", ",", "") is None


def test_a_sign_that_the_column_does_not_have_is_no_number():
    assert numerals.value("€ 5", ".", "", "") is None
    assert numerals.value("5", ".", "", "€") is None
    assert numerals.value("5 €", ".", "", "€") == 5


written = st.tuples(st.integers(0, 10**12), st.integers(0, 99), st.booleans())


@given(
    st.lists(written, min_size=1, max_size=30),
    st.sampled_from([(".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "\u202f")]),
    st.sampled_from(["", "€", "%"]),
)
def test_numbers_written_with_groups_are_read(parts, marks, affix):
    decimal, thousands = marks
    texts, expected = [], []
    for whole, cents, negative in parts:
        body = f"{whole:,}".replace(",", thousands) + f"{decimal}{cents:02d}"
        texts.append(f"{'-' if negative else ''}{body}{affix}")
        expected.append(float(f"{'-' if negative else ''}{whole}.{cents:02d}"))  # Python's own parser is the oracle
    found = style(*texts)
    assert found.cells == len(set(texts))
    assert [numerals.value(text, found.decimal, found.thousands, found.affix) for text in texts] == expected
