"""A figure of a report: a chart, and the fields of events that can be read off it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tacit.report.chart import Chart, number

EPSILONS = frozenset({"epsilon", "evaluation_epsilon", "composed_epsilon"})  # the promise itself, not what it covers


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and which fields of events can be read off it."""

    chart: Chart
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class Report:
    """A page, and the figures on it."""

    page: str
    figures: tuple[Figure, ...]


def bytes_unit(largest: float) -> tuple[str, float]:
    """The unit in which bytes up to `largest` read well."""
    return next(((name, size) for name, size in (("MB", 1e6), ("kB", 1e3)) if largest >= size), ("bytes", 1.0))


def with_points(found: list[Figure]) -> list[Figure]:
    """Those that show anything."""
    return [
        figure
        for figure in found
        if figure.chart.bars
        or figure.chart.tree
        or any(number(y) is not None for panel in figure.chart.panels for s in panel.series for _, y in s.points)
    ]


def slug(name: str) -> str:
    """A name as part of a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "unnamed"
