"""`tacit export`: what it says, and how it ends."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from tacit import events
from tacit.runs.load import load
from tacit.store.directory import RunDirectory
from tests.commands import invoke

SETTINGS = load({"kind": "horizontal", "name": "fleet", "task": "digits", "rounds": 1, "clients": 5})
NAME = "20231114-221320-fleet"


@pytest.fixture
def run(here) -> str:
    with RunDirectory.create("runs", SETTINGS, 1_700_000_000.0) as directory:
        directory.emit(events.RunStarted("fleet", "horizontal", 5, 1, "NOT_ENCRYPT", 10))
        directory.emit(events.RoundFinished(0, 4, 1, 0.25, 100, {"accuracy": 0.5}))
        directory.emit(events.RunFinished("done", 1, 1.0))
    return f"runs/{NAME}"


export = partial(invoke, "export")


def test_it_says_where_the_figures_are_and_how_to_look_at_them(run):
    done = export(run, "--tensorboard", "board")
    assert done.exit_code == 0
    assert done.output == f"board/{NAME} is written. Look at it with: tensorboard --logdir board\n"
    assert len(list(Path("board", NAME).iterdir())) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow  # 8 s; each by itself is tested
def test_both_at_once(run):
    done = export(run, "--tensorboard", "board", "--mlflow", "store", "--experiment", "mine")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("is written") == 2
    assert "mlflow ui --backend-store-uri sqlite:////" in done.stdout


def test_a_run_without_a_figure_to_share_says_so(run):
    done = export(run, "--tensorboard", "board", "--share")
    assert done.exit_code == 0
    assert done.output.endswith("It has no figures: no epsilon covers any.\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"runs/{NAME}"], "No destination: give --tensorboard DIR or --mlflow URI\n"),
        ([f"runs/{NAME}", "--tensorboard", "b", "--experiment", "x"], "--experiment is for MLflow: add --mlflow URI"),
        (["nowhere", "--tensorboard", "b"], "nowhere: there is no such folder: give the folder of a run"),
        (["runs", "--tensorboard", "b"], "runs: this is not the folder of a run, it has no config.yaml"),
    ],
)
def test_mistakes_end_with_2_in_one_sentence(run, arguments, words):
    done = export(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
    assert not Path("b").exists()


@pytest.mark.parametrize(
    ("option", "package"),
    [("--tensorboard", "tensorboardX"), ("--mlflow", "mlflow"), ("--mlflow", "sqlalchemy"), ("--mlflow", "alembic")],
)
def test_without_the_extra_it_names_the_extra(run, monkeypatch, option, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hides(package), *sys.meta_path])
    done = export(run, option, "place")
    assert done.exit_code == 2
    assert done.stderr == f"{option} needs the package {package}: pip install 'tacit-learning[export]'\n"
    assert not Path("place").exists()


class _Hides:
    """Python without a package."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=self._package)
        return None


def test_the_help_warns_of_what_no_epsilon_covers():
    words = " ".join(export("--help").output.split())
    assert "Exported figures include some that no ε covers" in words
    assert "pip install 'tacit-learning[export]'" in words
