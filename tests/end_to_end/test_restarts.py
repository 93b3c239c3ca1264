"""Parties in lock step as processes of their own, under an operator who starts again what was killed or stopped."""

from __future__ import annotations

import csv
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tacit
from tacit.events import EpochFinished, Noted, RunFinished
from tacit.kind import find
from tacit.store.directory import Store, read_events
from tests.commands import free_port, invoke, start, start_doomed, start_script

SECONDS = 300
EXAMPLES = Path(__file__).parents[2] / "examples"
EPOCHS = 3
DEAL = """\
kind: vertical_logistic
protocol: masked
name: deal
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
  post: {role: passive}
data:
  bank: {path: bank.csv}
  shop: {path: shop.csv}
  post: {path: post.csv}
align: false
train: {epochs: 3, batch: 40, learning_rate: 0.5, secret_spread: 0}  # two runs can be compared
paillier: {bits: 512}
checks: {row_uses: 4}
network: {patience: 300, lost_after: 1}
"""
CLINIC = """\
kind: split
name: clinic
topology: V
task: split_cancer
parties:
  clinic: {role: leader, address: "127.0.0.1:PORT"}
  laboratory: {role: follower}
train: {epochs: 3, batch: 128, learning_rate: 0.01}
network: {patience: 300, lost_after: 1}
seed: 3
simulation: {insecure_noise_seed: 1}
"""


