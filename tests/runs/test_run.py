"""Whole runs through the directory: what is stored says what was spent, in full."""

from __future__ import annotations

import json

import pytest
import safetensors.numpy

import tacit
from tacit.events import BudgetReached, RunFinished
from tacit.store.directory import read_events

DIGITS = {
    "kind": "horizontal",
    "name": "small",
    "task": "digits",
    "rounds": 2,
    "clients": 12,
    "train": {"epochs": 1, "batch": 16, "learning_rate": 0.5},
}


def test_a_run_from_python(tmp_path):
    run = tacit.run(DIGITS, runs=tmp_path)
    assert run.status == "done"
    assert [event.round for event in run.history] == [0, 1]
    stored = safetensors.numpy.load_file(run.directory / "model.safetensors")
    assert all((stored[name] == array).all() for name, array in run.model.items())
    assert run.ledger == {"version": 1, "ledgers": [], "attempts": 2, "sums": 0}


def test_a_run_whose_task_lies_beside_its_file_is_resumed_with_that_file(here):
    (here / "files").mkdir()
    (here / "files" / "tacit_test_beside.py").write_text("from tacit.kinds.horizontal.tasks.digits import make_task\n")
    file = here / "files" / "small.yaml"
    file.write_text(json.dumps(DIGITS | {"task": "tacit_test_beside:make_task"}))
    first = tacit.run(file)
    with pytest.raises(ValueError, match="install it, or start in the folder that holds it"):
        tacit.run(resume=first.directory, overrides=["rounds=3"])
    file.write_text(json.dumps(DIGITS | {"task": "tacit_test_beside:make_task", "clients": 99}))
    again = tacit.run(file, resume=first.directory, overrides=["rounds=3"])
    assert again.directory == first.directory
    assert [event.round for event in again.history][-1] == 2
    assert again.history[-1].survivors == 12  # the settings are those stored


def test_the_stored_ledger_has_what_its_epsilon_needs(tmp_path):
    dp = DIGITS | {"encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}}
    run = tacit.run(dp, runs=tmp_path)
    (ledger,) = json.loads((run.directory / "ledger.json").read_text())["ledgers"]
    assert ledger["epsilon"] == run.history[-1].epsilon
    assert ledger["delta"] == 1e-3
    assert ledger["view"] == "local"
    assert ledger["covers"] == ["updates"]
    assert ledger["lines"][0]["count"] == 2
    insecure = tacit.run(dp | {"simulation": {"insecure_noise_seed": 1}}, runs=tmp_path)
    assert json.loads((insecure.directory / "ledger.json").read_text())["ledgers"][0]["epsilon"] == "infinite"


def test_a_run_that_reaches_its_budget_says_so(tmp_path):
    dp = DIGITS | {
        "rounds": 9,
        "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3},
        "budget": {"epsilon": 2.0},
    }
    run = tacit.run(dp, runs=tmp_path)
    assert run.status == "budget reached"
    assert run.history[-1].epsilon <= 2.0
    happened = list(read_events(run.directory / "events.jsonl"))
    assert isinstance(happened[-2], BudgetReached)
    assert happened[-1] == RunFinished("budget reached", len(run.history), happened[-1].seconds)


def test_what_is_spent_is_stored_before_the_first_message(tmp_path, monkeypatch):
    from tacit.kinds.horizontal.simulate import memory

    def die(self, outgoing):
        raise RuntimeError("power cut")

    monkeypatch.setattr(memory.MemoryEngine, "_round", die)
    dp = DIGITS | {"encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}}
    with pytest.raises(RuntimeError, match="power cut"):
        tacit.run(dp, runs=tmp_path)
    (folder,) = tmp_path.iterdir()
    (ledger,) = json.loads((folder / "ledger.json").read_text())["ledgers"]
    assert [line["count"] for line in ledger["lines"]] == [1]


def test_a_federation_without_enough_updates_has_failed(tmp_path):
    run = tacit.run(DIGITS | {"simulation": {"dropout": 0.95}}, runs=tmp_path)
    assert run.status == "failed"
    assert "aborted rounds" in run.text
