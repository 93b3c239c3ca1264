"""Named numbers as horizontal bars to either side of 0: positive ones in one colour, negative ones in another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.report.markup import Markup, element, join
from tacit.report.numbers import short
from tacit.report.ticks import linear

ABOVE, BELOW = "blue", "amber"  # as in styles/chart.css
_ROW, _THICK = 19.0, 12.0  # pixels
_LETTER = 6.4
_LONGEST = 30  # letters of a name, its end among them: the category or bin; the whole of it is in the tooltip
_NUMBER = 58.0  # pixels of the column with the numbers


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float  # finite


def drawn_bars(bars: tuple[Bar, ...], unit: str, width: float, top: float) -> tuple[float, Markup]:
    """The height of the bars, and what is in it: below `top`, first bar first, with a scale at the bottom."""
    values = [bar.value for bar in bars]
    axis = linear(min(0.0, *values), max(0.0, *values), count=4)
    left = 14 + _LETTER * min(_LONGEST, max(len(bar.name) for bar in bars))
    right = width - _NUMBER - 10
    bottom = top + _ROW * len(bars) + 6

    def across(value: float) -> float:
        return left + axis.part(value) * (right - left)

    found = []
    for tick, label in zip(axis.ticks, axis.labels, strict=True):
        found.append(element("path", class_="grid", d=f"M{across(tick):.1f} {top:g}V{bottom:g}"))
        found.append(element("text", label, class_="tick", x=across(tick), y=bottom + 17, text_anchor="middle"))
    for row, bar in enumerate(bars):
        middle = top + 3 + _ROW * row + _ROW / 2
        here, zero = across(bar.value), across(0.0)
        words = short(bar.value, 3)
        found.append(
            element(
                "g",
                element("title", f"{bar.name}: {short(bar.value)}"),
                element("text", _cut(bar.name), class_="legend", x=left - 8, y=middle + 4, text_anchor="end"),
                element(
                    "rect",
                    class_=f"fill {ABOVE if bar.value >= 0 else BELOW}",
                    x=min(here, zero),
                    y=middle - _THICK / 2,
                    width=max(0.5, math.fabs(here - zero)),
                    height=_THICK,
                    rx=1.5,
                ),
                element("text", words, class_="tick", x=width - 8, y=middle + 4, text_anchor="end"),
            )
        )
    found.append(element("path", class_="axis", d=f"M{across(0.0):.1f} {top:g}V{bottom:g}"))
    at = (left + right) / 2
    found.append(element("text", unit, class_="axis-title", x=at, y=bottom + 36, text_anchor="middle"))
    return bottom + 46, join(*found)


def _cut(name: str) -> str:
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[: half - 1]}…{name[-half:]}"
