"""A Chinese page stays in step with its English page: headings, code blocks, figures, names and links of each section.

Numbers that a page writes in words are not compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REQUIRED = [
    ROOT / "README.md",
    DOCS / "tutorial-tables.md",
    *(path for path in sorted((DOCS / "tutorials").glob("*.md")) if ".zh." not in path.name),
]

BLOCK = re.compile(r"^```[^\n]*\n.*?^```$|(?<=\n\n)(?: {4}[^\n]*\n)+", flags=re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"(#+) (.*)")
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURE = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:\s*(thousand|million|billion|万|亿))?")
SCALES = {"": 1, "thousand": 10**3, "万": 10**4, "million": 10**6, "亿": 10**8, "billion": 10**9}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
LATIN = re.compile(r"[A-Za-z]{2}")


def chinese_of(english: Path) -> Path:
    """The file of the translation of a page."""
    return english.with_name("README.zh-CN.md" if english.name == "README.md" else f"{english.stem}.zh.md")


def pairs() -> dict[Path, Path]:
    """Each English page that is translated, and the file of the translation."""
    others = (path.with_name(path.name.replace(".zh.md", ".md")) for path in sorted(DOCS.rglob("*.zh.md")))
    return {page: chinese_of(page) for page in (*REQUIRED, *others) if chinese_of(page).exists()}


@dataclass(frozen=True)
class Section:
    """A heading, and what both languages have under it."""

    level: int
    title: str
    blocks: tuple[str, ...]
    words: str  # without code spans, addresses of links and tags
    names: Counter[str]
    figures: Counter[Decimal]
    links: Counter[str]
    cells: tuple[int, ...]  # in each row of its tables


def sections(page: str) -> list[Section]:
    """The sections of a page, in order. Text before the first heading is a section of level 0."""
    blocks = BLOCK.findall(page)
    lines = BLOCK.sub("\N{OBJECT REPLACEMENT CHARACTER}\n", page).splitlines()
    starts = [place for place, line in enumerate(lines) if HEADING.match(line)]
    found, used = [], 0
    for start, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        text = "\n".join(lines[start:end])
        if text.strip():
            count = text.count("\N{OBJECT REPLACEMENT CHARACTER}")
            found.append(_section(text, blocks[used : used + count]))
            used += count
    return found


def _section(text: str, blocks: Iterable[str]) -> Section:
    heading = HEADING.match(text)
    words = re.sub(r"<[^>]*>", " ", LINK.sub("]", SPAN.sub(" ", text)))
    return Section(
        level=len(heading[1]) if heading else 0,
        title=heading[2] if heading else "before the first heading",
        blocks=tuple(blocks),
        words=words,
        names=Counter(" ".join(name.split()) for name in SPAN.findall(text)),
        figures=Counter(Decimal(number.replace(",", "")) * SCALES[scale] for number, scale in FIGURE.findall(words)),
        links=Counter(_english(link) for link in LINK.findall(SPAN.sub(" ", text))),
        cells=tuple(line.count("|") for line in text.splitlines() if line.startswith("|")),
    )


def _english(link: str) -> str:
    """A link as the English page has it."""
    return re.sub(r"(\.zh(-CN)?|-zh)\.(md|ipynb|svg)", r".\3", link)


def differences(english: str, chinese: str, page: str) -> list[str]:
    """A sentence for each thing in which the translation `page` differs from the English page."""
    ours, theirs = sections(chinese), sections(english)
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False), 1):
        if our.level != their.level:
            return [
                f"{page}: heading {number} is {our.title!r} of level {our.level}, and in English it is {their.title!r} "
                f"of level {their.level}: use the same headings in the same order"
            ]
    if len(ours) != len(theirs):
        longer = "the translation" if len(ours) > len(theirs) else "the English page"
        first = max(ours, theirs, key=len)[min(len(ours), len(theirs))].title
        return [f"{page}: {len(ours)} sections, and {len(theirs)} in English; only {longer} has the section {first!r}"]
    return [
        f"{page}, section {their.title!r} ({our.title}): {problem}"
        for our, their in zip(ours, theirs, strict=True)
        for problem in _problems(our, their)
    ]


def _problems(our: Section, their: Section) -> list[str]:
    found = []
    if len(our.blocks) != len(their.blocks):
        found.append(f"{len(our.blocks)} code blocks, and {len(their.blocks)} in English")
    for number, (mine, yours) in enumerate(zip(our.blocks, their.blocks, strict=False), 1):
        if mine != yours:
            found.append(f"code block {number} differs from the English page: copy it, with its comments and output")
    counts: list[tuple[str, Counter[Any], Counter[Any]]] = [
        ("figures", our.figures, their.figures),
        ("names in code", our.names, their.names),
        ("links", our.links, their.links),
    ]
    for what, ours, theirs in counts:
        missing, extra = (", ".join(sorted(map(str, part.elements()))) for part in (theirs - ours, ours - theirs))
        if missing or extra:
            found.append(f"the {what} differ: {missing or 'none'} only in English, {extra or 'none'} only in Chinese")
    if our.cells != their.cells:
        found.append(f"the tables have {len(our.cells)} rows, and {len(their.cells)} in English, or other columns")
    if LATIN.search(their.words) and not CHINESE.search(our.words):
        found.append("it is not translated")
    return found


@pytest.mark.parametrize("english", REQUIRED, ids=lambda path: path.name)
def test_the_readme_and_every_tutorial_are_translated(english):
    assert chinese_of(english).exists(), f"{english.name} has no translation: write {chinese_of(english).name}"


@pytest.mark.parametrize("english", pairs(), ids=lambda path: path.name)
def test_a_translation_is_in_step_with_its_page(english):
    chinese = chinese_of(english)
    assert english.exists(), f"{chinese.name} is the translation of {english.name}, which does not exist"
    texts = english.read_text(encoding="utf-8"), chinese.read_text(encoding="utf-8")
    found = differences(*texts, chinese.relative_to(ROOT).as_posix())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("chinese", pairs().values(), ids=lambda path: path.name)
def test_a_translation_links_to_chinese_pages_if_there_are_any(chinese):
    for link in LINK.findall(BLOCK.sub("", chinese.read_text(encoding="utf-8"))):
        file = chinese.parent / link.partition("#")[0]
        translated = file.with_name(f"{file.stem}.zh{file.suffix}")
        assert not translated.exists(), f"{chinese.name} links to {link}: link to {translated.name}"


@pytest.mark.parametrize("chinese", pairs().values(), ids=lambda path: path.name)
def test_a_paragraph_is_one_line_and_its_emphasis_ends_before_the_punctuation(chinese):
    """A browser shows a line break between Chinese characters as a space, and GitHub does not end **bold。** there."""
    text = BLOCK.sub("", chinese.read_text(encoding="utf-8"))
    broken = re.findall(r"^.*\S\n *[\u4e00-\u9fff].*$|^.*[\u3000-\uffef]\n *[A-Za-z`\[(].*$", text, re.MULTILINE)
    assert not broken, f"{chinese.name}: write this paragraph in one line: {broken[0]}"
    long = [line for line in text.splitlines() if len(line) > 400 and not line.startswith("|")]
    assert not long, f"{chinese.name}: divide this paragraph of more than 400 characters: {long[0]}"
    unended = re.findall(r"[，。：；？！）”]\*\*[\u4e00-\u9fff].*", text)
    assert not unended, f"{chinese.name}: put the punctuation after the **: {unended[0]}"


ENGLISH = """\
# A title

