"""A private training by its file: run, plan, report, stop, kill, resume, and input that is refused in a sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
import safetensors.numpy
from dp_accounting.pld import pld_privacy_accountant

import tacit
from tacit.events import EpochFinished, Kept, RunFinished, Stepped, TrainingResumed
from tacit.kinds.private_training import run as private_training
from tacit.report.epochs_view import epochs_of
from tacit.runs.export import read_exported
from tacit.runs.load import load
from tacit.runs.report import read_run, write_report
from tacit.runs.run import execute
from tacit.store.directory import RunDirectory, read_events
from tests.commands import invoke
from tests.subprocesses import kill, launch, until

pytest.importorskip("torch")

SMALL = {
    "kind": "private_training",
    "name": "small",
    "task": "digits",
    "privacy": {"noise_multiplier": 2.0},
    "train": {"epochs": 2, "batch": 250, "learning_rate": 2.0},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return tacit.run(SMALL, runs=tmp_path_factory.mktemp("runs"))


def test_a_run_leaves_a_model_a_ledger_and_a_page(finished):
    assert finished.status == "done"
    assert [event.epoch for event in finished.history] == [0, 1]
    assert finished.history[-1].metrics["accuracy"] > 0.5
    assert set(finished.model) == {"0.weight", "0.bias", "4.weight", "4.bias"}
    stored = safetensors.numpy.load_file(finished.directory / "model.safetensors")
    assert all(np.array_equal(stored[name], array) for name, array in finished.model.items())
    assert (
        "digits" in (finished.directory / "report.html").read_text()
        or "small" in (finished.directory / "report.html").read_text()
    )


def test_the_ledger_says_what_dp_accounting_says(finished):
    (ledger,) = finished.ledger["ledgers"]
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-4)
    step = dp_accounting.PoissonSampledDpEvent(250 / 1500, dp_accounting.GaussianDpEvent(2.0))
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, 12))
    assert ledger["epsilon"] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    assert (ledger["unit"], ledger["relation"], ledger["tier"]) == ("record", "add-remove", "fast")
    stored = json.loads((finished.directory / "ledger.json").read_text())
    assert stored.pop("sha256")
    assert stored == finished.ledger


def test_the_epsilon_that_was_asked_for_is_reached_and_not_exceeded(tmp_path):
    outcome = tacit.run(SMALL | {"privacy": {"epsilon": 2.0}}, runs=tmp_path)
    (ledger,) = outcome.ledger["ledgers"]
    assert 1.99 <= ledger["epsilon"] <= 2.0


def test_what_is_shared_leaves_out_what_derives_from_private_records(finished):
    whole = write_report([finished.directory]).read_text()
    shared = write_report([finished.directory], share=True).read_text()
    assert "Training loss" in whole
    assert "Loss of steps" not in shared
    assert "Training loss" not in shared
    assert "Accuracy" in shared
    names = {figure.name for figure in read_exported(finished.directory, share=True).figures}
    assert names == {"metrics/accuracy", "metrics/loss", "epsilon", "delta"}
    assert "local/training loss" in {figure.name for figure in read_exported(finished.directory).figures}


def test_two_trainings_side_by_side_and_none_beside_a_federation(finished, tmp_path):
    page = write_report([finished.directory, finished.directory], tmp_path / "both.html")
    assert "comparison" in page.read_text()
    federation = tacit.run({"kind": "horizontal", "task": "digits", "rounds": 1, "clients": 3}, runs=tmp_path)
    with pytest.raises(ValueError, match="a federation and a training"):
        write_report([finished.directory, federation.directory], tmp_path / "none.html")


def test_the_plan_says_what_the_run_costs(finished, tmp_path):
    (tmp_path / "file.yaml").write_text(json.dumps(SMALL))
    result = invoke("plan", str(tmp_path / "file.yaml"), "--json")
    planned = json.loads(result.stdout)
    assert planned["epsilon"] == pytest.approx(finished.ledger["ledgers"][0]["epsilon"], rel=1e-9)
    assert planned["steps"] == 12
    words = invoke("plan", str(tmp_path / "file.yaml")).stdout
    assert "What it costs in privacy" in words
    assert "Tier fast" in words


def test_a_training_that_was_stopped_goes_on_to_the_same_number_of_steps(tmp_path, monkeypatch):
    calls = iter([False] * 8 + [True] * 100)
    monkeypatch.setattr(threading.Event, "is_set", lambda event: next(calls))  # asked to stop within the second epoch
    stopped = tacit.run(SMALL, runs=tmp_path)
    assert stopped.status == "stopped"
    assert stopped.ledger["ledgers"][0]["lines"][0]["count"] == 9
    monkeypatch.undo()
    resumed = tacit.run(resume=stopped.directory)
    assert resumed.status == "done"
    assert resumed.ledger["ledgers"][0]["lines"][0]["count"] == 12
    events = list(read_events(resumed.directory / "events.jsonl"))
    assert TrainingResumed(1, 3) in events
    assert epochs_of(read_run(resumed.directory)).resumed == 1
    assert len(resumed.history) == 2


def test_killed_at_any_moment_the_ledger_is_not_below_what_the_stored_model_saw(tmp_path):
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps(SMALL | {"train": {"epochs": 2000, "batch": 250, "learning_rate": 1.0}}))
    command = [sys.executable, "-m", "tacit", "run", str(file), "--runs", str(tmp_path / "runs"), "--quiet"]
    process = launch(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    until(lambda: any(_epochs(ledger.parent) for ledger in (tmp_path / "runs").glob("*/ledger.json")), process)
    kill(process)
    assert process.returncode == -signal.SIGKILL
    (run,) = (tmp_path / "runs").iterdir()
    with RunDirectory.reopen(run) as directory:
        state, _ = directory.store.stored()
    counted = json.loads((run / "ledger.json").read_text())["ledgers"][0]["lines"][0]["count"]
    assert counted >= state["steps"] > 0
    epochs = state["steps"] // 6 + 2
    result = invoke("run", "--resume", str(run), "--quiet", "--set", f"train.epochs={epochs}")
    assert result.exit_code == 0, result.output
    assert json.loads((run / "ledger.json").read_text())["ledgers"][0]["lines"][0]["count"] == 6 * epochs


def _epochs(run: Path) -> int:
    return sum(isinstance(event, EpochFinished) for event in read_events(run / "events.jsonl"))


def test_a_budget_stops_the_training_before_it_is_exceeded(tmp_path):
    (tmp_path / "file.yaml").write_text(json.dumps(SMALL | {"monitor": {"budget": 1.0}}))
    result = invoke("run", str(tmp_path / "file.yaml"), "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 4, result.output
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "ledger.json").read_text())["ledgers"][0]["epsilon"] <= 1.0
    last = list(read_events(run / "events.jsonl"))[-1]
    assert isinstance(last, RunFinished)
    assert last.status == "budget reached"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"privacy": {}}, "give either epsilon"),
        ({"privacy": {"epsilon": 3, "noise_multiplier": 1}}, "give either epsilon"),
        ({"noise": {"kind": "adaptive"}}, "decay"),
        ({"noise": {"decay": "Time", "rate": 0.1}}, "decay"),
        ({"train": {"batch": 5000}}, "batch"),
        ({"task": "nothing"}, "not known"),
        ({"monitor": {"method": "zcdp"}}, "subsampling"),
    ],
)
def test_bad_input_is_answered_by_a_sentence(tmp_path, change, words):
    (tmp_path / "file.yaml").write_text(json.dumps(SMALL | change))
    result = invoke("run", str(tmp_path / "file.yaml"), "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output


def test_join_says_that_there_is_one_party(tmp_path):
    (tmp_path / "file.yaml").write_text(json.dumps(SMALL))
    result = invoke("join", str(tmp_path / "file.yaml"), "--party", "me", "--insecure")
    assert result.exit_code == 2
    assert "one party" in result.output


@pytest.mark.parametrize(
    "change",
    [
        {"noise": {"kind": "adaptive", "decay": "Exp", "rate": 0.02}},
        {"clip": {"norm": 1.0, "adapt": "Geometric", "quantile": 0.5, "rate": 0.2}},
        {"clip": {"norm": 1.0, "adapt": "Linear", "quantile": 0.5, "rate": 0.2}, "train": {"optimizer": "adam"}},
        {"privacy": {"noise_multiplier": 1.0, "tier": "secure"}},
        {"privacy": {"epsilon": 50, "sampling": "shuffled"}, "noise": {"kind": "laplace"}},
        {"privacy": {"epsilon": 8, "sampling": "shuffled"}, "monitor": {"method": "zcdp"}},
        {"train": {"physical": 64, "batch": 250, "epochs": 1}},
    ],
)
def test_every_option_of_the_file_trains(tmp_path, change):
    train = {"epochs": 1, "batch": 250, "learning_rate": 0.5} | change.get("train", {})
    kept = Kept()
    settings = load(SMALL | change | {"train": train})
    outcome = execute(settings, sink=kept, directory=None)
    assert outcome.status == "done", outcome.text
    (ledger,) = outcome.ledger["ledgers"]
    assert ledger["epsilon"] > 0
    assert any(isinstance(event, Stepped) for event in kept.events)


def test_a_finished_run_with_a_given_noise_goes_on_for_more_epochs(tmp_path):
    small = SMALL | {"train": {"epochs": 1, "batch": 500}}
    run = tacit.run(small, runs=tmp_path).directory
    result = invoke("run", "--resume", str(run), "--set", "train.epochs=2", "--quiet")
    assert result.exit_code == 0, result.output
    assert json.loads((run / "ledger.json").read_text())["ledgers"][0]["lines"][0]["count"] == 6


def test_a_run_whose_noise_falls_keeps_its_epochs():
    falling = load(SMALL | {"noise": {"kind": "adaptive", "decay": "Exp", "rate": 0.02}})
    assert "train.epochs" not in private_training.may_change(falling)


def planned(**changes):
    return private_training.forecast(load(SMALL | changes))


def test_a_plan_names_the_relation_and_the_noise_that_hold():
    shuffled = planned(privacy={"noise_multiplier": 2.0, "sampling": "shuffled"})
    assert "(unit record, zero-out)" in shuffled.parts["What it costs in privacy"][0]
    assert "(unit record, add-remove)" in planned().parts["What it costs in privacy"][0]
    adaptive = planned(clip={"adapt": "Linear", "count_noise": 0.005})  # the count takes more than half of z = 2
    assert "noise of 3.333 to" in adaptive.parts["What the noise does"][0]
    assert planned(noise={"kind": "laplace"}).figures["tier"] == "secure"


@pytest.mark.parametrize(
    "change", [{"monitor": {"method": "zcdp"}}, {"clip": {"adapt": "Linear"}, "train": {"batch": 4}}]
)
def test_a_plan_refuses_what_a_run_refuses(change):
    with pytest.raises(ValueError, match=r"subsampling|count_noise"):
        planned(**change)


def test_a_plan_says_how_it_clips_and_what_is_cut():
    train = {"epochs": 2, "batch": 250, "truncate": 400}
    given = planned(clip={"kind": "per_layer"}, train=train, privacy={"epsilon": 3.0})
    assert "clipped layer by layer, together to 1" in given.parts["What the noise does"][0]
    assert any("all batches have 400 records" in each for each in given.parts["How it samples"])


def test_a_run_cuts_samples_and_clips_layer_by_layer(tmp_path):
    train = {"epochs": 1, "batch": 250, "truncate": 400, "optimizer": "adam_bc", "learning_rate": 0.01}
    outcome = tacit.run(SMALL | {"clip": {"kind": "per_layer"}, "train": train}, runs=tmp_path)
    assert outcome.status == "done"
    (ledger,) = outcome.ledger["ledgers"]
    assert all(line["log2_slack"] > -200 for line in ledger["lines"])
