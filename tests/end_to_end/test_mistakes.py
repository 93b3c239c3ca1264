"""Mistakes and their words: a sentence for the user's input, the user's own frames for a bug in a task."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.store.directory import RunDirectory
from tests.commands import invoke

EXAMPLES = Path(__file__).parents[2] / "examples"
HORIZONTAL = {
    "kind": "horizontal",
    "name": "small",
    "task": "mine:make_task",
    "rounds": 2,
    "clients": 4,
    "train": {"epochs": 1, "batch": 64, "learning_rate": 0.5},
}
PRIVATE = {
    "kind": "private_training",
    "name": "small",
    "task": "mine:make_training",
    "privacy": {"noise_multiplier": 2.0},
    "train": {"epochs": 1, "batch": 500, "learning_rate": 2.0},
}
SPLIT = {
    "kind": "split",
    "name": "small",
    "topology": "V",
    "task": "mine:make_parts",
    "parties": {"clinic": {"role": "leader"}, "laboratory": {"role": "follower"}},
    "train": {"epochs": 1, "batch": 256, "learning_rate": 0.01},
}
MINE = """
from tacit import tasks

def broken(*given, **more):
    raise ERROR("record 7 is odd")

def make_task(clients, seed, where):
    if where == "make_task":
        broken()
    task = tasks.make("digits", clients, seed, {})
    setattr(task, where, broken)
    return task

def make_training(seed, where):
    task = tasks.make_training("digits", seed, {})
    setattr(task, where, broken)
    return task