Take `clip` and 1,500 records: [a page](page.md#more).

    a drawing

## Second

It has 22 million parameters.

```console
$ tacit plan   # 7
```

```text
done
```

| a | b |
| --- | --- |
| c | 92.7% |

### Third

Words.
"""
TRANSLATED = """\
# 标题

取 `clip` 和 1500 条记录：[页面](page.zh.md#more)。

    a drawing

## 第二节

它有 2,200 万个参数。

```console
$ tacit plan   # 7
```

```text
done
```

| 甲 | 乙 |
| --- | --- |
| 丙 | 92.7% |

### 第三节

文字。
"""


def test_a_faithful_translation_has_no_difference():
    assert differences(ENGLISH, TRANSLATED, "page.zh.md") == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("### 第三节", "## 第三节", "page.zh.md: heading 3 is '第三节' of level 2, and in English it is 'Third'"),
        ("### 第三节\n", "", "page.zh.md: 2 sections, and 3 in English; only the English page has the section 'Third'"),
        ("文字。", "文字。\n\n## 第四节", "only the translation has the section '第四节'"),
        ("# 7", "# 8", "page.zh.md, section 'Second' (第二节): code block 1 differs"),
        ("done", "完成", "section 'Second' (第二节): code block 2 differs"),
        ("```text\ndone\n```\n", "", "section 'Second' (第二节): 1 code blocks, and 2 in English"),
        ("    a drawing", "    图", "section 'A title' (标题): code block 1 differs"),
        ("1500", "1600", "section 'A title' (标题): the figures differ: 1500 only in English, 1600 only in Chinese"),
        ("2,200 万", "2,200 亿", "section 'Second' (第二节): the figures differ: 22000000 only in English"),
        ("92.7%", "92%", "section 'Second' (第二节): the figures differ: 92.7 only in English, 92 only in Chinese"),
        ("`clip`", "`batch`", "the names in code differ: clip only in English, batch only in Chinese"),
        ("#more", "#less", "the links differ: page.md#more only in English, page.md#less only in Chinese"),
        ("| 丙 | 92.7% |", "92.7%", "section 'Second' (第二节): the tables have 2 rows, and 3 in English"),
        ("### 第三节\n\n文字。", "### Third\n\nWords.", "section 'Third' (Third): it is not translated"),
    ],
)
def test_a_difference_is_named_with_its_page_and_section(old, new, sentence):
    assert TRANSLATED.count(old) == 1
    found = differences(ENGLISH, TRANSLATED.replace(old, new), "page.zh.md")
    assert len(found) == 1
    assert sentence in found[0]
