"""The units of systemd: checked by systemd itself where it is installed, and their commands run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tacit.cli.exits import AGAIN, BUDGET, FAILED, PEER, USER
from tests.commands import certify, ended
from tests.subprocesses import free_port, launch

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))


def service(unit: Path) -> dict[str, str]:
    """Its keys, those of the section Service."""
    text = unit.read_text(encoding="utf-8").partition("[Service]")[2].partition("\n[")[0]
    lines = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: value for key, _, value in lines}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong(unit, tmp_path):
    """Its program and its user are not on this machine: others stand in for them."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    text = unit.read_text(encoding="utf-8").replace("/opt/tacit/bin/tacit", "/bin/true")
    copy = tmp_path / unit.name.replace("@.", "@7.")
    copy.write_text(text.replace("User=tacit", "User=root").replace("Group=tacit", "Group=root"))
    found = subprocess.run([program, "verify", "--man=no", copy], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert copy.name not in found.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_only_code_5_and_kills_are_started_again(unit):
    keys = service(unit)
    assert keys["Restart"] == "on-failure"
    assert set(keys["RestartPreventExitStatus"].split()) == {str(each) for each in (FAILED, USER, PEER, BUDGET)}
    assert str(AGAIN) not in keys["RestartPreventExitStatus"]
    assert keys["RestartForceExitStatus"] == str(AGAIN)
    assert keys["SuccessExitStatus"].split() == [str(BUDGET), str(AGAIN)]  # systemctl stop is no failure


def command(unit: str, folder: Path, instance: str = "") -> list[str]:
    words = shlex.split(service(FOLDER / unit)["ExecStart"].replace("%i", instance))
    assert words[0] == "/opt/tacit/bin/tacit"
    places = {"/etc/tacit": folder / "etc", "/var/lib/tacit": folder / "state"}
    for inside, place in places.items():
        words = [word.replace(inside, str(place)) for word in words]
    return [sys.executable, "-m", "tacit", *words[1:]]


def test_their_commands_train_to_the_end(tmp_path):
    etc = tmp_path / "etc"
    etc.mkdir()
    fleet = {
        "kind": "horizontal",
        "task": "digits",
        "rounds": 2,
        "clients": 3,
        "encrypt": {"encrypt_type": "PW_ENCRYPT"},
        "network": {"coordinator": f"127.0.0.1:{free_port()}"},
    }
    (etc / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    for name, keys in certify(etc, "coordinator", "client-0", "client-1", "client-2").items():
        (etc / f"{name}.yaml").write_text(yaml.safe_dump({"keys": keys}))
    commands = [command("tacit-coordinator.service", tmp_path)]
    commands += [command("tacit-client@.service", tmp_path, str(number)) for number in range(3)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    running = [
        launch(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) for words in commands
    ]
    for process in running:
        ended(process)
    events = (tmp_path / "state" / "coordinator" / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["status"] == "done"
