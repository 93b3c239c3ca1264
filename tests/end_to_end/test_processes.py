"""Parties that are processes, killed with SIGKILL at chosen moments or interrupted: `tacit join` on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tacit.events import RoundFinished, RunFinished, RunResumed
from tacit.store.directory import read_events
from tests.subprocesses import HANGS, free_port, kill, launch, until

CLIENTS, ROUNDS = 6, 3
NEVER = int(2000 * HANGS)  # milliseconds: a window that closes on nobody; a wait for it would exceed the limit
# A task of numbers. In the process that DIE_AT names, a moment of the second round is the last: the `nth` call of a
# method with a message of some kind. The file DIED says that this has happened. In the round that SLOW names, a client
# trains until the file GO-… of that round is there.
TASK = '''
import errno, os, signal, time
from pathlib import Path

import numpy as np

from tacit.net.grpc import connection
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.task import Fitted


class Numbers:
    def model(self):
        return {"weights": np.zeros(50)}

    def fit(self, client, model, work):
        if os.environ.get("SLOW") == "%d" % work.round:
            Path("training-%d" % client).touch()
            while not os.path.exists("GO-%d" % work.round):
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


def die_after_the_last_store():
    from tacit.store.directory import Store

    save = Store.save

    def saved(self, model, state, ledger):
        save(self, model, state, ledger)
        die(state["round"] == state["attempts"] == 3)

    Store.save = saved


def fill_the_disk(number):
    """From this round on nothing can be stored, as long as this process lives."""
    from tacit.store import files

    replace_file = files.replace_file

    def full(path, *data):
        if path.name == "state-%d.safetensors" % number:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        replace_file(path, *data)

    files.replace_file = full


def make_task(clients, seed):
    connection._LONGEST_PAUSE = 0.2  # seconds before a client looks again for a coordinator that is away
    if at := os.environ.get("DIE_AT"):
        role, kind, nth = at.split()
        if kind == "last":
            die_after_the_last_store()
        watch(Coordinator if role == "coordinator" else Client, kind, int(nth))
    if at := os.environ.get("FULL_AT"):
        fill_the_disk(int(at))
    return Numbers()
'''


class Parties:
    """A federation of processes in a folder."""

    def __init__(
        self,
        folder: Path,
        encrypt: dict,
        window: int = NEVER,
        rounds: int = ROUNDS,
        patience: float | str = "forever",
        lost_after: float = 1.0,
        **keys: Any,
    ) -> None:
        self.folder = folder
        (folder / "numbered.py").write_text(TASK)
        settings = {
            "kind": "horizontal",
            "task": "numbered:make_task",
            "rounds": rounds,
            "clients": CLIENTS,
            "network": {"coordinator": f"127.0.0.1:{free_port()}", "patience": patience, "lost_after": lost_after},
            "round": {"start_fl_job_time_window": NEVER, "update_model_time_window": 2 * window},
            "encrypt": {"cipher_time_window": window} | encrypt,
        } | keys
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

    def clients(self, ids: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return self.start("--party", "client", "--id", ids, *arguments, **environment)

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


def told(process: subprocess.Popen[str], code: int) -> str:
    """What a process printed, once it has ended."""
    output, errors = process.communicate(timeout=HANGS)
    assert process.returncode == code, errors
    return output


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


@pytest.mark.slow  # 10 s
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


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_coordinator_that_is_stopped_is_waited_for_and_resumes(parties, number):
    found = parties(MASKED, rounds=4)
    coordinator, clients = found.coordinator("--state", "state"), found.clients("0-5", SLOW="1")
    until(lambda: list(found.folder.glob("training-*")), coordinator, clients)
    coordinator.send_signal(number)
    assert "stopped" in ended(coordinator, 5)
    assert clients.poll() is None
    (found.folder / "GO-1").touch()
    ended(found.coordinator("--state", "state"), 0)
    ended(clients, 0)
    events = list(read_events(found.folder / "state" / "events.jsonl"))
    assert [event.status for event in events if isinstance(event, RunFinished)] == ["stopped", "done"]
    assert {event.round: event.survivors for event in events if isinstance(event, RoundFinished)} == dict.fromkeys(
        range(4), 6
    )


@pytest.mark.slow  # 10 s
def test_a_client_that_is_stopped_is_not_waited_for_and_resumes_with_its_ledger(parties):
    found = parties(MASKED | {"encrypt_type": "DDP_ENCRYPT"})
    coordinator, others = found.coordinator(), found.clients("0-4", SLOW="2")
    leaving = found.clients("5", "--state", "five", SLOW="1")
    until((found.folder / "training-5").exists, coordinator, leaving)
    leaving.send_signal(signal.SIGTERM)
    until(lambda: len(found.survivors) == 2, coordinator)
    (found.folder / "GO-1").touch()
    assert "Stopped" in ended(leaving, 5)
    back = found.clients("5", "--state", "five")
    until(lambda: (found.folder / "five" / "run.log").read_text().count("connected to the coordinator") == 2, back)
    (found.folder / "GO-2").touch()
    for process in (coordinator, others, back):
        ended(process, 0)
    assert found.survivors[:2] == [6, 5]
    state = json.loads((found.folder / "five" / "client-5.json").read_text())["state"]
    assert state["sums"] >= 1
    assert "the coordinator said that the run is done" in told(found.clients("5", "--state", "five"), 0)


def test_a_coordinator_that_is_killed_after_the_last_round_says_farewell_when_it_is_back(parties):
    """Its clients wait for a process that is gone; started again it tells them, writes what is missing, and ends."""
    found = parties(PROTECTIONS["NOT_ENCRYPT"], lost_after=5.0)
    clients = found.clients("0-5")
    coordinator = found.coordinator("--state", "state", DIE_AT="coordinator last 0")
    assert coordinator.wait(HANGS) == -signal.SIGKILL
    state = found.folder / "state"
    assert not any(isinstance(event, RunFinished) for event in read_events(state / "events.jsonl"))
    assert f"all {ROUNDS} rounds are done" in told(found.coordinator("--state", "state"), 0)
    ended(clients, 0)
    assert isinstance(list(read_events(state / "events.jsonl"))[-1], RunFinished)
    assert (state / "report.html").exists()


@pytest.mark.slow  # 10 s
def test_a_coordinator_whose_budget_is_spent_says_so_again_without_any_client(parties):
    """Its clients have ended: it waits for none of them, and ends as it did before."""
    found = parties(PROTECTIONS["DP_ENCRYPT"], budget={"epsilon": 60, "delta": 1e-5})
    clients = found.clients("0-5")
    for _ in range(2):
        ended(found.coordinator("--state", "state"), 4)
    ended(clients, 4)


def test_a_client_gives_up_an_absent_coordinator_after_its_patience(parties):
    found = parties(MASKED, patience=0.5)
    assert "the coordinator was away for 0.5 s" in ended(found.clients("0"), 5)


@pytest.mark.slow  # 10 s
def test_a_coordinator_that_is_started_without_its_state_ends_alone(parties):
    found = parties(MASKED, rounds=4)
    coordinator, clients = found.coordinator(), found.clients("0-5", "--state", "all", SLOW="2")
    until(lambda: list(found.folder.glob("training-*")), coordinator, clients)
    kill(coordinator)
    (found.folder / "GO-2").touch()
    old = found.run
    assert f"{old.relative_to(found.folder)} is a run of this coordinator that was interrupted" in ended(
        found.coordinator(), 2
    )
    assert "clients have answered rounds of which this coordinator has no state" in ended(
        found.coordinator("--new", "--runs", "elsewhere"), 2
    )
    assert clients.poll() is None
    ended(found.coordinator("--resume", str(old)), 0)
    ended(clients, 0)


def test_a_full_disk_stops_the_coordinator_and_not_its_clients(parties):
    found = parties(MASKED, rounds=4)
    clients = found.clients("0-5")
    errors = ended(found.coordinator("--state", "state", FULL_AT="2"), 5)
    assert "No space left on device" in errors
    assert clients.poll() is None
    ended(found.coordinator("--state", "state"), 0)
    ended(clients, 0)


@pytest.mark.slow  # 10 s
def test_two_processes_do_not_share_one_state(parties):
    found = parties(MASKED)
    coordinator = found.coordinator("--state", "state")
    until((found.folder / "state" / "config.yaml").exists, coordinator)
    assert "another process is writing there" in ended(found.coordinator("--state", "state"), 2)
    (found.folder / "other").mkdir()
    (found.folder / "other" / "letter.txt").touch()
    assert "other: it holds letter.txt and no run" in ended(found.coordinator("--state", "other"), 2)
    assert coordinator.poll() is None
