"""Pages of the documentation: links lead somewhere, lines are short, and words are plain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
GENERATED = {"benchmarks.md"}  # from docstrings and names of rows
PLAIN = [path for path in PAGES if path.name not in GENERATED and ".zh." not in path.name]
AVOIDED = re.compile(r"\b(whoever|somebody|anybody|go(es)? on|besides?|laid open)\b", re.IGNORECASE)


def prose(path):
    """The numbered lines of a page outside its code blocks."""
    inside, found = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            found.append((number, line))
    return found


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them, and those that it sets itself, as Chinese pages do."""
    headings = [line.lstrip("# ").strip() for _, line in prose(path) if line.startswith("#")]
    named = re.findall(r'<a id="([^"]+)"></a>', "\n".join(line for _, line in prose(path)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(named)


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.name
)
def test_every_link_leads_to_a_file_and_a_heading(page):
    text = "\n".join(line for _, line in prose(page))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PLAIN, ids=lambda path: path.name)
def test_lines_have_at_most_120_characters_outside_tables_and_code(page):
    long = [(number, line) for number, line in prose(page) if len(line) > 120 and not line.startswith(("|", "    "))]
    assert not long


@pytest.mark.parametrize("page", PLAIN, ids=lambda path: path.name)
def test_words_that_newcomers_stumble_over_are_avoided(page):
    assert not [(number, line) for number, line in prose(page) if AVOIDED.search(line)]
