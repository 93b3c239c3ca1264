"""Dates as people write them in text, as days since 1970-01-01.

A format is named as strptime names it. Month names are English, whatever the machine's language. A time of the day
behind a date counts as a part of the day, and an offset from UTC is taken off. `found` gives the formats that a column
has: 3/4/2024 is 3 April unless a part above 12 tells that the month comes first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

_EPOCH = date(1970, 1, 1).toordinal()
_FULL = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
         "december")  # fmt: skip
_MONTHS = {name[:size]: number for number, name in enumerate(_FULL, 1) for size in (3, 4, len(name))}
_TIME = (
    r"(?:[T ] ?(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:\.[0-9]+)?))?"
    r" ?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_YEAR, _MONTH, _DAY = "(?P<year>[0-9]{4})", "(?P<month>[0-9]{1,2})", "(?P<day>[0-9]{1,2})"
_SHAPES = {
    "%Y-%m-%d": f"{_YEAR}-{_MONTH}-{_DAY}",
    "%Y/%m/%d": f"{_YEAR}/{_MONTH}/{_DAY}",
    "%d.%m.%Y": rf"{_DAY}\.{_MONTH}\.{_YEAR}",
    "%d/%m/%Y": f"{_DAY}/{_MONTH}/{_YEAR}",
    "%m/%d/%Y": f"{_MONTH}/{_DAY}/{_YEAR}",
    "%d-%m-%Y": f"{_DAY}-{_MONTH}-{_YEAR}",
    "%m-%d-%Y": f"{_MONTH}-{_DAY}-{_YEAR}",
    "%d %b %Y": rf"{_DAY}\.?[ -](?P<name>[A-Za-z]{{3,9}})\.?,?[ -]{_YEAR}",
    "%b %d %Y": rf"(?P<name>[A-Za-z]{{3,9}})\.? {_DAY},? {_YEAR}",
}
FORMATS = {name: re.compile(shape + _TIME) for name, shape in _SHAPES.items()}
_EITHER = (("%d/%m/%Y", "%m/%d/%Y"), ("%d-%m-%Y", "%m-%d-%Y"))  # the day first, the month first


@dataclass(frozen=True, slots=True)
class Style:
    """The formats of a column's dates."""

    formats: tuple[str, ...]
    cells: int  # that read so
    ambiguous: bool = False  # day or month first: no cell tells


def value(text: str, formats: tuple[str, ...]) -> float | None:
    """The date of a text by the first of the formats that fits; None if none does."""
    for name in formats:
        if (match := FORMATS[name].fullmatch(text)) is not None and (days := _days(match)) is not None:
            return days
    return None


def found(counts: Mapping[str, int]) -> Style:
    """The formats in which the cells read. `counts`: how often each text comes, missing ones left out."""
    cells: Counter[str] = Counter()
    for text, count in counts.items():
        if text[:1].isalnum():
            cells.update({name: count for name in FORMATS if value(text, (name,)) is not None})
    ambiguous = False
    for first, second in _EITHER:
        ambiguous = ambiguous or cells[first] == cells[second] > 0
        cells.pop(second if cells[first] >= cells[second] else first, None)
    formats = tuple(name for name in FORMATS if cells[name])
    return Style(formats, cells.total(), ambiguous)


def _days(match: re.Match[str]) -> float | None:
    parts = match.groupdict()
    month = int(parts["month"]) if parts.get("month") else _MONTHS.get((parts.get("name") or "").lower(), 0)
    try:
        days = date(int(parts["year"]), month, int(parts["day"])).toordinal() - _EPOCH
    except ValueError:
        return None
    if parts["hour"] is None:
        return float(days)
    whole, _, fraction = (parts["second"] or "0").partition(".")
    hour, minute, second = int(parts["hour"]), int(parts["minute"]), int(whole)
    if hour > 23 or minute > 59 or second > 60:
        return None
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - _offset(parts["zone"])
    return days_of(seconds * 1_000_000 + int(fraction[:6].ljust(6, "0")))


def days_of(microseconds: int) -> float:
    """Microseconds since 1970-01-01 in days, rounded once: the same bits from every source."""
    return microseconds / 86_400_000_000


def _offset(zone: str | None) -> int:
    """Seconds ahead of UTC."""
    if zone in (None, "Z"):
        return 0
    digits = str(zone)[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if str(zone)[0] == "-" else seconds
