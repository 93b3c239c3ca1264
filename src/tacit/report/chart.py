"""Small charts as SVG.

A `Chart` is one or more `Panel`s over the same x axis, each with its own y axis and `Series`; or it is `bars` with a
name each, or a `tree` of nodes. Colours are names, which `styles/chart.css` gives a light and a dark value; a point
that has no number is a gap.

    inline(chart)       for a page that has the style already, and says title and caption in its own words
    standalone(chart)   a file of its own
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from textwrap import wrap
from typing import Literal

from tacit.report.bars import Bar, drawn_bars
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import short
from tacit.report.ticks import Axis, linear, logarithmic
from tacit.report.tree_drawing import Node, drawn_tree

Colour = Literal["blue", "red", "teal", "amber", "violet", "green", "grey"]
COLOURS: tuple[Colour, ...] = ("blue", "teal", "amber", "violet", "green", "grey")
Point = tuple[float, float | None]

WIDTH = 480.0
_LETTER = 6.4  # pixels; the widest of usual text at this size
_SMALL_LETTER = 5.4
_LINE = 18.0
_SHOWN_DOTS = 40  # more would hide the line
_SHOWN_DOTS_OF_SEVERAL = 8
_MOST_TIPS = 250  # of a line; a page of long runs would grow by megabytes
_BEYOND = 1e290  # sums and differences of such numbers overflow


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[Point, ...]
    colour: Colour = "blue"
    kind: Literal["line", "step", "dots", "bar"] = "line"  # bars of one panel are stacked
    dashed: bool = False
    tips: tuple[str, ...] = ()  # one for each point; "name, x: y" by default
    compared: bool = False  # a line to compare others with: no dots


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line where something happened."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str  # of the y axis, with the unit
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    level: tuple[float, str] | None = None  # a horizontal line and what it means
    log: bool = False
    from_zero: bool = False
    whole: bool = False  # values are counts: no ticks between whole numbers


@dataclass(frozen=True, slots=True)
class Chart:
    name: str  # of its file
    title: str
    caption: str
    x_title: str
    panels: tuple[Panel, ...]
    whole_x: bool = True
    tall: bool = False  # one panel as high as two
    log_x: bool = False
    bars: tuple[Bar, ...] = ()  # instead of panels
    tree: tuple[Node, ...] = ()  # instead of panels


def inline(chart: Chart) -> Markup:
    """The chart for a page that has the style of charts."""
    height, drawn = _drawn(chart, top=4.0)
    return _svg(chart, height, drawn)


def standalone(chart: Chart) -> str:
    """The chart as a file, with its style and its title."""
    style = files("tacit.report").joinpath("styles", "chart.css").read_text(encoding="utf-8")
    height, drawn = _drawn(chart, top=34.0)
    caption = []
    for line in wrap(chart.caption, int((WIDTH - 28) / _SMALL_LETTER)):
        caption.append(element("text", line, class_="caption", x=14.0, y=height + 14))
        height += 15
    height += 14 if caption else 0
    paper = element("rect", class_="paper", width=WIDTH, height=height)
    title = element("text", chart.title, class_="heading", x=14.0, y=22.0)
    whole = join(element("style", Markup(style)), paper, title, drawn, *caption)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _svg(chart, height, whole) + "\n"


def _svg(chart: Chart, height: float, drawn: Markup) -> Markup:
    return element(
        "svg",
        element("desc", chart.caption),
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        class_="chart",
        role="img",
        aria_label=f"{chart.title}. {chart.caption}",
    )


def number(value: float | None) -> float | None:
    """The value, or None where it is no number that a chart can show."""
    return None if value is None or not math.isfinite(value) or abs(value) > _BEYOND else float(value)


# --- layout


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a panel's values lie, in pixels."""

    left: float
    right: float
    top: float
    bottom: float
    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.across(x), self.bottom - self.y.part(y) * (self.bottom - self.top)

    def across(self, x: float) -> float:
        return self.left + self.x.part(x) * (self.right - self.left)


def _drawn(chart: Chart, top: float) -> tuple[float, Markup]:
    """The height of the chart, and what is in it."""
    if chart.bars:
        return drawn_bars(chart.bars, chart.x_title, WIDTH, top)
    if chart.tree:
        return drawn_tree(chart.tree, WIDTH, top)
    seen = [point for panel in chart.panels for series in panel.series for point in _shown(series, panel)]
    if not seen:
        words = element("text", "Nothing to show.", class_="empty", x=WIDTH / 2, y=top + 50, text_anchor="middle")
        return top + 90, words
    axes = [_y_axis(panel) for panel in chart.panels]
    left = 18 + _LETTER * max(len(label) for axis in axes for label in axis.labels)
    x_axis = _x_axis(chart, [x for x, _ in seen])
    legend, top = _legend(chart, top)
    height = 130.0 if len(chart.panels) > 1 else 298.0 if chart.tall else 190.0
    found = [legend]
    for panel, axis in zip(chart.panels, axes, strict=True):
        box = _Box(left, WIDTH - 16, top + 24, top + 24 + height, x_axis, axis)
        found += [element("text", panel.title, class_="axis-title", x=8.0, y=top + 12), _panel(panel, box)]
        top = box.bottom + 14
    for tick, label in zip(x_axis.ticks, x_axis.labels, strict=True):
        found.append(element("text", label, class_="tick", x=box.across(tick), y=box.bottom + 17, text_anchor="middle"))
    middle = (box.left + box.right) / 2
    found.append(element("text", chart.x_title, class_="axis-title", x=middle, y=box.bottom + 36, text_anchor="middle"))
    return box.bottom + 46, join(*found)


