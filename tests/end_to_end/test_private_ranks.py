"""The example of several processes, started as its docstring says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subprocesses import HANGS, free_port, launch

EXAMPLE = Path(__file__).parents[2] / "examples" / "private_ranks.py"


@pytest.mark.slow
def test_torchrun_trains_one_model_on_two_ranks():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    where = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    process = launch([*torchrun, *where, EXAMPLE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    (found,) = re.findall(r"^epsilon (\S+), accuracy (\S+)$", said, re.MULTILINE)  # of one rank
    epsilon, accuracy = map(float, found)
    assert epsilon == 3.0
    assert accuracy > 0.7
