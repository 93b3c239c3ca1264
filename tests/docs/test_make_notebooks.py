"""The notebooks of the tutorials are what the script makes of the pages, and the script refuses what it cannot turn."""

from __future__ import annotations

import json
import subprocess
import sys

import nbformat
import pytest

from docs import make_notebooks
from docs.make_notebooks import Cell, cells, notebook, notebooks

PAGE = """\
# A title

Some words.

```yaml
# fleet.yaml
kind: horizontal   # a comment stays
```

```console
$ tacit plan fleet.yaml
what it says
…
$ tacit run fleet.yaml
done
```

More words.

```python
print("ε")
```

```text
ε
```
"""


def test_the_committed_notebooks_are_those_of_the_pages():
    made = notebooks()
    assert {path: path.read_text(encoding="utf-8") for path in made} == made, "run python docs/make_notebooks.py"
    assert sorted(make_notebooks.TUTORIALS.glob("*.ipynb")) == sorted(made)
    assert len(made) >= 7


def test_each_block_becomes_its_cell_and_keeps_what_the_page_shows():
    title, _, folder, *rest = cells(PAGE, "page.md")
    assert title == Cell("markdown", "# A title\n\nSome words.")
    assert "chdir" in folder.source
    assert rest == [
        Cell("code", "%%writefile fleet.yaml\nkind: horizontal   # a comment stays"),
        Cell("code", "%%bash -e\ntacit plan fleet.yaml\ntacit run fleet.yaml", "what it says\n…\ndone"),
        Cell("markdown", "More words."),
        Cell("code", 'print("ε")', "ε\n"),
    ]


def test_a_notebook_is_valid_and_has_no_outputs():
    for text in (notebook(PAGE, "page.md"), *notebooks().values()):
        read = nbformat.reads(text, as_version=4)
        nbformat.validate(read)
        assert len({cell.id for cell in read.cells}) == len(read.cells)
        assert not any(cell.outputs or cell.execution_count for cell in read.cells if cell.cell_type == "code")


def test_the_same_page_gives_the_same_bytes_in_another_process():
    code = "import sys; from docs.make_notebooks import notebook; print(ascii(notebook(sys.stdin.read(), 'page.md')))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=PAGE,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
        cwd=make_notebooks.TUTORIALS.parents[1],
    )
    assert done.stdout.strip() == ascii(notebook(PAGE, "page.md"))
    assert json.loads(notebook(PAGE, "page.md"))["nbformat_minor"] == 5


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("```\n$ tacit run\n```\n", "this one is without a language"),
        ("```yaml\nkind: split\n```\n", "yaml that begins with '# NAME.yaml'"),
        ("```console\ntacit run\n```\n", "console that begins with '$ '"),
        ("```rust\nfn main() {}\n```\n", "this one is rust"),
        ("```text\noutput\n```\n", "must follow the code that prints it"),
    ],
)
def test_a_block_that_has_no_cell_is_refused_with_its_page(block, words):
    with pytest.raises(ValueError, match=r"^page\.md: ") as refused:
        cells(f"# A title\n\n{block}", "page.md")
    assert words in str(refused.value)


def test_a_translation_has_the_same_code_and_a_note_in_its_language():
    english, chinese = cells(PAGE, "page.md"), cells(PAGE, "page.zh.md")
    assert [cell for cell in english if cell.kind == "code"] == [cell for cell in chinese if cell.kind == "code"]
    assert "临时文件夹" in chinese[1].source
    assert nbformat.reads(notebook(PAGE, "page.zh.md"), as_version=4).cells[1].id == "page-zh-1"


def test_a_page_without_code_is_no_notebook(tmp_path):
    (tmp_path / "index.md").write_text("# Tutorials\n\nA list.\n")
    (tmp_path / "first.md").write_text(PAGE)
    assert list(notebooks(tmp_path)) == [tmp_path / "first.ipynb"]
