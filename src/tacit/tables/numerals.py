"""Numbers as people write them in text: "1,234.50", "1.234,50", "1 234", "1'234", "€ 5", "12 %".

A column has one decimal mark, one separator of thousands and one sign around its numbers. `found` says which they are,
and `value` reads one text by them. Groups of thousands have exactly three digits: "12,34" is never 1234.
- "1,234" alone may be either: it is 1234, and that is said, unless some cell of the column tells (a comma that is not
  followed by exactly three digits is a decimal comma).
- Python's 1_000 is no number, and neither is inf.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "\u2212": "-"})
_CODES = ["AUD", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HUF", "INR", "JPY", "NOK", "PLN", "SEK", "USD"]
_SIGNS = [chr(code) for code in (*range(0x24, 0xA6), *range(0x20A0, 0x20D0)) if unicodedata.category(chr(code)) == "Sc"]
AFFIXES = frozenset({"", "%", *_SIGNS, *_CODES})
_FEW = 0.05  # of the cells with a comma: so few may be slips
THOUSANDS = ("", ",", ".", " ", "'")

_AFFIX = "|".join(map(re.escape, sorted(AFFIXES - {""})))
_WHOLE = re.compile(
    rf"(?P<sign>[+-]?) ?(?P<before>{_AFFIX})? ?(?P<inner>[+-]?)"
    rf"(?P<core>[0-9.,][0-9.,' ]*(?:[eE][+-]?[0-9]+)?)(?P<behind>{_AFFIX})?"
)


@dataclass(frozen=True, slots=True)
class Style:
    """How the numbers of a column are written."""

    decimal: str
    thousands: str
    affix: str
    cells: int  # that read so
    ambiguous: bool = False  # a comma may be a decimal comma: no cell tells
    told_by: str = ""  # one of a few cells that tell a decimal comma: all others could have thousands


def _parts(text: str) -> tuple[str, str] | None:
    """The sign around a number, such as €, and the number without it; None if the text does not look like one."""
    match = _WHOLE.fullmatch(text if text.isascii() else text.translate(_SPACES))
    if match is None or (match["sign"] and match["inner"]) or (match["before"] and match["behind"]):
        return None
    return match["before"] or match["behind"] or "", match["sign"] + match["inner"] + match["core"].strip()


@lru_cache(maxsize=64)
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    point, group = re.escape(decimal), re.escape(thousands)
    whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+)" if thousands else "[0-9]+"
    return re.compile(rf"[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?")


def value(text: str, decimal: str, thousands: str, affix: str) -> float | None:
    """The number that a text says in this style; None if it says none, or one too large for a float."""
    parts = _parts(text)
    if parts is None or parts[0] != affix or _pattern(decimal, thousands).fullmatch(parts[1]) is None:
        return None
    number = float((parts[1].replace(thousands, "") if thousands else parts[1]).replace(decimal, "."))
    return number if isfinite(number) else None


def found(counts: Mapping[str, int], decimal: str | None = None) -> Style:
    """The style in which the most cells read. `counts`: how often each text comes, missing ones left out."""
    cores: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, count in counts.items():
        if (parts := _parts(text)) is not None:
            cores[parts[0]][parts[1]] += count
    if not cores:
        return Style(decimal or ".", "", "", 0)
    affix = max(sorted(cores), key=lambda each: cores[each].total())
    numbers = cores[affix]
    marks = {mark for mark in THOUSANDS if mark and any(mark in core for core in numbers)}
    styles = [
        Style(point, thousands, affix, _reads(numbers, point, thousands))
        for point in ((decimal,) if decimal else (".", ","))
        for thousands in THOUSANDS
        if thousands != point and (not thousands or thousands in marks)
    ]
    best = max(styles, key=lambda style: style.cells)  # the first of equals: points before commas, none before some
    doubtful = best.thousands == "," and decimal is None and _reads(numbers, ",", "") == best.cells
    return Style(best.decimal, best.thousands, affix, best.cells, doubtful, _told_by(numbers, best, decimal))


def _told_by(numbers: Mapping[str, int], best: Style, decimal: str | None) -> str:
    """The cell that tells a decimal comma, if without it and its like the commas would be separators of thousands."""
    if decimal is not None or (best.decimal, best.thousands) != (",", ""):
        return ""
    grouped = _pattern(".", ",")
    telling = [core for core in numbers if "," in core and not grouped.fullmatch(core)]
    with_commas = sum(count for core, count in numbers.items() if "," in core)
    few = sum(numbers[core] for core in telling) <= _FEW * with_commas
    return min(telling) if telling and few else ""


def _reads(numbers: Mapping[str, int], decimal: str, thousands: str) -> int:
    pattern = _pattern(decimal, thousands)
    return sum(count for core, count in numbers.items() if pattern.fullmatch(core))
