"""The blocks of which a report is built. No script, no network: one file that can be mailed and printed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from tacit.report.chart import inline
from tacit.report.figure import EPSILONS, Figure
from tacit.report.markup import Markup, element, join, text

Tone = Literal["good", "fair", "bad", "plain"]
_LONG_CELL = 18  # letters, which must not stand in a narrow column
_BRIEF_CELL = 10  # letters, which must not be parted
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, *body: Markup | None, styles: Sequence[str] = (), images: bool = False) -> str:
    """A whole page. It asks the browser to load nothing and to run nothing.

    `styles` are added to those of charts and pages; `images`: those that are part of the page itself are shown.
    """
    folder = files("tacit.report").joinpath("styles")
    names = ("chart.css", "page.css", *styles)
    style = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    policy = f"{_POLICY}; img-src data:" if images else _POLICY
    head = join(
        Markup('<meta charset="utf-8">\n'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{text(policy)}">\n'),
        element("title", title),
        element("style", Markup(style)),
    )
    shown = element("body", element("main", *body))
    return f'<!doctype html>\n<html lang="en"><head>\n{head}</head>\n{shown}</html>\n'


def header(kind: str, title: str, *lines: Markup) -> Markup:
    return element("header", element("p", kind, class_="kind"), element("h1", title), *lines)


def sections(parts: Iterable[tuple[str, str, Markup | None]]) -> list[Markup]:
    """Links to the parts that there are, (anchor, title, body), and the parts."""
    kept = [(anchor, title, body) for anchor, title, body in parts if body is not None]
    links = [element("li", element("a", title, href=f"#{anchor}")) for anchor, title, _ in kept]
    contents = element("nav", element("ul", *links), aria_label="Contents")
    return [contents, *(section(anchor, title, body) for anchor, title, body in kept)]


def section(anchor: str, title: str, *children: Markup | None) -> Markup:
    return element("section", element("h2", title, id=anchor), *children, aria_labelledby=anchor)


def cards(*found: Markup | None) -> Markup:
    shown = [each for each in found if each]
    return element("div", *shown, class_="cards" if len(shown) > 5 else "cards few") if shown else Markup()


def card(label: str, value: str, note: str = "", tone: Tone = "plain") -> Markup:
    return element(
        "div",
        element("p", label, class_="label"),
        element("p", value, class_="value" if len(value) <= 7 else "value long"),
        element("p", note, class_="note") if note else None,
        class_=f"card {tone}",
    )


def notice(tone: Tone, title: str, *sentences: str) -> Markup:
    """Something that must not be passed over."""
    words = [element("p", sentence) for sentence in sentences]
    return element("div", element("p", element("strong", title)), *words, class_=f"notice {tone}", role="note")


def paragraph(*children: str) -> Markup:
    return element("p", *children)


def bullets(sentences: Iterable[str]) -> Markup:
    return element("ul", *(element("li", sentence) for sentence in sentences), class_="text")


@dataclass(frozen=True, slots=True)
class Cover:
    """The fields of events that an epsilon covers, and those among them whose epsilon hides nothing."""

    fields: frozenset[str]
    hollow: frozenset[str]


def figures(found: Iterable[Figure], cover: Cover) -> Markup:
    return element("div", *(_figure(each, cover) for each in found), class_="figures")


def _chip(fields: frozenset[str], cover: Cover) -> Markup | None:
    """Whether an epsilon covers a figure; nothing for the epsilon itself."""
    if fields <= EPSILONS:
        return None
    if not fields <= cover.fields:
        return element("span", "not covered by ε", class_="chip open")
    if fields & cover.hollow:
        return element("span", "covered, but ε hides nothing", class_="chip hollow")
    return element("span", "covered by ε", class_="chip covered")


def _figure(found: Figure, cover: Cover) -> Markup:
    mark = _chip(found.fields, cover)
    return element(
        "figure",
        element("div", element("h3", found.chart.title), mark, class_="figure-head"),
        inline(found.chart),
        element("figcaption", found.chart.caption),
    )


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: bool = False,
    label: str = "",
    words: Collection[int] = (),
    stacked: bool | None = None,
) -> Markup:
    """A table in a box of its own.

    `numbers`: all columns but the first, and but those in `words`. `stacked`: where the page is as narrow as a phone,
    each row is a card with a line for each column; otherwise the box scrolls. By default it is a table of words with
    three columns or more.
    """
    if stacked is None:
        stacked = not numbers and len(head) > 2
    left = ["words" if place in words else None for place in range(len(head))]
    names = (element("th", name, scope="col", class_=style) for name, style in zip(head, left, strict=True))
    lines = []
    for row in rows:
        styles = (" ".join(filter(None, (_width(cell), style))) for cell, style in zip(row, left, strict=True))
        named = zip(row, styles, head, strict=True)
        cells = (
            element("td", cell, class_=style or None, data_label=name if stacked else None)
            for cell, style, name in named
        )
        lines.append(element("tr", *cells))
    columns = element("tr", *names)
    looks = " ".join([*(["numbers"] if numbers else []), *(["stacked"] if stacked else [])])
    body = element("table", element("thead", columns), element("tbody", *lines), class_=looks or None)
    return element("div", body, class_="scroll", tabindex="0", role="region", aria_label=label or head[0])


def _width(cell: str) -> str | None:
    return "wide" if len(cell) > _LONG_CELL else "brief" if len(cell) <= _BRIEF_CELL else None


def folded(title: str, *children: Markup) -> Markup:
    return element("details", element("summary", title), *children)


def code(words: str) -> Markup:
    return element("pre", element("code", words), tabindex="0")