class Parties:
    """The processes of a file: started, awaited, killed, started again; none outlives its test."""

    def __init__(self, file, names, *arguments):
        self.file, self.names, self.arguments = file, names, arguments
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.said: dict[str, str] = dict.fromkeys(names, "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()

    def run(self, name):
        return next(iter(Path("runs").glob(f"*-{name}")))

    def start(self, name, doom=None):
        resumed = ["--resume", str(self.run(name))] if list(Path("runs").glob(f"*-{name}")) else []
        words = ("join", self.file, "--party", name, "--insecure", *self.arguments, *resumed)
        self.processes[name] = start(*words) if doom is None else start_doomed(*doom, *words)

    def ended(self, name):
        """How the party ended: its exit code."""
        out, err = self.processes[name].communicate(timeout=SECONDS)
        self.said[name] += out + err
        return self.processes[name].returncode

    def await_(self, holds):
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline
            for name, process in self.processes.items():
                assert process.poll() is None, (name, process.communicate())
            time.sleep(0.02)

    def all_end_with_0(self):
        codes = {name: self.ended(name) for name in self.names}
        assert set(codes.values()) == {0}, (codes, self.said)

    def model(self, name):
        return safetensors.numpy.load_file(self.run(name) / "model.safetensors")

    def state(self, name):
        return Store(self.run(name)).stored()[0]

    def log(self, name):
        return (self.run(name) / "run.log").read_text()


@pytest.fixture(autouse=True)
def files(here):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 6))
    y = (x.sum(axis=1) + rng.normal(size=40) > 0).astype(int)
    for index, name in enumerate(("bank", "shop", "post")):
        with Path(f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            label = ["y"] if name == "bank" else []
            writer.writerow(["id", *label, f"{name}0", f"{name}1"])
            for row in range(40):
                own = [y[row]] if label else []
                writer.writerow([row, *own, *map(float, x[row, 2 * index : 2 * index + 2])])
    Path("deal.yaml").write_text(DEAL.replace("PORT", str(free_port())))
    Path("clinic.yaml").write_text(CLINIC.replace("PORT", str(free_port())))


def expected(file):
    """The models of a run that nobody interrupts."""
    done = tacit.run(file, runs="whole")
    assert done.status == "done"
    return {path.parent.name: safetensors.numpy.load_file(path) for path in done.directory.glob("*/model.safetensors")}


def last_event(run):
    return [event for event in read_events(run / "events.jsonl") if isinstance(event, RunFinished)][-1]


def assert_trained(parties, whole, atol=1e-9):
    for name in parties.names:
        for key, array in whole[name].items():
            if key != "session":
                np.testing.assert_allclose(parties.model(name)[key], array, atol=atol, err_msg=f"{name} {key}")
        assert last_event(parties.run(name)).status == "done"
        assert not (parties.run(name) / "journal").exists()  # neither masks nor the key are left


DEAL_NAMES = ("bank", "shop", "post")
LAST = f"state-{EPOCHS}.safetensors"  # one step an epoch: position 4 is the last step, and 5 its evaluation


def killed_and_started_again(file, names, victim, dooms, whole, atol=1e-9):
    with Parties(file, names) as parties:
        for name in names:
            if name != victim:
                parties.start(name)
        for doom in dooms:
            parties.start(victim, doom)
            assert parties.ended(victim) == -signal.SIGKILL, (doom, parties.said)
        parties.start(victim)
        parties.all_end_with_0()
        assert_trained(parties, whole, atol)
        return {name: parties.state(name) for name in names}


def test_a_party_that_is_killed_while_it_stores_its_last_state():
    killed_and_started_again("deal.yaml", DEAL_NAMES, "shop", [(LAST, "before")], expected("deal.yaml"))


@pytest.mark.slow  # 3 minutes
@pytest.mark.parametrize("victim", DEAL_NAMES)
@pytest.mark.parametrize(
    "doom",
    [(LAST, "before"), (LAST, "after"), ("model.safetensors", "after"), ("step-4", "before"), ("step-4", "after")],
)
def test_a_party_that_is_killed_around_its_last_state(victim, doom):
    killed_and_started_again("deal.yaml", DEAL_NAMES, victim, [doom], expected("deal.yaml"))


FIVE = {
    "bank": [("step-0", "after"), ("opened-0", "after"), ("step-3", "after"), ("step-4", "before"), (LAST, "before")],
    "shop": [
        ("step-0", "before"),
        ("step-0", "after"),
        ("state-1.safetensors", "before"),
        ("step-4", "after"),
        (LAST, "before"),
    ],
}


SLOW = pytest.mark.slow  # half a minute each


@pytest.mark.parametrize(
    ("victim", "kills"), [("bank", 1), *(pytest.param(name, 5, marks=SLOW) for name in ("bank", "shop"))]
)
def test_kills_of_a_party_neither_change_the_model_nor_count_as_uses(victim, kills):
    states = killed_and_started_again("deal.yaml", DEAL_NAMES, victim, FIVE[victim][-kills:], expected("deal.yaml"))
    assert {name: state["begun"] for name, state in states.items()} == dict.fromkeys(DEAL_NAMES, EPOCHS)


@pytest.mark.parametrize(
    ("victim", "dooms"),
    [
        ("laboratory", [("state-0.safetensors", "before"), ("state-12.safetensors", "before")]),
        ("clinic", [("state-0.safetensors", "before"), ("state-8.safetensors", "after")]),
    ],
)
@pytest.mark.slow  # 20 s each
def test_a_split_party_that_is_killed_in_its_first_save_and_in_its_last(victim, dooms):
    pytest.importorskip("torch")
    with_noise = ("--test-insecure-noise",)
    whole = expected("clinic.yaml")
    with Parties("clinic.yaml", ("clinic", "laboratory"), *with_noise) as parties:
        parties.start("clinic" if victim == "laboratory" else "laboratory")
        for doom in dooms:
            parties.start(victim, doom)
            assert parties.ended(victim) == -signal.SIGKILL, (doom, parties.said)
        parties.start(victim)
        parties.all_end_with_0()
        assert_trained(parties, whole, atol=1e-5)


@pytest.mark.parametrize("victim", [pytest.param(name, marks=SLOW) for name in ("bank", "shop")])
def test_a_party_that_is_stopped_is_waited_for(victim):
    whole = expected("deal.yaml")
    with Parties("deal.yaml", DEAL_NAMES) as parties:
        for name in DEAL_NAMES:
            if name != "post":  # nothing begins, and all wait
                parties.start(name)
        parties.await_(
            lambda: any("waiting for post" in path.read_text() for path in Path("runs").glob("*-bank/run.log"))
        )
        parties.start("post", ("step-2", "after"))
        assert parties.ended("post") == -signal.SIGKILL
        parties.processes[victim].send_signal(signal.SIGTERM)
        assert parties.ended(victim) == 5, parties.said
        others = [name for name in ("bank", "shop") if name != victim]
        assert all(parties.processes[name].poll() is None for name in others)
        parties.start("post")
        parties.start(victim)
        parties.all_end_with_0()
        assert_trained(parties, whole)
        assert any(
            isinstance(event, Noted) and "waiting for" in event.text
            for event in read_events(parties.run(others[0]) / "events.jsonl")
        )


@pytest.mark.slow  # 10 s
def test_a_party_whose_disk_is_full_is_waited_for():
    """The disk of `shop` is full once, while it stores an epoch: exit code 5, and nobody else ends."""
    full = """
import errno, sys
from tacit.cli import main
from tacit.store import files
write = files.replace_file
def full(path, *data):
    if path.name == "state-2.safetensors":
        raise OSError(errno.ENOSPC, "No space left on device")
    write(path, *data)
files.replace_file = full
main()
"""
    whole = expected("deal.yaml")
    with Parties("deal.yaml", DEAL_NAMES) as parties:
        for name in ("bank", "post"):
            parties.start(name)
        Path("full.py").write_text(full)
        parties.processes["shop"] = start_script("full.py", "join", "deal.yaml", "--party", "shop", "--insecure")
        assert parties.ended("shop") == 5, parties.said
        assert "No space left on device" in parties.said["shop"]
        assert last_event(parties.run("shop")).status == "stopped"
        parties.start("shop")
        parties.all_end_with_0()
        assert_trained(parties, whole)


@pytest.mark.slow  # 10 s
def test_a_party_whose_worker_is_killed_is_waited_for():
    """As the system does where memory runs out: exit code 5, and nobody else ends."""
    whole = expected("deal.yaml")
    killing = """
import multiprocessing, os, signal
from tacit.cli import main
from tacit.crypto.paillier import Workers
if __name__ == "__main__":
    encrypt, steps = Workers.encrypt, []
    def killed(workers, key, values):
        steps.append(len(values))
        if len(steps) == 2:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        return encrypt(workers, key, values)
    Workers.encrypt = killed
    main()
"""
    Path("killing.py").write_text(killing)
    with Parties("deal.yaml", DEAL_NAMES) as parties:
        for name in ("shop", "post"):
            parties.start(name)
        words = ("join", "deal.yaml", "--party", "bank", "--insecure", "--set", "paillier.workers=2")
        parties.processes["bank"] = start_script("killing.py", *words)
        assert parties.ended("bank") == 5, parties.said
        assert "A worker process of this party was killed" in parties.said["bank"]
        assert "Traceback" not in parties.said["bank"]
        assert last_event(parties.run("bank")).status == "stopped"
        parties.start("bank")
        parties.all_end_with_0()
        assert_trained(parties, whole)


@pytest.mark.slow  # 10 s
def test_a_party_whose_journal_is_damaged_ends_alone():
    whole = expected("deal.yaml")
    with Parties("deal.yaml", DEAL_NAMES) as parties:
        for name in ("bank", "post"):
            parties.start(name)
        parties.start("shop", ("step-2", "after"))
        assert parties.ended("shop") == -signal.SIGKILL
        journal = parties.run("shop") / "journal"
        page = journal / "step-2"
        page.write_bytes(page.read_bytes()[:-1])
        parties.start("shop")
        assert parties.ended("shop") == 2, parties.said
        assert f"{page}: this file is damaged: put it back, or remove the folder {journal}" in parties.said["shop"]
        assert all(parties.processes[name].poll() is None for name in ("bank", "post"))
        shutil.rmtree(journal)
        parties.start("shop")
        parties.all_end_with_0()
        assert_trained(parties, whole)


def test_a_party_that_waits_in_vain_can_be_started_again():
    with Parties("deal.yaml", DEAL_NAMES, "--set", "network.patience=2") as parties:
        parties.start("bank")
        assert parties.ended("bank") == 5
        assert "waited 2 s for shop, post" in parties.said["bank"]
        assert last_event(parties.run("bank")).status == "stopped"


@pytest.mark.slow  # 10 s
def test_a_party_that_is_started_anew_where_the_others_resume_ends_alone():
    with Parties("deal.yaml", DEAL_NAMES) as parties:
        for name in ("bank", "post"):
            parties.start(name)
        parties.start("shop", ("step-2", "after"))
        assert parties.ended("shop") == -signal.SIGKILL
        parties.run("shop").rename("elsewhere")
        parties.start("shop")
        assert parties.ended("shop") == 2
        assert (
            "shop holds no part of the training that bank resumes: start it with --resume RUN" in parties.said["shop"]
        )
        assert all(parties.processes[name].poll() is None for name in ("bank", "post"))
        for path in Path("runs").glob("*-shop"):
            path.rename("anew")
        Path("elsewhere").rename("runs/0-shop")
        parties.start("shop")
        parties.all_end_with_0()


def test_an_error_for_good_ends_the_others():
    with Parties("deal.yaml", DEAL_NAMES, "--set", "train.learning_rate=1e9", "--set", "scale=false") as parties:
        for name in DEAL_NAMES:
            parties.start(name)
        codes = {name: parties.ended(name) for name in DEAL_NAMES}
        assert 5 not in codes.values(), (codes, parties.said)
        assert 3 in codes.values(), (codes, parties.said)


@pytest.mark.slow  # 10 s
def test_a_finished_party_that_never_heard_of_the_others_ends_by_itself():
    with Parties("deal.yaml", DEAL_NAMES) as parties:
        for name in DEAL_NAMES:
            parties.start(name)
        parties.all_end_with_0()
        store = Store(parties.run("shop"))
        state, model = store.stored()
        assert state.pop("confirmed")
        store.save(model, state, store.ledger())
    with Parties("deal.yaml", ["shop"], "--set", "network.patience=2") as parties:
        parties.start("shop")
        assert parties.ended("shop") == 0, parties.said
        assert "this party has finished, and ends" in parties.log("shop")


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("bank", "nothing"),
        ("shop", "nothing"),
        ("bank", "event"),
        ("shop", "event"),
        ("shop", "page"),
        ("client-7", "event"),  # no client of a horizontal federation, and no coordinator
        ("coordinator", "event"),
    ],
)
def test_a_finished_party_that_is_started_again_ends_with_0(name, missing):
    """At once: nobody is there to be met. It writes what a kill after its last state left out."""
    file = Path("deal.yaml")
    if name not in DEAL_NAMES:
        file.write_text(file.read_text().replace("  shop:", f"  {name}:"))
    whole = tacit.run(file, runs="whole").directory
    shutil.copytree(whole / name, "state")
    for copied in ("config.yaml", "environment.json", "events.jsonl", "run.log", "report.html"):
        shutil.copy(whole / copied, "state")
    Path("state/party").write_text(f"{name}\n")
    lines = Path("state/events.jsonl").read_text().splitlines(keepends=True)
    if missing == "event":
        Path("state/events.jsonl").write_text("".join(line for line in lines if "RunFinished" not in line))
    if missing == "page":
        Path("state/report.html").unlink()
    done = invoke("join", "deal.yaml", "--party", name, "--insecure", "--state", "state", "--set", "network.patience=1")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("state: all 3 epochs are done")
    assert done.stderr == ""
    assert last_event(Path("state")) == RunFinished("done", EPOCHS, last_event(Path("state")).seconds, "", "epochs")
    assert Path("state/report.html").exists()
    assert len(Path("state/events.jsonl").read_text().splitlines()) == len(lines)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_all_parties_in_one_process_killed_while_one_stores_its_last_state(moment):
    whole = expected("deal.yaml")
    process = start_doomed(LAST, moment, "run", "deal.yaml", "--quiet")
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL, out + err
    (run,) = Path("runs").iterdir()
    done = invoke("run", "--resume", str(run), "--quiet")
    assert done.exit_code == 0, done.output
    for name in DEAL_NAMES:
        found = safetensors.numpy.load_file(run / name / "model.safetensors")
        assert np.array_equal(found["weights"], whole[name]["weights"])
        assert not (run / name / "journal").exists()


