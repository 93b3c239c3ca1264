"""The command as tests start it: in this process, as processes of their own, with certificates, killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tacit.cli import main
from tacit.net import key_files
from tests.subprocesses import HANGS, free_port, kill, launch, until

__all__ = ["certify", "done", "ended", "free_port", "invoke", "kill_once", "start"]


def invoke(*arguments: object) -> Result:
    """`tacit` in this process."""
    return CliRunner().invoke(main, [str(each) for each in arguments])


def done(*arguments: object) -> str:
    """What `tacit` prints on its output, in this process, where it must end well."""
    ended_well = invoke(*arguments)
    assert ended_well.exit_code == 0, ended_well.output
    return ended_well.stdout


def start(*arguments: str) -> subprocess.Popen[str]:
    """`tacit` as a process of its own, which ends with the test at the latest."""
    return _popen("-m", "tacit", *arguments)


def _popen(*arguments: str) -> subprocess.Popen[str]:
    return launch(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """Wait for the end of a process; what it said on its output and its error output."""
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == code, out + err
    return out, err


def kill_once(process: subprocess.Popen[str], holds: Callable[[], Any]) -> None:
    """SIGKILL as soon as something holds; the process must be alive then."""
    until(holds, process)
    assert process.poll() is None, process.communicate()
    kill(process)


def certify(folder: Path, *names: str) -> dict[str, dict[str, str]]:
    """A certificate for each name, of one authority in `folder`: the `keys` of each party's local file."""
    key_files.init_authority(folder / "ca")
    found = {}
    for name in names:
        key_files.make_request(name, folder / name)
        key_files.sign_request(folder / "ca", folder / name / f"{name}.request.pem", folder / name / "c.pem")
        found[name] = {
            "private": f"{name}/{name}.private.pem",
            "certificate": f"{name}/c.pem",
            "authority": "ca/authority.pem",
        }
    return found


DOOMED = """
import os, signal, sys
from tacit.cli import main
from tacit.store import files
from tacit.store import journal_files as records

file, moment = sys.argv[1:3]
del sys.argv[1:3]

def doomed(write, name_of):
    def written(*arguments):
        hit = name_of(*arguments) == file
        if hit and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments)
        if hit:
            os.kill(os.getpid(), signal.SIGKILL)
    return written

files.replace_file = doomed(files.replace_file, lambda path, *data: path.name)
records.RecordFiles.write = doomed(records.RecordFiles.write, lambda self, name, data: name)
main()
"""


def start_doomed(file: str, moment: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that kills itself before, or after, it writes the run's file of this name."""
    return _popen("-c", DOOMED, file, moment, *arguments)


def start_script(path: str, *arguments: str) -> subprocess.Popen[str]:
    return _popen(path, *arguments)
