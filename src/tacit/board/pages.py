"""The pages of the board: the frame that `assets/board.js` fills, and sentences where there is nothing to fill."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tacit.report.markup import Markup, element, join

# Scripts and styles of the board itself only; the script can make no markup of text (trusted types).
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# A page that lies in a run's folder may come from another party: no scripts, no requests, an origin of its own.
FOREIGN_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@cache
def style() -> bytes:
    """The look of the reports, and what the board adds."""
    of_reports = files("tacit.report").joinpath("styles")
    found = [of_reports.joinpath(name) for name in ("chart.css", "page.css")]
    found.append(files("tacit.board").joinpath("assets", "board.css"))
    return "".join(each.read_text(encoding="utf-8") for each in found).encode()


@cache
def script() -> bytes:
    return files("tacit.board").joinpath("assets", "board.js").read_bytes()


def list_page(root: str, base: str) -> str:
    """The runs of a folder. `base`: the address below which the board lies."""
    return _page("list", f"{root} · Tacit board", base, element("p", "Tacit board", class_="kind"), element("h1", root))


def run_page(run: str, folder: str, base: str) -> str:
    """One run. `run` is its id."""
    back = element("p", element("a", "All runs", href=base), class_="back")
    kind = element("p", "Run", class_="kind", id="kind")
    return _page("run", f"{folder} · Tacit board", base, back, kind, element("h1", folder), run=run)


def sentence_page(title: str, words: str, base: str) -> str:
    """What went wrong, and the way back."""
    link = element("p", element("a", "All runs", href=base), class_="back")
    said = element("div", element("p", words), class_="notice fair", role="alert")
    return _document(title, base, False, element("header", link, element("h1", title)), said)


def _page(view: str, title: str, base: str, *heading: Markup, run: str | None = None) -> str:
    without = element(
        "noscript", element("p", "The board draws with a script: allow it for this page.", class_="notice fair")
    )
    content = element("div", id="content", data_view=view, data_run=run)
    return _document(title, base, True, element("header", *heading), without, content)


def _document(title: str, base: str, with_script: bool, *body: Markup) -> str:
    head = join(
        Markup('<meta charset="utf-8">\n'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Markup('<meta name="color-scheme" content="light dark">\n'),
        Markup('<link rel="icon" href="data:,">\n'),
        element("title", title),
        Markup(f'<link rel="stylesheet" href="{base}board.css">\n'),
        Markup(f'<script src="{base}board.js" defer></script>\n') if with_script else None,
    )
    shown = element("body", element("main", *body))
    return f'<!doctype html>\n<html lang="en"><head>\n{head}</head>\n{shown}</html>\n'
