"""What a file will cost and reveal, before any training: in words, as plain data, and as pictures.

Forecast        what a kind makes of a file: sentences and prices under headings, figures, charts
PartyForecast   the same with what is one party's own, before it joins
words(made), plain(made), draw(made, folder)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from tacit.report.chart import Chart, standalone
from tacit.store.files import replace_file

_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Priced:
    """A price: what is paid for, and rows of a name and what it says."""

    head: str
    rows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a file will cost and show."""

    title: str
    parts: Mapping[str, tuple[str | Priced, ...]]  # sentences and prices under their heading; without any, no heading
    figures: Mapping[str, Any]  # the keys of `tacit plan --json`, after the title
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class PartyForecast:
    """A forecast, and what of it is one party's own: sentences under headings."""

    party: str
    own: Mapping[str, tuple[str, ...]]
    whole: Forecast


def in_sentences(title: str, parts: Mapping[str, tuple[str, ...]], figures: Mapping[str, Any]) -> Forecast:
    """A forecast whose figures are the sentences too."""
    return Forecast(title, parts, {**figures, "sections": dict(parts)})


def words(made: Forecast | PartyForecast) -> str:
    """The forecast as text for a terminal; one party's own part comes first."""
    if isinstance(made, PartyForecast):
        own = [line for heading, said in made.own.items() for line in _part(heading, said)]
        return "\n".join(own) + "\n" + words(made.whole)
    parts = [made.title, "", *(line for heading, said in made.parts.items() for line in _part(heading, said))]
    return "\n".join(parts).rstrip() + "\n"


def plain(made: Forecast | PartyForecast) -> dict[str, Any]:
    """The forecast for `json.dumps`; what is infinite stands as text."""
    if isinstance(made, PartyForecast):
        own = {heading: list(said) for heading, said in made.own.items()}
        return {"party": made.party, "own": own, **plain(made.whole)}
    shown: dict[str, Any] = _finite({"title": made.title, **made.figures})
    return shown


def draw(made: Forecast, folder: Path) -> list[Path]:
    """Write the charts as SVG files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in made.charts:
        paths.append(folder / f"{chart.name}.svg")
        replace_file(paths[-1], standalone(chart).encode())
    return paths


def _part(heading: str, said: Iterable[str | Priced]) -> list[str]:
    lines = [line for each in said for line in (_priced(each) if isinstance(each, Priced) else [_bullet(each)])]
    return [heading, *lines, ""] if lines else []


def _bullet(sentence: str) -> str:
    return fill(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _priced(price: Priced) -> list[str]:
    head = fill(price.head, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    rows = (
        fill(text, _WIDTH, initial_indent=f"    {name:<12}", subsequent_indent=" " * 16) for name, text in price.rows
    )
    return [head, *rows]


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "infinite"
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