def make_parts(seat, where):
    from torch import nn
    from tacit.kinds.split.tasks.cancer import make_parts

    class Odd(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
        def forward(self, *values):
            broken()

    part = make_parts(seat)
    if seat.party == where:
        for name in ("top", "bottom", "network"):
            if isinstance(getattr(part, name, None), nn.Module):
                object.__setattr__(part, name, Odd(getattr(part, name)))
    return part
"""
NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
from tacit.cli import main
main(sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def task_forgotten(here):
    yield
    sys.modules.pop("mine", None)


def folders() -> list[Path]:
    return list(Path("runs").iterdir()) if Path("runs").exists() else []


@pytest.mark.parametrize("verb", ["run", "plan", "audit"])
@pytest.mark.parametrize("file", ["split_cancer.yaml", "private_digits.yaml"])
def test_without_torch_a_sentence_says_how_to_get_it(verb, file):
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH, verb, str(EXAMPLES / file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith("pip install 'tacit-learning[torch]'\n")
    assert "Traceback" not in done.stderr
    assert not folders()


@pytest.mark.parametrize("verb", ["run", "plan", "audit"])
@pytest.mark.parametrize("config", [HORIZONTAL, PRIVATE, SPLIT], ids=lambda config: config["kind"])
def test_a_task_that_is_not_there_is_one_sentence(verb, config):
    Path("file.yaml").write_text(json.dumps(config | {"task": "nowhere.module:make_task"}))
    done = invoke(verb, "file.yaml")
    assert done.exit_code == 2
    assert "task 'nowhere.module:make_task' needs the module 'nowhere', which is not installed" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.output
    assert not folders()


@pytest.mark.parametrize("error", ["KeyError", "ValueError"])
@pytest.mark.parametrize(
    ("config", "where"),
    [
        (HORIZONTAL, "fit"),
        (HORIZONTAL, "model"),
        (HORIZONTAL, "evaluate"),
        (HORIZONTAL | {"simulation": {"workers": 1}}, "fit"),
        (PRIVATE, "model"),
        (PRIVATE, "loss"),
        (PRIVATE, "evaluate"),
        (SPLIT, "clinic"),
        (SPLIT, "laboratory"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)
def test_a_bug_in_a_task_shows_its_own_frames(config, where, error):
    if config["kind"] != "horizontal":
        pytest.importorskip("torch")
    Path("mine.py").write_text(MINE.replace("ERROR", error))
    Path("file.yaml").write_text(json.dumps(config | {"task_options": {"where": where}}))
    done = invoke("run", "file.yaml", "--quiet")
    assert done.exit_code == 1, done.output
    first, *frames = done.stderr.splitlines()
    assert first == "The task failed. Traceback, with the frames of your code only (most recent call last):"
    assert all("mine.py" in line for line in frames if line.startswith('  File "'))
    assert "in broken" in done.stderr
    (last,) = (line for line in frames if line.startswith(f"{error}: "))
    assert "record 7 is odd" in last
    for folder in folders():  # the words may quote a record: they are not stored
        for path in folder.rglob("*"):
            assert path.is_dir() or b"record 7" not in path.read_bytes()


def test_an_error_of_ours_shows_all_frames(monkeypatch):

    Path("file.yaml").write_text(json.dumps(HORIZONTAL | {"task": "digits"}))
    monkeypatch.setattr("tacit.runs.outcome.kind_of", lambda settings: None)
    assert isinstance(invoke("run", "file.yaml").exception, AttributeError)


def test_plan_and_audit_show_the_frames_of_a_task_too():
    Path("mine.py").write_text(MINE.replace("ERROR", "ValueError"))
    Path("file.yaml").write_text(json.dumps(HORIZONTAL | {"task_options": {"where": "model"}}))
    for verb in ("plan", "audit"):
        done = invoke(verb, "file.yaml")
        assert done.exit_code == 1
        assert "in broken" in done.stderr
        assert "ValueError: record 7 is odd" in done.stderr
        assert "tacit" + os.sep not in done.stderr


# --- no folder is left of a run that never began


def test_a_port_in_use_leaves_no_folder():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        horizontal = HORIZONTAL | {"task": "digits", "network": {"coordinator": address}}
        vertical = {
            "kind": "vertical_logistic",
            "name": "small",
            "task": "cancer",
            "parties": {"hospital": {"role": "active", "address": address}, "laboratory": {"role": "passive"}},
        }
        for config, party in ((horizontal, "coordinator"), (vertical, "hospital")):
            Path("file.yaml").write_text(json.dumps(config))
            done = invoke("join", "file.yaml", "--party", party, "--insecure", "--quiet")
            assert done.exit_code == 2
            assert "cannot be listened on" in done.stderr
            assert "Traceback" not in done.output
            assert not folders()


def test_a_missing_table_leaves_no_folder():
    parties = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
    data = {"bank": {"path": "bank.csv", "label": "y"}, "shop": {"path": "shop.csv"}}
    Path("file.yaml").write_text(json.dumps({"kind": "vertical_logistic", "parties": parties, "data": data}))
    done = invoke("run", "file.yaml", "--quiet")
    assert done.exit_code == 2
    assert "bank.csv: there is no such file" in done.stderr
    assert not folders()


@pytest.mark.parametrize("kept", ["ledger.json", "part/state-0.safetensors", "notes.txt"])
def test_a_folder_with_anything_else_in_it_is_not_removed(here, kept):
    from tacit.runs.load import load

    settings = load(HORIZONTAL)
    directory = RunDirectory.create(here / "runs", settings, 0.0)
    (directory.path / kept).parent.mkdir(exist_ok=True)
    (directory.path / kept).write_text("kept")
    with pytest.raises(ValueError, match="wrong"), directory:
        raise ValueError("wrong")
    assert (directory.path / kept).read_text() == "kept"
    assert (directory.path / "config.yaml").exists()


def test_a_folder_that_was_there_before_is_not_removed(here):
    from tacit.runs.load import load

    directory = RunDirectory.create(here / "runs", load(HORIZONTAL), 0.0)
    directory.close()
    with pytest.raises(ValueError, match="wrong"), RunDirectory.reopen(directory.path):
        raise ValueError("wrong")
    assert (directory.path / "config.yaml").exists()
    assert "failed" in (directory.path / "run.log").read_text()
