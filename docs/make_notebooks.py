"""Make a Jupyter notebook of each page in docs/tutorials: python docs/make_notebooks.py

A page is Markdown, and its fenced blocks become cells:

| block | cell of the notebook |
| --- | --- |
| `python` | the same code |
| `yaml` whose first line is `# NAME.yaml` | `%%writefile NAME.yaml` with the other lines |
| `console` | `%%bash -e` with the lines that begin with `$ `; the others are the output that the page shows |
| `text` | none: it is the output that the page shows for the block before it |

A notebook stores no output, and the same page always gives the same bytes. A test compares the committed notebooks with
what this makes, and another one runs their cells.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$\n?", flags=re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# (\S+\.yaml)\n")
NOTES = {  # by language: NAME.md is English, NAME.zh.md is Chinese
    "": """\
> This notebook is made from the page [{page}]({page}), which also shows the output of each cell. Run the cells in their
> order. They work in a temporary folder, with the `tacit` of this notebook's Python.""",
    "zh": """\
> 本笔记本由页面 [{page}]({page}) 生成，每个单元的输出见该页面。请按顺序运行各单元：它们在一个临时文件夹中运行，
> 使用本笔记本 Python 环境中的 `tacit`。""",
}
FOLDER = """\
import os
import sys
import tempfile

os.chdir(tempfile.mkdtemp(prefix="tacit-"))
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]"""


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook, and the output that the page shows for it."""

    kind: str  # "code" or "markdown"
    source: str
    shown: str = ""


def cells(page: str, name: str) -> list[Cell]:
    """The cells of a page; `name` is that of its file."""
    found: list[Cell] = []
    end = 0
    for block in FENCED.finditer(page):
        found += _prose(page[end : block.start()])
        end = block.end()
        language, text = block.groups()
        if language == "text":
            if not found or found[-1].kind != "code":
                raise ValueError(f"{name}: a block of output must follow the code that prints it: {text!r}")
            found[-1] = Cell("code", found[-1].source, text)
        else:
            found.append(_code(language, text, name))
    found += _prose(page[end:])
    if len(found) < 2 or found[0].kind != "markdown":
        raise ValueError(f"{name}: a tutorial begins with a heading and has a block of code")
    note = NOTES[Path(name).stem.partition(".")[2]]
    return [found[0], Cell("markdown", note.format(page=name)), Cell("code", FOLDER), *found[1:]]


def _prose(text: str) -> list[Cell]:
    return [Cell("markdown", text.strip())] if text.strip() else []


def _code(language: str, text: str, name: str) -> Cell:
    """The cell of a block that runs."""
    if language == "python":
        return Cell("code", text.rstrip())
    if language == "yaml" and (named := NAMED.match(text)):
        return Cell("code", f"%%writefile {named[1]}\n{text[named.end() :].rstrip()}")
    if language == "console" and text.startswith("$ "):
        lines = text.splitlines()
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        shown = "\n".join(line for line in lines if not line.startswith("$ "))
        return Cell("code", "\n".join(["%%bash -e", *commands]), shown)
    raise ValueError(
        f"{name}: make a block python, yaml that begins with '# NAME.yaml', console that begins with '$ ', or text; "
        f"this one is {language or 'without a language'}: {text[:40]!r}"
    )


def notebook(page: str, name: str) -> str:
    """The notebook of a page, as the text of its file."""
    made = [_as_json(cell, f"{Path(name).stem}-{place}") for place, cell in enumerate(cells(page, name))]
    content = {
        "cells": made,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _as_json(cell: Cell, identity: str) -> dict[str, object]:
    made: dict[str, object] = {"cell_type": cell.kind, "id": identity.replace(".", "-"), "metadata": {}}
    if cell.kind == "code":
        made |= {"execution_count": None, "outputs": []}
    return made | {"source": cell.source.splitlines(keepends=True)}


def notebooks(folder: Path = TUTORIALS) -> dict[Path, str]:
    """The notebook of each page of a folder, by the file that it belongs into."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    return {path.with_suffix(".ipynb"): notebook(page, path.name) for path, page in pages.items() if "```" in page}


def main() -> None:
    for path, text in notebooks().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(TUTORIALS.parents[1]))


if __name__ == "__main__":
    main()