@pytest.mark.slow  # 3 minutes
@pytest.mark.parametrize("victim", ["hospital", "laboratory"])
@pytest.mark.parametrize("file", ["example", "starter"])
def test_the_example_and_the_starter_survive_five_kills_of_any_party(file, victim):
    text = (EXAMPLES / "vertical_cancer.yaml").read_text() if file == "example" else find("vertical_logistic").starter()
    # Under Paillier, whose journal has these steps. test_shared_interruptions.py kills parties on shares.
    text = text.replace("protocol: shared", "protocol: masked").replace("helper: none", "")
    Path("cancer.yaml").write_text(text.replace("127.0.0.1:8443", f"127.0.0.1:{free_port()}"))
    names = ("hospital", "laboratory")
    dooms = [
        ("step-0", "after"),
        ("step-4", "before"),
        ("step-6", "after"),
        ("step-10", "after"),
        ("step-18", "before"),
    ]
    with Parties("cancer.yaml", names, "--set", "paillier.bits=512", "--set", "paillier.workers=1") as parties:
        parties.start(names[1 - names.index(victim)])
        for doom in dooms:
            parties.start(victim, doom)
            assert parties.ended(victim) == -signal.SIGKILL, (doom, parties.said)
        parties.start(victim)
        parties.all_end_with_0()
        epochs = parties.state("hospital")["round"]
        assert {parties.state(name)["begun"] for name in names} == {epochs}
        measured = [e for e in read_events(parties.run("hospital") / "events.jsonl") if isinstance(e, EpochFinished)]
        assert measured[-1].local["auc"] > 0.97
