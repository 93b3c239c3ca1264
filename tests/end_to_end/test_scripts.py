"""`tacit.run` in scripts as their authors write them: a task beside the file, and worker processes without a guard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.subprocesses import HANGS, launch

TASK = """\
from tacit.tasks import make


def mine(clients, seed):
    return make("digits", clients, seed, {})
"""
FILE = """\
kind: horizontal
task: TASK
rounds: 2
clients: 10
train: {epochs: 1, batch: 16, learning_rate: 0.5}
simulation: {workers: WORKERS}
"""
RUN = """\
import sys
import tacit

print("begun as", __name__)
outcome = tacit.run(sys.argv[1])
print(outcome.status, outcome.directory)
"""
GUARDED = """\

if __name__ == "__main__":
    outcome = tacit.run(sys.argv[1])
    print(outcome.status, outcome.directory)
"""


@pytest.fixture(autouse=True)
def folders(here):
    Path("files").mkdir()
    Path("scripts").mkdir()


def written(task: str, workers: int) -> None:
    Path("files/a.yaml").write_text(FILE.replace("TASK", task).replace("WORKERS", str(workers)))


def ended(script: str, *command: str) -> tuple[int, str, str]:
    """Run a script that lies in a folder of its own, apart from the file."""
    Path("scripts/script.py").write_text(script)
    process = launch(
        [sys.executable, *(command or ["scripts/script.py"]), "files/a.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=HANGS)
    return process.returncode, out, err


@pytest.mark.parametrize("workers", [0, 2])
def test_a_task_that_lies_beside_the_file_is_found(workers):
    written("beside:mine", workers)
    Path("files/beside.py").write_text(TASK)
    code, out, err = ended(RUN)
    assert (code, err) == (0, "")
    assert "done runs" in out


def test_a_script_without_a_guard_runs_once_with_worker_processes():
    written("digits", 2)
    code, out, err = ended(RUN)
    assert (code, err) == (0, "")
    assert out.count("begun as") == 1
    assert len(list(Path("runs").iterdir())) == 1


def test_a_script_without_a_guard_runs_a_vertical_regression_on_several_processes():
    Path("files/a.yaml").write_text(
        "kind: vertical_logistic\nprotocol: masked\ntask: cancer\n"
        "parties:\n  bank: {role: active, address: '127.0.0.1:1'}\n  shop: {role: passive}\n"
        "train: {epochs: 1, batch: 400}\npaillier: {bits: 1024, workers: 2}\n"
    )
    code, out, err = ended(RUN)
    assert (code, err) == (0, "")
    assert out.count("begun as") == 1


def test_a_task_in_a_script_without_a_guard_is_refused_in_a_sentence():
    written("__main__:mine", 2)
    code, _, err = ended(TASK + RUN)
    assert code == 1
    assert "BrokenProcessPool" not in err
    last = err.splitlines()[-1]
    assert last.startswith("RuntimeError: the script defines something that its worker processes need")
    assert last.endswith('under `if __name__ == "__main__":`, or what it defines into a module of its own')
    assert len(list(Path("runs").iterdir())) == 1  # none of the workers began a run


@pytest.mark.parametrize("workers", [0, 2])
def test_a_script_without_a_guard_that_names_its_own_module_is_refused_in_a_sentence(workers):
    written("script:mine", workers)
    code, _, err = ended(TASK + RUN)
    assert code == 1
    assert err.splitlines()[-1] == (
        "ValueError: the module script is imported for its task, and starts a run itself: put what it does under "
        '`if __name__ == "__main__":`'
    )
    assert not list(Path("runs").glob("*/model.safetensors"))  # nothing was trained


def test_a_script_with_a_guard_may_name_its_own_module():
    written("script:mine", 2)
    code, out, err = ended("import sys\nimport tacit\n" + TASK + GUARDED)
    assert (code, err) == (0, "")
    assert "done runs" in out


def test_a_command_whose_task_starts_a_run_ends_in_a_sentence():
    written("beside:mine", 0)
    Path("files/beside.py").write_text(TASK + "import tacit\ntacit.run('files/a.yaml')\n")
    code, _, err = ended("", "-m", "tacit", "run")
    assert code == 2
    assert "Traceback" not in err
    assert "the module beside is imported for its task, and starts a run itself" in err


@pytest.mark.parametrize("command", [(), ("-m", "scripts.script")])
def test_a_task_in_a_script_with_a_guard_is_found_by_its_worker_processes(command):
    written("__main__:mine", 2)
    code, out, err = ended("import sys\nimport tacit\n" + TASK + GUARDED, *command)
    assert (code, err) == (0, "")
    assert "done runs" in out


def test_an_error_of_a_task_in_its_worker_processes_is_shown_as_it_is():
    written("beside:mine", 2)
    Path("files/beside.py").write_text(
        TASK + "\n\nimport multiprocessing\n\nif multiprocessing.parent_process():\n    raise OSError('no data here')\n"
    )
    code, _, err = ended(RUN)
    assert code == 1
    assert err.splitlines()[-1] == "OSError: no data here"
