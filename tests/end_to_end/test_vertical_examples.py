"""The examples: two processes on this machine, and the files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import tacit
from tacit.kinds.vertical_logistic import forecast, party
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep import cancer
from tacit.runs.load import load
from tests.subprocesses import HANGS, free_port, launch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_two_scripts_train_together(tmp_path):
    port = str(free_port())
    commands = [[sys.executable, EXAMPLES / f"play_{role}.py", port] for role in ("active", "passive")]
    running = [launch(c, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for c in commands]
    active, passive = (process.communicate(timeout=HANGS)[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert "patients are common" in active
    # Of 92 rows, which are others in each session: 0.976 to 0.999 in eight of them. Labels by chance have 0.5.
    assert float(active.split("epoch 11")[1].split("auc ")[1].split()[0]) > 0.95
    assert "its own weights" in passive
    assert "loss" not in passive


@pytest.mark.parametrize("third", [{}, {"registry": {"role": "passive"}}])
def test_the_file_passes_all_checks_with_two_and_with_three_parties(third):
    data = yaml.safe_load((EXAMPLES / "vertical_cancer.yaml").read_text())
    settings = Settings.model_validate(data | {"parties": data["parties"] | third})
    tables = cancer.make_parts(list(settings.parties), settings.active, settings.seed, **settings.task_options)
    features = {party: table.features.shape[1] for party, table in tables.items()}
    warnings = forecast.forecast(settings, cancer.SIZE, features).parts["Warnings"]
    assert not any("refuse" in str(warning) for warning in warnings)


REGISTRY = {"registry": {"role": "passive"}}
NOTARY = {"notary": {"role": "dealer"}}


@pytest.mark.parametrize(
    ("name", "more", "changes"),
    [
        ("vertical_shared", {}, {}),
        ("vertical_shared", REGISTRY, {}),
        ("vertical_two_parties", {}, {}),
        ("vertical_two_parties", REGISTRY | NOTARY, {"helper": "dealer"}),
    ],
)
def test_the_files_on_shares_run_with_two_and_with_three_parties(name, more, changes, here):
    data = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    file = data | {"parties": data["parties"] | more} | changes
    assert not any("refuse to begin;" in str(each) for each in party.forecast(load(file)).parts["Warnings"])
    result = tacit.run(file)
    assert result.history[-1].local["auc"] > 0.95
    weights = result.model["weights"]
    assert weights.shape == (30 // (2 + ("registry" in more)), 1)
    assert np.abs(weights).max() > 0.1


@pytest.mark.parametrize("more", [{}, REGISTRY])
def test_the_file_of_trees_runs_with_two_and_with_three_parties(more, here):
    data = yaml.safe_load((EXAMPLES / "vertical_trees.yaml").read_text())
    result = tacit.run(data | {"parties": data["parties"] | more})
    assert result.history[-1].local["auc"] > 0.97
