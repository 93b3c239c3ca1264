"""The examples run as they stand, from another folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.subprocesses import HANGS

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_sum_that_nobody_shows(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "secure_sum.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
    )
    assert "mean over parties (1, 3, 4, 5): [5750.   11.]" in done.stdout


@pytest.mark.parametrize("file", ["digits.yaml", "digits_unsupervised.yaml"])
def test_the_federations_of_digits(tmp_path, file):
    command = [sys.executable, "-m", "tacit", "run", EXAMPLES / file, "--set", "rounds=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS, check=True)
    assert "round 1/1 survivors" in done.stdout
    assert (tmp_path / "runs").is_dir()
