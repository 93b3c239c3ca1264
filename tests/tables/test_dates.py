"""Dates in text: formats are found, and days since 1970-01-01 are those of Python's own calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.tables import dates
from tacit.tables.typed import typed_column

EPOCH = date(1970, 1, 1)


def found(*texts):
    return dates.found(dict.fromkeys(texts, 1))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2024-01-31", "%Y-%m-%d"),
        ("31.01.2024", "%d.%m.%Y"),
        ("31.1.2024", "%d.%m.%Y"),
        ("31/01/2024", "%d/%m/%Y"),
        ("01/31/2024", "%m/%d/%Y"),
        ("2024/01/31", "%Y/%m/%d"),
        ("31 Jan 2024", "%d %b %Y"),
        ("31 January 2024", "%d %b %Y"),
        ("31-JAN-2024", "%d %b %Y"),
        ("Jan 31, 2024", "%b %d %Y"),
        ("31-01-2024", "%d-%m-%Y"),
    ],
)
def test_formats(text, name):
    assert found(text) == dates.Style((name,), 1)
    assert dates.value(text, (name,)) == (date(2024, 1, 31) - EPOCH).days


def test_a_part_above_12_tells_day_from_month():
    assert found("03/04/2024", "13/04/2024").formats == ("%d/%m/%Y",)
    assert found("03/04/2024", "04/13/2024").formats == ("%m/%d/%Y",)
    assert not found("03/04/2024", "04/13/2024").ambiguous
    assert found("03/04/2024") == dates.Style(("%d/%m/%Y",), 1, ambiguous=True)


def test_two_formats_in_one_column():
    assert found("2024-01-31", "01.02.2024") == dates.Style(("%Y-%m-%d", "%d.%m.%Y"), 2)


@pytest.mark.parametrize(
    "text", ["20240131", "2024-02-30", "2024-13-01", "31 Foo 2024", "1.5", "", "12:30", "2024-01-31 25:00", "2024"]
)
def test_what_is_no_date(text):
    assert found(text).cells == 0


@given(st.datetimes(datetime(1600, 1, 1), datetime(2500, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_times_and_offsets(moment, minutes):
    moment = moment.replace(microsecond=0)
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = (aware - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
    assert dates.value(aware.isoformat(), ("%Y-%m-%d",)) == pytest.approx(expected, abs=1e-9)
    plain = (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    assert dates.value(moment.isoformat(" "), ("%Y-%m-%d",)) == pytest.approx(plain, abs=1e-9)


@given(st.dates(date(1000, 1, 1)), st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d"]))
def test_days_are_those_of_the_calendar(day, name):
    assert dates.value(day.strftime(name), (name,)) == (day - EPOCH).days


@given(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_text_and_a_typed_source_give_the_same_bits(moment, minutes):
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    cells = typed_column([moment, moment])[0]
    assert dates.value(moment.isoformat(sep=" "), ("%Y-%m-%d",)) == cells.values[0]
    cells = typed_column([aware, aware])[0]
    assert dates.value(aware.isoformat(), ("%Y-%m-%d",)) == cells.values[0]
    exact = Fraction(round((moment - datetime(1970, 1, 1)) / timedelta(microseconds=1)), 86_400_000_000)
    assert typed_column([moment, moment])[0].values[0] == float(exact)
