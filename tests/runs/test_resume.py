"""A run that stopped goes on: to the same end where it stopped between rounds, and never with less in its ledger."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tacit
from tacit.config.source import ConfigError
from tacit.events import Kept, Noted, RoundFinished, RunFinished, RunResumed
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.runs.load import load
from tacit.store.directory import RunDirectory, read_events
from tests.commands import invoke
from tests.inside import inside
from tests.store.crash_points import killed_at
from tests.subprocesses import HANGS, kill, launch, until

SMALL = {
    "kind": "horizontal",
    "name": "small",
    "task": "digits",
    "rounds": 5,
    "clients": 12,
    "train": {"epochs": 1, "batch": 16, "learning_rate": 0.5},
}
INSECURE = {"simulation": {"insecure_noise_seed": 3, "dropout": 0.1}}
PROTECTIONS = {
    "NOT_ENCRYPT": {},
    "DP_ENCRYPT": {"dp_eps": 5.0, "adaptive": True},
    "PW_ENCRYPT": {},
    "DDP_ENCRYPT": {"ddp_eps": 50.0},
}


def stopped(monkeypatch, config, runs, after: int, inside: bool = False) -> Path:
    """The directory of a run that was stopped after so many rounds: before the next one, or inside it."""
    original = MemoryEngine._round

    def interrupted(self, outgoing):
        if inside and self.coordinator.round == after:
            self._should_stop = lambda: True
        original(self, outgoing)
        if not inside and self.coordinator.round == after:
            self.coordinator.begin = lambda now: (_ for _ in ()).throw(KeyboardInterrupt)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryEngine, "_round", interrupted)
        run = tacit.run(config, runs=runs)
    assert run.status == "stopped"
    return run.directory


def counts(folder: Path) -> list[int]:
    return [line["count"] for ledger in _ledgers(folder) for line in ledger["lines"]]


def _ledgers(folder: Path) -> list[dict]:
    return json.loads((folder / "ledger.json").read_text())["ledgers"]


@pytest.mark.parametrize("encrypt_type", list(PROTECTIONS))
@pytest.mark.parametrize("server", [pytest.param("average", marks=pytest.mark.slow), "momentum", "adam"])
def test_stopped_between_rounds_it_comes_to_the_same_end(tmp_path, monkeypatch, encrypt_type, server):
    encrypt = {"encrypt_type": encrypt_type} | PROTECTIONS[encrypt_type]
    config = SMALL | INSECURE | {"encrypt": encrypt, "server": {"kind": server, "learning_rate": 0.5}}
    whole = tacit.run(config, runs=tmp_path)
    folder = stopped(monkeypatch, config, tmp_path, after=2)
    run = tacit.run(resume=folder)
    assert run.status == "done"
    assert run.directory == folder
    for name, array in whole.model.items():
        np.testing.assert_array_equal(run.model[name], array)
    assert run.ledger == whole.ledger
    assert [event.metrics for event in run.history] == [event.metrics for event in whole.history]
    assert RunResumed(2, False) in list(read_events(folder / "events.jsonl"))


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "PW_ENCRYPT"])
def test_stopped_inside_a_round_it_is_done_again_and_paid_twice(tmp_path, monkeypatch, encrypt_type):
    config = SMALL | {"encrypt": {"encrypt_type": encrypt_type, "dp_eps": 5.0}}
    folder = stopped(monkeypatch, config, tmp_path, after=2, inside=True)
    assert counts(folder) == ([3] if encrypt_type == "DP_ENCRYPT" else [])
    run = tacit.run(resume=folder)
    assert run.status == "done"
    assert [event.round for event in run.history] == list(range(5))
    assert counts(folder) == ([6] if encrypt_type == "DP_ENCRYPT" else [])
    assert RunResumed(2, True) in list(read_events(folder / "events.jsonl"))


def test_a_round_that_is_done_again_has_fresh_noise(tmp_path, monkeypatch):
    """Even under a noise seed: the noise of two uploads must differ, or their difference is free of it."""
    sent = []
    original = MemoryEngine._answer

    def recorded(self, identity, message, fate):
        answers = original(self, identity, message, fate)
        sent.extend((identity, answer.round, answer.vector) for answer in answers)
        return answers

    monkeypatch.setattr(MemoryEngine, "_answer", recorded)
    config = SMALL | INSECURE | {"encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 0.1}}
    folder = stopped(monkeypatch, config, tmp_path, after=0, inside=True)
    tacit.run(resume=folder)
    first = [vector for identity, number, vector in sent if identity == 5 and number in (0, 1)]
    assert len(first) >= 1
    assert len({vector.tobytes() for _, _, vector in sent}) == len(sent)


def test_a_budget_holds_over_stops(tmp_path, monkeypatch):
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}
    config = SMALL | {"rounds": 50, "encrypt": encrypt, "budget": {"epsilon": 3.0}}
    whole = tacit.run(config, runs=tmp_path)
    folder = stopped(monkeypatch, config, tmp_path, after=2, inside=True)
    run = tacit.run(resume=folder)
    assert run.status == whole.status == "budget reached"
    assert len(run.history) == len(whole.history) - 1
    assert counts(folder) == counts(whole.directory)


def test_a_finished_run_can_train_on(tmp_path):
    whole = tacit.run(SMALL | {"rounds": 6}, runs=tmp_path)
    short = tacit.run(SMALL | {"rounds": 4}, runs=tmp_path)
    assert tacit.run(resume=short.directory).status == "done"  # nothing is left to do
    run = tacit.run(resume=short.directory, overrides=["rounds=6"])
    np.testing.assert_array_equal(run.model["weights"], whole.model["weights"])
    assert inside(load(short.directory / "config.yaml")).rounds == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 9}, "seed was 0 when the run began, and is 9 now"),
        ({"encrypt": {"encrypt_type": "NOT_ENCRYPT"}}, "encrypt.encrypt_type was 'DDP_ENCRYPT'"),
        ({"rounds": 9}, "rounds was 5 when the run began, for which its noise was sized, and is 9 now"),
        (
            {"task_options": {"split": "dirichlet"}},
            "task_options.split was None when the run began, and is 'dirichlet' now",
        ),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path, monkeypatch, change, words):
    config = SMALL | {"encrypt": {"encrypt_type": "DDP_ENCRYPT"}}
    folder = stopped(monkeypatch, config, tmp_path, after=1)
    with pytest.raises(ConfigError, match=words):
        tacit.run(config | change, resume=folder)
    assert load(folder / "config.yaml") == load(config)  # a refusal changes nothing
    assert tacit.run(config, resume=folder).status == "done"


@pytest.mark.parametrize("rounds", [2, 3])  # the run is done, or resumed
def test_a_file_that_a_run_is_resumed_with_is_compared_with_what_it_stored(tmp_path, rounds):
    run = tacit.run(SMALL | {"rounds": 2}, runs=tmp_path / "runs").directory
    same, other, another = (tmp_path / f"{name}.yaml" for name in ("same", "other", "another"))
    same.write_text(json.dumps(SMALL | {"rounds": 2}))
    other.write_text(json.dumps(SMALL | {"seed": 9}))
    another.write_text("kind: private_training\ntask: digits\nprivacy: {epsilon: 3, delta: 1.0e-5}\n")
    longer = ("--set", f"rounds={rounds}")
    for file, changes, words in (
        (other, longer, f"{other} is not the file of this run: seed was 0 when it began, and is 9 there"),
        (another, (), f"{another} is not the file of this run: kind was 'horizontal' when it began"),
    ):
        done = invoke("run", str(file), "--resume", str(run), "--quiet", *changes)
        assert done.exit_code == 0
        assert words in done.stderr
    done = invoke("run", str(same), "--resume", str(run), "--quiet")
    assert done.exit_code == 0
    assert "is not the file" not in done.stderr
    tacit.run(str(other), resume=run)
    assert any(isinstance(event, Noted) and "seed was 0" in event.text for event in read_events(run / "events.jsonl"))
    assert inside(load(run / "config.yaml")).seed == 0


def test_what_is_no_run_or_a_broken_one_is_said_in_a_sentence(tmp_path, monkeypatch):
    done = invoke("run", "--resume", str(tmp_path / "none"))
    assert (done.exit_code, done.stderr) == (
        2,
        f"{tmp_path / 'none'}: there is no such folder: give the folder of a run, such as runs/<time>-<name>\n",
    )
    folder = stopped(monkeypatch, SMALL, tmp_path, after=1)
    broken = tmp_path / "broken"
    for name in ("model.safetensors", "state-1.safetensors"):
        shutil.copytree(folder, broken)
        (broken / name).write_bytes(b"\x08\0\0\0\0\0\0\0garbage")
        done = invoke("run", "--resume", str(broken))
        assert done.exit_code == 2
        assert f"{name}: this file is damaged or missing" in done.stderr
        shutil.rmtree(broken)
    with RunDirectory.reopen(folder) as held:
        held.emit(RunFinished("stopped", 1, 0.0))
        done = invoke("run", "--resume", str(folder))
    assert done.exit_code == 2
    assert "another process is writing there" in done.stderr
    assert invoke("run", "--resume", str(folder)).exit_code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: this file is damaged or missing"),
        (
            lambda folder: (folder / "state-2.safetensors").unlink(),
            "state-2.safetensors: this file is damaged or missing",
        ),
        (lambda folder: (folder / "events.jsonl").write_text("garbage\n"), "events.jsonl:1: this line is not an event"),
        (
            lambda folder: (folder / "config.yaml").write_text(
                (folder / "config.yaml").read_text().replace("dp_eps: 5.0", "dp_eps: 0.1")
            ),
            "config.yaml: it was changed since the run began",
        ),
        (
            lambda folder: (
                (folder / "ledger.json").unlink(),
                (folder / "ledger.json").symlink_to(folder.parent / "other.json"),
            ),
            "a run's files must not be links",
        ),
    ],
)
def test_a_directory_that_was_tampered_with_is_refused_and_left_alone(tmp_path, monkeypatch, change, words):
    config = SMALL | {"encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 5.0}}
    folder = stopped(monkeypatch, config, tmp_path, after=2)
    change(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(ConfigError, match=words):
        tacit.run(resume=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "change",
    [
        {"sums": -3},
        {"attempts": 0, "round": 1},
        {"clip": float("nan")},
        {"clip": 99.0},
        {"uploads": np.array([-5] * 12)},
        {"clients": np.arange(12) + 5},
        {"first": np.zeros(3)},
        {"second": np.full(650, -1.0)},
    ],
)
def test_a_state_that_cannot_be_is_refused(change):
    settings = load(SMALL | {"server": {"kind": "adam"}, "encrypt": {"encrypt_type": "DP_ENCRYPT"}})
    task = tasks.make("digits", 12, 0, {})
    engine = MemoryEngine(settings, task, Kept())
    engine.coordinator.begin(0.0)
    state = engine.coordinator.state()
    MemoryEngine(settings, task, Kept()).restore(state, task.model())
    with pytest.raises(ValueError, match="stored"):
        MemoryEngine(settings, task, Kept()).restore(state | {"round": 0, "attempts": 2} | change, task.model())


def test_a_settings_change_that_is_refused_later_is_not_stored(tmp_path, monkeypatch):
    folder = stopped(monkeypatch, SMALL, tmp_path, after=3)
    with pytest.raises(ConfigError, match=r"all 3 rounds are done.*fewer cannot be asked for afterwards"):
        tacit.run(resume=folder, overrides=["rounds=2"])
    assert inside(load(folder / "config.yaml")).rounds == 5


def test_a_line_that_was_cut_off_is_cut_away(tmp_path, monkeypatch):
    folder = stopped(monkeypatch, SMALL, tmp_path, after=1)
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"event": "Noted", "te')
    tacit.run(resume=folder)
    assert isinstance(list(read_events(folder / "events.jsonl"))[-1], RunFinished)


def test_killed_before_its_first_round_it_starts_from_the_beginning(tmp_path):
    settings = load(SMALL)
    RunDirectory.create(tmp_path, settings, time.time()).close()
    (folder,) = tmp_path.iterdir()
    run = tacit.run(resume=folder)
    assert [event.round for event in run.history] == list(range(5))


# --- killed at any moment


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 9])  # 20 s for all
def test_killed_between_any_two_steps_on_disk_it_goes_on(tmp_path, monkeypatch, stride):
    """Each replacing, synchronising and removing of a file in turn is the last thing that happens, or each fifth."""
    config = SMALL | {
        "rounds": 2,
        "clients": 3,
        "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 5.0},
        "server": {"kind": "adam", "learning_rate": 0.05},
    }
    trained = Counter()
    fit = MemoryEngine._answer

    def told(self, identity, message, fate):
        trained[identity] += 1
        return fit(self, identity, message, fate)

    monkeypatch.setattr(MemoryEngine, "_answer", told)
    for last in itertools.count(1, stride):
        trained = Counter()
        runs = tmp_path / str(last)
        with killed_at(last, monkeypatch) as reached:
            tacit.run(config, runs=runs)
        if not reached():
            break
        folder = next(runs.iterdir(), None)
        if folder is None or not (folder / "config.yaml").exists():
            continue  # it was not yet a run
        paid = counts(folder) if (folder / "ledger.json").exists() else []
        assert max(trained.values(), default=0) <= (paid[0] if paid else 0)
        state = RunDirectory.reopen(folder)
        done = (state.store.stored() or ({"round": 0}, {}))[0]["round"]
        state.close()
        if done < 2:
            assert tacit.run(resume=folder).status == "done"
            assert max(trained.values()) <= counts(folder)[0] <= 3
        assert not list(folder.glob(".*"))
    assert last > 30


TASK = """
import os
import time
from tacit import tasks

