"""Pages of the documentation: links lead somewhere, lines are short, and words are plain. So are those of messages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
INSIDE = sorted((ROOT / "src").rglob("README.md"))  # of secure aggregation and of the templates of `tacit init`
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, *INSIDE]
GENERATED = {"benchmarks.md", "CHANGELOG.md"}  # from docstrings and names of rows; of earlier days
PLAIN = [path for path in PAGES if path.name not in GENERATED and ".zh" not in path.name]
WRITTEN = [path for path in PLAIN if "reference" not in path.parts]  # by hand
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


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page):
    text = "\n".join(line for _, line in prose(page))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_lines_have_at_most_120_characters_outside_tables_and_code(page):
    long = [(number, line) for number, line in prose(page) if len(line) > 120 and not line.startswith(("|", "    "))]
    assert not long


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_has_600_characters(page):
    assert not [
        number for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1) if len(line) >= 600
    ]


@pytest.mark.parametrize("page", PLAIN, ids=name_of)
def test_words_that_newcomers_stumble_over_are_avoided(page):
    assert not [(number, line) for number, line in prose(page) if AVOIDED.search(line)]


def messages(path):
    """The texts in a module that are no docstrings: messages, help, sentences of plans and reports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def test_messages_avoid_these_words_too():
    for path in sorted((ROOT / "src").rglob("*.py")):
        assert not [(name_of(path), line, text) for line, text in messages(path) if AVOIDED.search(text)]


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.yaml")), ids=name_of)
def test_files_that_init_writes_avoid_these_words_too(path):
    assert not AVOIDED.search(path.read_text(encoding="utf-8"))


def test_the_code_of_the_page_on_secure_aggregation_runs():
    """Up to the loop that `examples/secure_sum.py` has: a client's first message is one that the server takes."""
    page = (ROOT / "src" / "tacit" / "secagg" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    before, loop, after = block.partition("# ... give what each returns to the other")
    assert loop
    names: dict[str, Any] = {"model_digest": bytes(32), "now": 0.0, "update": np.linspace(-1, 1, 1000)}
    exec(before, names)  # noqa: S102
    server, (first,) = names["server"], names["first"]
    server.receive(7, first, 0.0)
    assert re.findall(r"(\w+)\.(\w+)\(", after) == [("server", "tick"), ("server", "finish"), ("encoding", "decode")]
    assert callable(server.tick)
    assert callable(server.finish)
    assert callable(names["encoding"].decode)
