"""A run in a few words: its state from its events and its lock, its figures, in bounded reads, whatever it holds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tacit.events import (
    Answered,
    Curve,
    EpochFinished,
    Evaluated,
    Noted,
    Paused,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    Stepped,
    TrainingResumed,
    TrainingStarted,
    Unpaused,
)
from tacit.report.listing import listed, share_done
from tacit.store import run_summary
from tacit.store.directory import RunDirectory
from tacit.store.run_summary import Following, Measured, Spent, runs_in
from tests.inside import inside
from tests.report.sample_runs import NOW, UPDATES, VECTORS, settings, write
from tests.subprocesses import kill, launch, until

STARTED = RunStarted("fleet", "horizontal", 10, 6, "DDP_ENCRYPT", 650)
TRAINING = TrainingStarted("private", "private_training", 1, 4, 10, "gaussian noise", 650)
DONE = RunFinished("done", 6, 60.0)


def round_of(number, **changed):
    return RoundFinished(number, 9, 1, 2.0, 100, {"loss": 0.5, "accuracy": 0.25 * number}, **changed)


def summary(tmp_path, *events, ledgers=None):
    return Following(write(tmp_path, settings(), events, ledgers)).refreshed()


def test_rounds(tmp_path):
    found = summary(tmp_path, STARTED, RoundStarted(0, 10), round_of(0), round_of(1, epsilon=1.5, delta=1e-5), DONE)
    assert (found.state, found.kind, found.protection, found.name) == ("done", "horizontal", "DDP_ENCRYPT", "fleet")
    assert (found.done, found.total, found.unit) == (2, 6, "rounds")
    assert found.measured == Measured("accuracy", 0.25)
    assert found.spent == (Spent("updates", 1.5, 1e-5),)
    assert (found.began, found.last, found.damage, found.reason) == (NOW, NOW, "", "")


def test_the_ledger_says_what_was_spent(tmp_path):
    events = (STARTED, round_of(1, epsilon=1.0, delta=1e-5), DONE)
    found = summary(tmp_path, *events, ledgers=[UPDATES, VECTORS | {"epsilon": "infinite"}])
    assert found.spent == (Spent("updates", 2.5, 1e-5), Spent("inference vectors", float("inf"), 0.0))


def test_epochs_and_steps(tmp_path):
    events = [TRAINING, Stepped(0, 5, 10, loss=2.0), EpochFinished(0, 1.0, {"auc": 0.75}, {"training loss": 1.0}, 0.5)]
    assert summary(tmp_path, *events).measured == Measured("auc", 0.75)
    found = summary(tmp_path, *events, Stepped(1, 5, 10, loss=1.0))
    assert (found.done, found.part, found.total, found.unit) == (1, 0.5, 4, "epochs")
    assert found.spent == (Spent("model", 0.5, 0.0),)


def test_a_client_shows_its_own_epsilon_and_of_several_the_largest(tmp_path):
    answers = [Answered(client, 3, {"Update": 9}, {"updates": 2.0 - client}, {"updates": 1e-5}) for client in (0, 1)]
    found = summary(tmp_path, STARTED, *answers)
    assert (found.spent, found.done) == ((Spent("updates", 2.0, 1e-5),), 4)


def test_a_score_stands_where_there_is_no_metric(tmp_path):
    scored = Evaluated(0, "SILHOUETTE_SCORE", 0.5, "", 5, 100, 10)
    assert summary(tmp_path, STARTED, scored).measured == Measured("silhouette score", 0.5)
    assert summary(tmp_path, STARTED, round_of(1), scored).measured == Measured("accuracy", 0.25)


@pytest.mark.parametrize("status", ["done", "failed", "stopped", "budget reached"])
def test_the_state_is_what_the_last_event_says(tmp_path, status):
    found = summary(tmp_path, STARTED, round_of(0), RunFinished(status, 1, 1.0, "a reason"))
    assert (found.state, found.reason) == (status, "a reason")


def test_a_note_after_the_end_changes_no_state(tmp_path):
    assert summary(tmp_path, STARTED, DONE, Noted("report.html was not written")).state == "done"


def test_events_without_an_end_that_nobody_writes_are_of_a_run_that_was_killed(tmp_path):
    assert summary(tmp_path, STARTED, round_of(0)).state == "killed"
    assert summary(tmp_path).state == "killed"


def test_while_it_is_written_it_runs_and_what_is_new_is_read(tmp_path):
    run = RunDirectory.create(tmp_path, settings(), NOW, party="client-3")
    following = Following(run.path)
    assert (following.refreshed().state, following.refreshed().kind) == ("running", "horizontal")
    run.emit(STARTED)
    run.emit(round_of(1))
    found = following.refreshed()
    assert (found.state, found.done, found.party) == ("running", 2, "client-3")
    run.emit(RunFinished("stopped", 2, 1.0))
    assert following.refreshed().state == "stopped"
    run.emit(RunResumed(2, False))
    assert following.refreshed().state == "running"
    run.emit(RoundAborted(2, "too few", 1.0))
    run.close()
    assert (following.refreshed().state, following.refreshed().done) == ("killed", 3)


def test_a_pause_is_a_state_until_it_ends(tmp_path):
    live = RunDirectory.create(tmp_path, settings(), NOW, party="coordinator")
    follow = Following(live.path)
    for event, state in (
        (STARTED, "running"),
        (Paused("by hand"), "paused"),
        (Noted("a client came"), "paused"),
        (Unpaused(1.0), "running"),
        (Paused("by hand"), "paused"),
        (RunFinished("stopped", 0, 1.0, "by hand"), "stopped"),
        (RunResumed(0, False), "running"),
        (Paused("by hand"), "paused"),
        (RoundStarted(0, 10), "running"),
        (Paused("by hand"), "paused"),
        (Answered(0, 1, {}, {}, {}), "running"),
        (Paused("by hand"), "paused"),
    ):
        live.emit(event)
        assert (follow.refreshed().state, Following(live.path).refreshed().state) == (state, state), event
    live.close()
    assert Following(live.path).refreshed().state == "killed"


def test_a_process_that_is_killed_leaves_a_killed_run(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from tests.store.test_run_summary import *;"
        "run = RunDirectory.create(Path(sys.argv[1]), settings(), NOW); run.emit(STARTED); time.sleep(1000)"
    )
    process = launch([sys.executable, "-c", code, tmp_path], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    until(lambda: any(tmp_path.glob("*/events.jsonl")), process)
    (path,) = tmp_path.iterdir()
    following = Following(path)
    until(lambda: following.refreshed().kind == "horizontal" and following.refreshed().total, process)
    assert following.refreshed().state == "running"
    kill(process)
    assert following.refreshed().state == "killed"


def test_a_training_that_is_resumed_steps_back(tmp_path):
    finished = EpochFinished(1, 1.0, {"accuracy": 0.5})
    found = summary(tmp_path, TRAINING, finished, RunFinished("stopped", 2, 1.0), TrainingResumed(1, 5), Noted("x"))
    assert (found.done, found.state) == (1, "killed")


@pytest.mark.parametrize(
    ("began", "resumed", "config", "total"),
    [
        (STARTED, RunResumed(2, False), "rounds: 9\ntrain:\n  batch: 4\n  epochs: 70\n", 9),
        (TRAINING, TrainingResumed(1, 5), "rounds: 70\ntrain:\n  batch: 4\n  epochs: 12\n", 12),
        (TRAINING, TrainingResumed(1, 5), "train:\n  trees: 12\n  depth: 3\n", 12),
        (STARTED, RunResumed(2, False), "rounds: nine\n", 6),
    ],
)
def test_a_run_that_is_resumed_with_more_has_more(tmp_path, began, resumed, config, total):
    run = RunDirectory.create(tmp_path, settings(), NOW)
    following = Following(run.path)
    run.emit(began)
    before = following.refreshed().total
    (run.path / "config.yaml").write_text(config)
    run.emit(resumed)
    run.close()
    assert before in (4, 6)
    assert [each.refreshed().total for each in (following, Following(run.path))] == [total, total]


def test_of_a_long_file_the_ends_are_read(tmp_path, monkeypatch):
    many = [round_of(number) for number in range(500)]
    path = write(tmp_path, settings(), [STARTED, *many, DONE])
    read = []
    piece = inside(run_summary).read_piece
    monkeypatch.setattr(
        run_summary, "read_piece", lambda file, offset, limit: read.append(limit) or piece(file, offset, limit)
    )
    found = Following(path).refreshed()
    assert (found.total, found.done, found.state, found.measured.value) == (6, 500, "done", 0.25 * 499)
    size = (path / "events.jsonl").stat().st_size
    assert size > 3 * (run_summary._HEAD + run_summary._TAIL)
    assert len(read) <= 4


def test_long_lines_at_the_end_hide_no_figure(tmp_path):
    curve = Curve("roc", "x", "y", [[0.123456789, 0.987654321]] * 3000)
    found = summary(tmp_path, TRAINING, EpochFinished(3, 1.0, {"auc": 0.75}), *[Noted("x" * 900)] * 10, curve, curve)
    assert (found.measured, found.done) == (Measured("auc", 0.75), 4)


def test_results_of_a_run_that_ended_hide_no_figure(tmp_path):
    finished = [EpochFinished(number, 1.0, {"auc": 0.5 + number / 1000}) for number in range(120)]
    results = [Curve(f"curve {number}", "x", "y", [[0.123456789, 0.987654321]] * 300) for number in range(6)]
    found = summary(tmp_path, TRAINING, *finished, *results, RunFinished("done", 120, 60.0, "", "epochs"))
    assert (found.measured, found.done, found.state) == (Measured("auc", 0.619), 120, "done")


def test_rounds_of_trees_are_rounds_while_they_are_grown_too(tmp_path):
    run = RunDirectory.create(tmp_path, settings(), NOW)
    (run.path / "config.yaml").write_text("kind: vertical_trees\ntrain:\n  depth: 3\n  trees: 4\n")
    following = Following(run.path)
    for event in (TRAINING, EpochFinished(0, 1.0, {}), RunFinished("done", 1, 1.0, "", "rounds of trees")):
        run.emit(event)
        assert following.refreshed().unit == "rounds"
    run.close()


def test_a_file_that_grows_fast_is_read_at_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(run_summary, "_MOST_AT_ONCE", 50_000)
    run = RunDirectory.create(tmp_path, settings(), NOW)
    run.emit(STARTED)
    following = Following(run.path)
    following.refreshed()
    for number in range(1000):
        run.emit(round_of(number))
    told = []
    monkeypatch.setattr(
        run_summary, "folded", lambda found, each, fold=run_summary.folded: told.append(0) or fold(found, each)
    )
    assert following.refreshed().done == 1000
    assert len(told) < 200
    run.close()


# --- damage


def test_a_line_that_is_no_event_makes_a_run_damaged_unless_it_runs(tmp_path):
    run = RunDirectory.create(tmp_path, settings(), NOW)
    run.emit(STARTED)
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(b"\xff\xfe garbage\n")
    found = Following(run.path).refreshed()
    assert (found.state, found.damage, found.kind) == ("running", "events.jsonl: a line is not an event", "horizontal")
    run.close()
    assert Following(run.path).refreshed().state == "damaged"


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("kind: horizontal\n")
    assert Following(tmp_path / "a").refreshed().damage == "events.jsonl is missing"
    path = write(tmp_path, settings(), [STARTED, DONE])
    (path / "config.yaml").unlink()
    found = Following(path).refreshed()
    assert (found.state, found.damage) == ("damaged", "config.yaml is missing")


@pytest.mark.parametrize(
    "ledger",
    [
        b"\xff\xff",
        b"[" * 100_000,
        b"[]",
        b'{"ledgers": [5]}',
        b'{"ledgers": [{"epsilon": "many"}]}',
        b'{"ledgers": [{"epsilon": 1' + b"0" * 400 + b"}]}",
        b'{"ledgers": [{"epsilon": -1}]}',
        b'{"ledgers": [{"epsilon": NaN}]}',
        b'{"ledgers": [{"epsilon": 1, "delta": -1}]}',
        b'{"ledgers": [{"epsilon": 1, "delta": NaN}]}',
        b'{"ledgers": [], "sha256": "' + b"0" * 64 + b'"}',
        b" " * 5_000_000,
    ],
    ids=range(12),
)
def test_a_ledger_that_is_none_is_damage(tmp_path, ledger):
    path = write(tmp_path, settings(), [STARTED, DONE])
    (path / "ledger.json").write_bytes(ledger)
    found = Following(path).refreshed()
    assert found.state == "damaged"
    assert found.damage.startswith("ledger.json")


HUGE = int("9" * 400)  # no float
ROUND = {"event": "RoundFinished", "round": 1, "survivors": 1, "refused": 0, "seconds": 1.0, "bytes_up": 1}
ENORMOUS = [
    {"event": "Stepped", "epoch": HUGE, "step": 1, "steps": 3},
    ROUND | {"round": HUGE},
    ROUND | {"round": -HUGE},
    ROUND | {"metrics": {"accuracy": HUGE}},
    {"event": "RoundAborted", "round": HUGE, "reason": "", "seconds": 1.0},
    {"event": "TrainingResumed", "epoch": HUGE, "step": 0},
]


@pytest.mark.parametrize("event", ENORMOUS, ids=range(len(ENORMOUS)))
def test_values_that_no_run_has_are_damage(tmp_path, event):
    path = write(tmp_path, settings(), [STARTED])
    with (path / "events.jsonl").open("a") as file:
        for each in (event, {"event": "Noted", "text": "x"}):
            file.write(json.dumps(each) + "\n")
    found = Following(path).refreshed()
    assert found.damage == "events.jsonl: a line is not an event"
    assert share_done(found) == 0.0
    assert listed(found, 0.0).progress == "0/6"


def test_links_lead_nowhere(tmp_path):
    real = write(tmp_path / "elsewhere", settings(), [STARTED, DONE])
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "linked").symlink_to(real)
    (runs / "made-of-links").mkdir()
    for name in ("config.yaml", "events.jsonl"):
        (runs / "made-of-links" / name).symlink_to(real / name)
    (runs / "no-run").mkdir()
    (runs / "file").write_text("x")
    assert runs_in(runs) == ["made-of-links"]
    found = Following(runs / "made-of-links").refreshed()
    assert (found.state, found.kind, found.total) == ("damaged", "", 0)


def test_a_folder_that_is_gone_is_damage_and_no_error(tmp_path):
    assert Following(Path(tmp_path / "gone")).refreshed().state == "damaged"