def _x_axis(chart: Chart, values: list[float]) -> Axis:
    low, high = min(values), max(values)
    if chart.log_x and low > 0:
        return logarithmic(low, high)
    around = 0.5 if any(series.kind in ("bar", "step") for panel in chart.panels for series in panel.series) else 0.0
    if not around:
        around = 0.02 * (high - low)
    ticks = linear(low, high, count=6, whole=chart.whole_x, rounded=False)
    if low == high:
        return Axis(low - 1, high + 1, (low,), (short(low),))
    return Axis(low - around, high + around, ticks.ticks, ticks.labels)


def _y_axis(panel: Panel) -> Axis:
    values = [y for series in panel.series if series.kind != "bar" for _, y in _shown(series, panel)]
    if any(series.kind == "bar" for series in panel.series):
        values += [0.0, *_stack(panel).values()]
    if _has_level(panel) and panel.level is not None:
        values.append(panel.level[0])
    if panel.from_zero and not _log(panel):
        values.append(0.0)
    if not values:
        return Axis(0.0, 1.0, (), ("",))
    if _log(panel):
        return logarithmic(min(values), max(values))
    return linear(min(values), max(values), whole=panel.whole)


def _shown(series: Series, panel: Panel) -> list[tuple[float, float]]:
    """The points that have a place."""
    return [(x, y) for _, x, y in _placed(series, panel) if y is not None]


def _placed(series: Series, panel: Panel) -> Iterator[tuple[int, float, float | None]]:
    """Each point with its position in the series; None for its value where it is a gap."""
    for index, (x, y) in enumerate(series.points):
        if number(x) is None:
            continue
        value = number(y)
        yield index, float(x), None if value is not None and _log(panel) and value < 1 / _BEYOND else value


def _log(panel: Panel) -> bool:
    """Bars begin at 0, which a logarithmic axis has not."""
    return panel.log and all(series.kind != "bar" for series in panel.series)


def _has_level(panel: Panel) -> bool:
    return panel.level is not None and number(panel.level[0]) is not None and (not _log(panel) or panel.level[0] > 0)


def _stack(panel: Panel) -> dict[float, float]:
    """How high the bars at each x are together."""
    heights: dict[float, float] = {}
    for series in panel.series:
        for x, y in _shown(series, panel) if series.kind == "bar" else ():
            heights[x] = heights.get(x, 0.0) + max(0.0, y)
    return heights


def _legend(chart: Chart, top: float) -> tuple[Markup, float]:
    """One entry for each name, in rows; none where there is but one."""
    named = {(series.name, series.colour, series.dashed, series.kind) for p in chart.panels for series in p.series}
    first = {
        entry[0]: entry for p in chart.panels for s in p.series for entry in [(s.name, s.colour, s.dashed, s.kind)]
    }
    if len({name for name, *_ in named}) < 2:
        return Markup(), top
    found, left = [], 8.0
    for name, colour, dashed, kind in first.values():
        shown = name if len(name) <= 48 else f"{name[:47]}…"
        wide = 26 + _LETTER * len(shown) + 20
        if left > 8 and left + wide > WIDTH:
            left, top = 8.0, top + _LINE
        if kind in ("bar", "dots"):
            sign = element("rect", class_=f"fill {colour}", x=left + 4, y=top + 3, width=11.0, height=11.0, rx=2.0)
        else:
            style = f"line {colour}" + (" dashed" if dashed else "")
            sign = element("path", class_=style, d=f"M{left:g} {top + 9:g}h20")
        found.append(join(sign, element("text", shown, class_="legend", x=left + 26, y=top + 13)))
        left += wide
    return join(*found), top + _LINE + 6


# --- what is in a panel


def _panel(panel: Panel, box: _Box) -> Markup:
    found = [_grid(box)]
    for mark in panel.marks:
        if number(mark.x) is not None and box.x.low <= mark.x <= box.x.high:
            found.append(_mark(mark, box))
    if _has_level(panel) and panel.level is not None:
        found.append(_level(panel.level, box))
    base: dict[float, float] = {}
    for series in panel.series:
        match series.kind:
            case "bar":
                found.append(_bars(series, panel, box, base))
            case "dots":
                found.append(_dots(series, panel, box))
            case "line" | "step":
                found += [_line(series, panel, box), _dots(series, panel, box)]
    return join(*found)


