"""The examples: two processes on this machine, and the files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tacit.kinds.vertical_logistic import forecast
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.tasks import cancer
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
    assert float(active.split("epoch 11")[1].split("auc ")[1].split()[0]) > 0.99
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
