"""A Chinese page keeps in step with the English one: headings, tables, code, names and figures."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from pages.links import DOCS, ROOT

CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PAIRS = {path: path.with_name(path.name.replace(".zh.md", ".md")) for path in sorted(DOCS.rglob("*.zh.md"))}
if (ROOT / "README.zh-CN.md").exists():
    PAIRS[ROOT / "README.zh-CN.md"] = ROOT / "README.md"


def shape(text: str) -> dict[str, object]:
    """What must be the same in both languages."""
    prose = CODE.sub("", text)
    spans = re.findall(r"`[^`]+`", prose)
    words = re.sub(r"`[^`]+`|\]\([^)]*\)", " ", prose)
    return {
        "headings": [line.split(" ")[0] for line in prose.splitlines() if re.match(r"#+ ", line)],
        "code blocks": CODE.findall(text),
        "rows of tables": [line.count("|") for line in prose.splitlines() if line.startswith("|")],
        "names in code": Counter(spans),
        "figures": Counter(each.strip(".,") for each in re.findall(r"\d[\d.,]*", words)),
        "links": Counter(
            link.partition("#")[0].replace(".zh.md", ".md") for link in re.findall(r"\]\(([^)\s]+)\)", prose)
        ),
    }


@pytest.mark.parametrize("chinese", PAIRS, ids=lambda path: path.name)
def test_a_translation_has_what_the_original_has(chinese):
    english = PAIRS[chinese]
    assert english.exists(), f"{chinese.name} translates no page"
    ours, theirs = shape(chinese.read_text(encoding="utf-8")), shape(english.read_text(encoding="utf-8"))
    for part, expected in theirs.items():
        assert ours[part] == expected, part


def test_a_difference_is_found():
    text = "# A\n\n`b` is 5.\n\n```\nc\n```\n"
    for change in (("# A", "## A"), ("`b`", "`d`"), ("5", "6"), ("\nc\n", "\nd\n")):
        assert shape(text) != shape(text.replace(*change))