def _grid(box: _Box) -> Markup:
    found = []
    for tick, label in zip(box.y.ticks, box.y.labels, strict=False):
        y = box.bottom - box.y.part(tick) * (box.bottom - box.top)
        found.append(element("path", class_="grid", d=f"M{box.left:g} {y:.1f}H{box.right:g}"))
        found.append(element("text", label, class_="tick", x=box.left - 7, y=y + 4, text_anchor="end"))
    found.append(element("path", class_="axis", d=f"M{box.left:g} {box.bottom:g}H{box.right:g}"))
    for tick in box.x.ticks:
        found.append(element("path", class_="axis", d=f"M{box.across(tick):.1f} {box.bottom:g}v4"))
    return join(*found)


def _mark(mark: Mark, box: _Box) -> Markup:
    x = box.across(mark.x)
    line = element("path", class_="mark", d=f"M{x:.1f} {box.top:g}V{box.bottom:g}")
    cross = element("path", class_="cross", d=f"M{x - 4:.1f} {box.bottom - 12:g}l8 8m0 -8l-8 8")
    hit = element("rect", class_="hit", x=x - 6, y=box.top, width=12.0, height=box.bottom - box.top)
    return element("g", element("title", mark.text), line, cross, hit)


def _level(level: tuple[float, str], box: _Box) -> Markup:
    value, words = level
    _, y = box.at(box.x.low, value)
    above = y - 6 if y - box.top > 20 else y + 15
    return join(
        element("path", class_="level", d=f"M{box.left:g} {y:.1f}H{box.right:g}"),
        element("text", words, class_="legend", x=box.left + 6, y=above),
    )


def _line(series: Series, panel: Panel, box: _Box) -> Markup:
    """The line through the points, in pieces where there are gaps."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for _, x, y in _placed(series, panel):
        if y is None:
            pieces.append([])
        elif series.kind == "step":
            pieces[-1] += [box.at(x - 0.5, y), box.at(x + 0.5, y)]
        else:
            pieces[-1].append(box.at(x, y))
    path = " ".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in piece) for piece in pieces if len(piece) > 1)
    return element("path", class_=f"line {series.colour}" + (" dashed" if series.dashed else ""), d=path or None)


def _dots(series: Series, panel: Panel, box: _Box) -> Markup:
    """A tooltip at each point, and a dot where there is room for it or no line to see."""
    placed = list(_placed(series, panel))
    points = [(index, x, y) for index, x, y in placed if y is not None]
    scatter = series.kind == "dots"
    if len(points) > _MOST_TIPS and not scatter:
        return Markup()
    if series.compared:
        return Markup()
    # Dots of several lines hide each other's dashes.
    lines = sum(other.kind == "line" and not other.compared for other in panel.series)
    shown = scatter or (
        series.kind == "line" and len(points) <= (_SHOWN_DOTS if lines == 1 else _SHOWN_DOTS_OF_SEVERAL)
    )
    alone = _alone(placed)
    found = []
    for index, x, y in points:
        across, down = box.at(x, y)
        tip = series.tips[index] if index < len(series.tips) else f"{series.name}, {short(x)}: {short(y)}"
        age = 0.35 + 0.65 * (index + 1) / len(series.points) if scatter else None  # later points are stronger
        dot = element(
            "circle",
            class_=f"dot {series.colour}" if shown or index in alone else "hidden-dot",
            cx=across,
            cy=down,
            r=4.0 if scatter else 2.6,
            fill_opacity=age,
        )
        hit = element("circle", class_="hit", cx=across, cy=down, r=8.0)
        found.append(element("g", element("title", tip), dot, hit, class_="point"))
    return join(*found)


def _alone(placed: list[tuple[int, float, float | None]]) -> set[int]:
    """Points between two gaps: no line would show them."""
    padded: list[tuple[int, float, float | None]] = [(-1, 0.0, None), *placed, (-1, 0.0, None)]
    found = set()
    for (before, here), (_, after) in pairwise(pairwise(padded)):
        if before[2] is None and after[2] is None and here[2] is not None:
            found.add(here[0])
    return found


def _bars(series: Series, panel: Panel, box: _Box, base: dict[float, float]) -> Markup:
    """Bars that stand on those drawn before, whose heights are in `base`."""
    wide = max(0.5, min(28.0, 0.8 * (box.right - box.left) / (box.x.high - box.x.low)))
    found = []
    for index, x, y in _placed(series, panel):
        if y is None or y <= 0:
            continue
        low = base.get(x, 0.0)
        base[x] = low + y
        across, top = box.at(x, base[x])
        _, bottom = box.at(x, low)
        tip = series.tips[index] if index < len(series.tips) else f"{series.name}, {short(x)}: {short(y)}"
        rect = element(
            "rect", class_=f"fill {series.colour}", x=across - wide / 2, y=top, width=wide, height=bottom - top
        )
        found.append(element("g", element("title", tip), rect))
    return join(*found)