class Told:
    def __init__(self, task, log):
        self._task, self._log, self._trained = task, log, 0
    def model(self):
        return self._task.model()
    def evaluate(self, model):
        return self._task.evaluate(model)
    def fit(self, client, model, work):
        os.write(self._log, b"%d\\n" % client)  # nothing leaves a client before it has trained
        self._trained += 1
        if self._trained == 300 and "TO_THE_END" not in os.environ:
            time.sleep(3600)  # 10 rounds are the most that a process does before it is killed
        return self._task.fit(client, model, work)

def make_task(clients, seed, log):
    return Told(tasks.make("digits", clients, seed, {}), os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 20])
def test_killed_at_random_moments_nothing_breaks_and_nothing_is_forgotten(tmp_path, kills):
    """SIGKILL, resumed each time. What was trained, and so may have left, is in the ledger on disk."""
    (tmp_path / "told.py").write_text(TASK)
    log, rounds = tmp_path / "trained", 12 * kills
    config = SMALL | {
        "task": "told:make_task",
        "task_options": {"log": str(log)},
        "rounds": rounds,
        "clients": 30,
        "round": {"abandoned_rounds": 100},
        "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 2.0, "dp_delta": 1e-3},
        "server": {"kind": "adam", "learning_rate": 0.05},
    }
    RunDirectory.create(tmp_path / "runs", load(config), time.time()).close()
    (folder,) = (tmp_path / "runs").iterdir()
    chance = random.Random(7)

    def start(**environment: str) -> subprocess.Popen:
        return launch(
            [sys.executable, "-m", "tacit", "run", "--resume", str(folder), "--quiet"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
            cwd=tmp_path,
        )

    def check_nothing_is_forgotten() -> None:
        trained = Counter(log.read_text().split()) if log.exists() else Counter()
        paid = counts(folder) if (folder / "ledger.json").exists() else []
        assert max(trained.values(), default=0) <= (paid[0] if paid else 0)

    for _ in range(kills):
        before = (folder / "events.jsonl").stat().st_size
        running = start()
        until(lambda before=before: (folder / "events.jsonl").stat().st_size > before, running)  # type: ignore[misc]
        time.sleep(chance.uniform(0, 0.4))
        kill(running)
        assert running.returncode == -signal.SIGKILL, running.communicate()
        check_nothing_is_forgotten()
        list(read_events(folder / "events.jsonl"))
        if (folder / "model.safetensors").exists():
            safetensors.numpy.load_file(folder / "model.safetensors")
    running = start(TO_THE_END="yes")
    _, errors = running.communicate(timeout=HANGS)
    assert running.returncode == 0, errors
    check_nothing_is_forgotten()
    happened = list(read_events(folder / "events.jsonl"))
    assert happened[-1].status == "done"
    assert {event.round for event in happened if isinstance(event, RoundFinished)} == set(range(rounds))
    resumptions = sum(isinstance(event, RunResumed) for event in happened)
    assert rounds <= counts(folder)[0] <= rounds + resumptions
    assert not list(folder.glob(".*"))
