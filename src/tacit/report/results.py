"""What a training left in addition to its epochs: curves, bars, trees and tables, in the sections of their events.

They derive from this party's records, and no epsilon covers them: a page that is for sharing leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tacit.events import Bars, Counted, Curve, Tabled, Tree
from tacit.report import page
from tacit.report.bars import Bar
from tacit.report.chart import COLOURS, Chart, Panel, Series, number
from tacit.report.epochs_view import Epochs
from tacit.report.figure import Figure, slug, with_points
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import short
from tacit.report.tree_drawing import Node

COMPARED = ("chance", "perfect")  # lines to compare with: grey and dashed
_LONG_TABLE = 12  # rows; longer ones are folded
_UNCOVERED = "Of private records, for this party's eyes: not covered by ε."


@dataclass(frozen=True, slots=True)
class Results:
    """One section of them."""

    title: str
    figures: list[Figure]
    tables: list[Tabled]


def results(record: Epochs) -> list[Results]:
    """The sections in the order in which they were first named; figures without one are not among them."""
    told: list[Curve | Bars | Tree | Tabled] = [*record.curves, *record.bars, *record.trees, *record.tables]
    found = [_section(record, title) for title in dict.fromkeys(each.section for each in told) if title]
    return [*found, Results("Results", [], tables)] if (tables := _section(record, "").tables) else found


def unnamed(record: Epochs) -> list[Figure]:
    """The figures that belong to no section of their own."""
    return _section(record, "").figures


def shown(found: Results, cover: page.Cover) -> Markup:
    """A section as it stands on the page."""
    tables = [_table(each) for each in found.tables]
    return join(page.paragraph(_UNCOVERED), page.figures(found.figures, cover), *tables)


def _section(record: Epochs, title: str) -> Results:
    curves = [_curve(each, record.counted) for each in record.curves if each.section == title]
    bars = [_bars(each) for each in record.bars if each.section == title]
    owners = list(dict.fromkeys(owner for each in record.trees for owner in each.owners if owner))
    trees = [_tree(each, owners) for each in record.trees if each.section == title]
    return Results(
        title, with_points([*bars, *curves, *trees]), [each for each in record.tables if each.section == title]
    )


def _curve(curve: Curve, counted: Counted) -> Figure:
    others = [name for name in curve.lines if name not in COMPARED]
    colours = dict(zip(others, (COLOURS[place % len(COLOURS)] for place in range(len(others))), strict=True))
    series = [
        Series(name, _points(points), "grey", dashed=True, compared=True)
        if name in COMPARED
        else Series(name, _points(points), colours[name])
        for name, points in curve.lines.items()
    ]
    if curve.points:
        series.append(Series(curve.name, _points(curve.points), "violet"))  # above those that it is compared with
    panel = Panel(curve.y, tuple(series), from_zero=True)
    caption = curve.caption or f"{curve.y} against {curve.x}, after the last {counted.one}."
    chart = Chart(f"curve-{slug(curve.name)}", curve.name, caption, curve.x, (panel,), whole_x=False)
    return Figure(chart, frozenset({"curve"}))


def _points(points: list[list[float]]) -> tuple[tuple[float, float | None], ...]:
    return tuple((point[0], point[1]) for point in points if len(point) == 2)


def _bars(event: Bars) -> Figure:
    bars = tuple(Bar(name, float(value)) for name, value in event.bars.items() if number(value) is not None)
    chart = Chart(f"bars-{slug(event.name)}", event.name, event.caption, event.unit, (), bars=bars)
    return Figure(chart, frozenset({"bars"}))


def _tree(event: Tree, owners: list[str]) -> Figure:
    nodes = tuple(
        Node(words, owner, tuple(below), owners.index(owner) if owner else 0)
        for words, owner, below in zip(event.words, event.owners, event.children, strict=False)
    )
    chart = Chart(f"tree-{slug(event.name)}", event.name, event.caption, "", (), tree=nodes)
    return Figure(chart, frozenset({"tree"}))


def _table(event: Tabled) -> Markup:
    wide = len(event.header)
    rows = [[_cell(cell) for cell in row[:wide]] + [""] * (wide - len(row)) for row in event.rows]
    words = [place for place in range(wide) if any(map(str.isalpha, "".join(_texts(event, place))))]
    drawn = page.table(event.header, rows, numbers=True, label=event.name, words=words)
    if len(rows) > _LONG_TABLE:
        return page.folded(f"{event.name} ({len(rows)} rows)", page.paragraph(event.caption), drawn)
    return join(element("h3", event.name), page.paragraph(event.caption), drawn)


def _texts(event: Tabled, place: int) -> Iterator[str]:
    """The cells of a column that were no numbers."""
    for row in event.rows:
        if place < len(row) and isinstance(cell := row[place], str):
            yield cell


def _cell(cell: str | float | None) -> str:
    """A cell in words. What was no number in the run was stored as nothing."""
    if isinstance(cell, str):
        return cell
    return "" if cell is None else short(cell)
