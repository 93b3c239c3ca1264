"""Every folder that `tacit init` writes runs as it is, and its own test passes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tacit.cli import main
from tacit.kind import find

FOLDERS = [
    (name, template)
    for name in ("horizontal", "private_training", "vertical_logistic", "vertical_trees", "split")
    for template in find(name).templates()
]
WITHOUT = {"lora": "peft", "torch": "torch"}


def init(*arguments: str):
    return CliRunner().invoke(main, ["init", *arguments])


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_templates_of_a_federation_are_those_of_the_documentation():
    assert [template for name, template in FOLDERS if name == "horizontal"] == ["sklearn", "torch", "lora"]


@pytest.mark.parametrize(("kind", "template"), FOLDERS, ids=str)
@pytest.mark.slow  # 10 to 30 s each on a busy machine, nearly all of it imports of torch
def test_a_folder_runs_and_its_own_test_passes(kind, template, tmp_path):
    needed = WITHOUT.get(template)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"the folder needs {needed}, which is not installed")
    folder = tmp_path / "mine"
    done = init(kind, str(folder), "--task", template)
    assert done.exit_code == 0, done.output
    (file,) = folder.glob("*.yaml")
    assert done.output.endswith(f"Run it with: cd {folder} && tacit run {file.name}\n")
    ran = python(folder, "-m", "tacit", "run", file.name)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "changed nothing" not in ran.stdout
    tested = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout


def test_the_folder_of_scikit_learn_runs(tmp_path):
    folder = tmp_path / "my fleet"
    done = init("horizontal", str(folder))
    assert done.exit_code == 0
    assert done.output.endswith(f"Run it with: cd '{folder}' && tacit run federation.yaml\n")  # as for a shell
    ran = python(folder, "-m", "tacit", "run", "federation.yaml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "changed nothing" not in ran.stdout


@pytest.mark.parametrize(("kind", "template"), FOLDERS, ids=str)
def test_a_folder_has_a_file_a_test_and_a_short_readme(kind, template):
    texts = find(kind).templates()[template]
    assert len([name for name in texts if name.endswith(".yaml")]) == 1
    assert any(name.startswith("test_") and name.endswith(".py") for name in texts)
    assert len(texts["README.md"].splitlines()) <= 10
    named = [name for name in texts if name != "README.md"]
    assert all(f"`{name}`" in texts["README.md"] for name in named)
    for name in named:
        if name.endswith(".py"):
            compile(texts[name], name, "exec")


def test_files_that_exist_are_not_overwritten_unless_forced(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "federation.yaml").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    refused = init("horizontal", str(folder))
    assert refused.exit_code == 2
    assert "federation.yaml exists: choose another folder" in refused.stderr
    assert [path.name for path in sorted(folder.iterdir())] == ["federation.yaml", "notes.txt"]
    assert init("horizontal", str(folder), "--force").exit_code == 0
    assert (folder / "federation.yaml").read_text() != "mine"
    assert (folder / "notes.txt").read_text() == "mine"


def test_mistakes_are_told_in_a_sentence(tmp_path):
    unknown = init("horizontal", str(tmp_path / "a"), "--task", "keras")
    assert (unknown.exit_code, unknown.stderr) == (
        2,
        "--task is 'keras', which horizontal does not have: take sklearn or torch or lora\n",
    )
    both = init("horizontal", str(tmp_path / "a.yaml"), "--task", "torch")
    assert both.exit_code == 2
    assert "--task is for a folder" in both.stderr
    (tmp_path / "b").write_text("")
    file = init("horizontal", str(tmp_path / "b"))
    assert file.exit_code == 2
    assert not (tmp_path / "a").exists()
