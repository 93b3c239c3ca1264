"""Parties that are processes, killed with SIGKILL at chosen moments or interrupted: `tacit join` on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tacit.events import RoundFinished, RunFinished, RunResumed
from tacit.runs.directory import read_events
from tests.subprocesses import HANGS, free_port, launch, until

CLIENTS, ROUNDS = 6, 3
NEVER = int(2000 * HANGS)  # milliseconds: a window that closes on nobody; a wait for it would exceed the limit
# A task of numbers. In the process that DIE_AT names, a moment of the second round is the last: the `nth` call of a
# method with a message of some kind. The file DIED says that this has happened. In the round that SLOW names, a client
# trains until the file GO is there.
TASK = '''
import os, signal, time
from pathlib import Path

import numpy as np

from tacit.horizontal.client import Client
from tacit.horizontal.coordinator import Coordinator
from tacit.horizontal.task import Fitted


class Numbers:
    def model(self):
        return {"weights": np.zeros(50)}

    def fit(self, client, model, work):
        if os.environ.get("SLOW") == "%d" % work.round:
            Path("training-%d" % client).touch()
            while not os.path.exists("GO"):
                time.sleep(0.02)
        return Fitted({"weights": model["weights"] + 0.1 * client}, client + 1, 1.0)


def die(happens):
    if happens and not os.path.exists("DIED"):
        Path("DIED").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def watch(party, kind, nth):
    """Die before what the method would do with the nth message of this kind; `nth` of 0 and less: after the first."""
    seen = [0]
    receive, begin, begun = party.receive, getattr(party, "begin", None), [0]

    def watched(self, *arguments):
        message = next(a for a in arguments if type(a) not in (int, float))
        if type(message).__name__ == "Work":
            begun[0] += 1
        if type(message).__name__ == kind and begun[0] >= 2:
            seen[0] += 1
            die(nth == seen[0])
        return receive(self, *arguments)

    def beginning(self, *arguments):
        begun[0] += 1
        die(kind == "before" and begun[0] == 2)
        found = begin(self, *arguments)
        die(kind == "after" and begun[0] == 2)
        return found

    party.receive = watched
    if begin:
        party.begin = beginning


def make_task(clients, seed):
    if at := os.environ.get("DIE_AT"):
        role, kind, nth = at.split()
        watch(Coordinator if role == "coordinator" else Client, kind, int(nth))
    return Numbers()
'''


class Parties:
    """A federation of processes in a folder."""

    def __init__(self, folder: Path, encrypt: dict, window: int = NEVER, rounds: int = ROUNDS) -> None:
        self.folder = folder
        (folder / "numbered.py").write_text(TASK)
        settings = {
            "kind": "horizontal",
            "task": "numbered:make_task",
            "rounds": rounds,
            "clients": CLIENTS,
            "network": {"coordinator": f"127.0.0.1:{free_port()}"},
            "round": {"start_fl_job_time_window": NEVER, "update_model_time_window": 2 * window},
            "encrypt": {"cipher_time_window": window} | encrypt,
        }
        (folder / "file.yaml").write_text(yaml.safe_dump(settings))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tacit", "join", "file.yaml", "--insecure", "--quiet", *arguments]
        return launch(
            command,
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def coordinator(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return self.start("--party", "coordinator", *arguments, **environment)

    def clients(self, ids: str, **environment: str) -> subprocess.Popen[str]:
        return self.start("--party", "client", "--id", ids, **environment)

    @property
    def run(self) -> Path:
        (found,) = self.folder.glob("runs/*coordinator*")
        return found

    @property
    def events(self) -> list:
        return list(read_events(self.run / "events.jsonl"))

    @property
    def survivors(self) -> list[int]:
        return [event.survivors for event in self.events if isinstance(event, RoundFinished)]

    @property
    def counts(self) -> list[int]:
        ledgers = json.loads((self.run / "ledger.json").read_text())["ledgers"]
        return [line["count"] for ledger in ledgers for line in ledger["lines"]]


def ended(process: subprocess.Popen[str], code: int) -> str:
    """What a process said on its error output when it ended."""
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    return errors


@pytest.fixture
def parties(tmp_path):
    return lambda encrypt, **keys: Parties(tmp_path, encrypt, **keys)


MASKED = {"encrypt_type": "PW_ENCRYPT", "mode": "active"}
PROTECTIONS = {
    "NOT_ENCRYPT": {"encrypt_type": "NOT_ENCRYPT"},
    "DP_ENCRYPT": {"encrypt_type": "DP_ENCRYPT"},
    "PW_ENCRYPT": MASKED,
    "DDP_ENCRYPT": MASKED | {"encrypt_type": "DDP_ENCRYPT"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protection", "stage"),
    [
        ("NOT_ENCRYPT", "Work"),
        ("DP_ENCRYPT", "Work"),
        ("DDP_ENCRYPT", "Inbox"),
        *(("PW_ENCRYPT", stage) for stage in ("Work", "Roster", "Inbox", "Survivors", "Agreements")),
    ],
)
def test_a_client_process_that_is_killed_costs_its_own_update_only(parties, protection, stage):
    found = parties(PROTECTIONS[protection], window=10_000)  # in which the others must answer, on a busy machine too
    coordinator, others = found.coordinator(), found.clients("0-4")
    victim = found.clients("5", DIE_AT=f"client {stage} 1")
    ended(coordinator, 0)
    ended(others, 0)
    assert victim.wait(HANGS) == -signal.SIGKILL
    assert found.survivors == [6, 6 if stage in ("Survivors", "Agreements") else 5, 5]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protection", "moment"),
    [
        *(("PW_ENCRYPT", m) for m in ("Advertise 1", "Advertise 6", "Shares 3", "Masked 1", "Masked 6")),
        *(("PW_ENCRYPT", m) for m in ("Agreed 3", "Reveal 1", "Reveal 4", "before 0", "after 0")),
        *(("DDP_ENCRYPT", m) for m in ("Masked 3", "Reveal 1")),
        *(("DP_ENCRYPT", m) for m in ("Update 1", "Update 6", "after 0")),
        ("NOT_ENCRYPT", "Update 3"),
    ],
)
def test_a_coordinator_that_is_killed_and_resumed_goes_on_with_the_same_clients(parties, protection, moment):
    killed_and_resumed(parties, protection, moment)


def test_a_coordinator_that_is_killed_while_secrets_are_revealed_goes_on(parties):
    killed_and_resumed(parties, "DDP_ENCRYPT", "Reveal 2")


def killed_and_resumed(parties, protection, moment):
    found = parties(PROTECTIONS[protection])
    clients = found.clients("0-5")
    coordinator = found.coordinator(DIE_AT=f"coordinator {moment}")
    ended(coordinator, -signal.SIGKILL)
    inside = not moment.startswith(("before", "after"))
    # The noise of distributed DP is sized for so many sums: one that may have been opened takes the place of the last.
    rounds, code = (ROUNDS - 1, 4) if protection == "DDP_ENCRYPT" else (ROUNDS, 0)
    ended(found.coordinator("--resume", str(found.run)), code)
    ended(clients, code)
    (resumed,) = (event for event in found.events if isinstance(event, RunResumed))
    assert resumed.abandoned == inside
    finished = {event.round: event.survivors for event in found.events if isinstance(event, RoundFinished)}
    assert finished == dict.fromkeys(range(rounds), CLIENTS)
    if protection in ("DP_ENCRYPT", "DDP_ENCRYPT"):
        assert found.counts == [rounds + inside] * len(found.counts)
        assert found.counts
        for identity in range(CLIENTS):  # and what each client paid itself is no more than that
            (own,) = found.folder.glob(f"runs/*/client-{identity}.json")
            state = json.loads(own.read_text())["state"]
            assert rounds <= max(state["uploads"], state["sums"]) <= rounds + 1


def test_an_interrupted_coordinator_takes_its_clients_along(parties):
    found = parties(MASKED, rounds=2000)
    coordinator, clients = found.coordinator(), found.clients("0-5")
    until(lambda: list(found.folder.glob("runs/*coordinator*/events.jsonl")) and len(found.survivors) > 1, coordinator)
    coordinator.send_signal(signal.SIGINT)
    assert "stopped" in ended(coordinator, 5)
    assert "the coordinator ended the run: the coordinator was stopped" in ended(clients, 3)
    assert isinstance(found.events[-1], RunFinished)


@pytest.mark.slow
def test_an_interrupted_client_is_not_waited_for(parties):
    found = parties(MASKED)
    coordinator, others = found.coordinator(), found.clients("0-4")
    leaving = found.clients("5", SLOW="1")
    until((found.folder / "training-5").exists, leaving)
    leaving.send_signal(signal.SIGINT)
    ended(coordinator, 0)
    ended(others, 0)
    (found.folder / "GO").touch()
    assert "Stopped" in ended(leaving, 5)
    assert found.survivors == [6, 5, 5]
