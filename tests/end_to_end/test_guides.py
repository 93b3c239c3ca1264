"""The guides: every code block on them runs, in the order of the page.

A block of YAML or Python that begins with a comment of its file's name is written to that file. Other Python is run,
all of a page in one namespace; its `print` must say what stands in a comment behind it. In a console block each line
behind `$` is run, and the lines below it must be in its output, in that order; `…` stands for any lines.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from tacit import kind
from tests.commands import invoke
from tests.contract.installing import installed

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = [page for page in sorted(GUIDES.rglob("*.md")) if not page.name.endswith(".zh.md")]  # these have the same code
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"\A# ([\w./-]+\.(?:py|yaml|txt))\n")
SHOWN = re.compile(r"^\s*print\(.*\)\s+# (.+)$", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def executed(source: str, namespace: dict) -> None:
    """Run Python, and compare what it prints with the comments behind the calls."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(source, "guide", "exec"), namespace)  # noqa: S102
    printed, place = output.getvalue().splitlines(), 0
    for expected in SHOWN.findall(source):
        assert expected in printed[place:], printed
        place = printed.index(expected, place) + 1


def commanded(text: str) -> None:
    """Run the commands of a console block, and look for the lines below each."""
    for command, _, shown in (part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]):
        program, *words = shlex.split(command, comments=True)
        assert program == "tacit", command
        done = invoke(*words)
        assert done.exit_code == 0, done.output
        output, place = [line.rstrip() for line in done.output.splitlines()], 0
        for line in filter(None, (line.rstrip() for line in shown.splitlines())):
            if line != "…":
                assert line in output[place:], f"{line!r} is not in the output of {command}:\n{done.output}"
                place = output.index(line, place) + 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(GUIDES).with_suffix("").as_posix())
def test_every_block_of_a_guide_runs(page, here, monkeypatch):
    if "torch" in "".join(text for _, text in blocks(page)):
        pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(here))
    before = set(sys.modules)
    namespace: dict = {"__name__": "guide"}
    outside = here if any(text.startswith("# entry_points.txt") for _, text in blocks(page)) else None
    with contextlib.ExitStack() as stack:
        stack.callback(kind._outside.cache_clear)  # what is installed is read once in a process
        kind._outside.cache_clear()
        for language, text in blocks(page):
            if name := NAMED.match(text):
                path = here / name.group(1)
                if path.name == "entry_points.txt":
                    path = here / "guide_package-1.0.dist-info" / path.name
                    path.parent.mkdir()
                    path.with_name("METADATA").write_text("Metadata-Version: 2.1\nName: guide_package\nVersion: 1.0\n")
                path.write_text(text.partition("\n")[2], encoding="utf-8")
                if path.name == "entry_points.txt" and outside is not None:
                    stack.enter_context(installed(outside))
            elif language == "python":
                executed(text, namespace)
            elif language == "console":
                commanded(text)
            else:
                assert language == "text", f"a block of {language or 'nothing'}: name its language"
    for module in set(sys.modules) - before:
        if (getattr(sys.modules[module], "__file__", None) or "").startswith(str(here)):
            del sys.modules[module]


def test_every_guide_is_in_the_navigation():
    navigation = (GUIDES.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"guides/{page.relative_to(GUIDES).as_posix()}" in navigation
