"""`tacit runs`: a table and JSON of what is in a folder, and sentences where there is nothing."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from tacit.events import Noted, RunFinished, RunStarted, TrainingStarted
from tacit.store.directory import RunDirectory
from tests.commands import done, invoke
from tests.report.sample_runs import NOW, UPDATES, VECTORS, finished, settings, write
from tests.subprocesses import HANGS, launch

STARTED = RunStarted("fleet", "horizontal", 10, 6, "DDP_ENCRYPT", 650)
DONE = RunFinished("done", 3, 60.0)
HEAD = ["run", "state", "kind", "protection", "ε", "metric", "progress", "age"]


def test_runs_as_a_table_the_newest_first(here):
    write(here / "runs", settings(name="a"), [STARTED, finished(2), DONE], [UPDATES])
    live = RunDirectory.create(here / "runs", settings(name="b"), NOW)
    live.emit(STARTED)
    live.emit(Noted("[red]\x1b[31m"))
    lines = [line.split() for line in done("runs").splitlines()]
    live.close()
    assert lines[0] == HEAD
    assert lines[2][:5] == ["20231114-221320-b", "running", "horizontal", "DDP_ENCRYPT", "–"]
    assert lines[3][:6] == ["20231114-221320-a", "done", "horizontal", "DDP_ENCRYPT", "2.5", "accuracy"]
    assert lines[3][-4:-2] == ["3/6", "rounds"]


def test_the_newest_is_first_whatever_its_folder_is_called(here):
    for number, name in enumerate(("zero", "coordinator", "alone")):
        path = write(here / "runs", settings(), [STARTED, DONE])
        events = (path / "events.jsonl").read_text().replace("2023-11-14T22:13:20", f"2023-11-14T22:1{number}:20")
        (path / "events.jsonl").write_text(events)
        path.rename(path.with_name(name))
    newest_first = ["alone", "coordinator", "zero"]
    assert [each["folder"] for each in json.loads(done("runs", "--json"))] == newest_first
    assert [line.split()[0] for line in done("runs").splitlines()[2:]] == newest_first


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (140, ()),
        (110, ("protection",)),
        (80, ("protection", "kind")),
        (40, ("protection", "kind", "age", "metric")),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns(here, width, left_out):
    write(here / "runs", settings(name="digits"), [STARTED, finished(2), DONE], [UPDATES])
    write(here / "runs", settings(), [TrainingStarted("x", "vertical_logistic", 2, 4, 10, "masks " * 9, 650)])
    lines = on_terminal(width, "runs")
    assert max(map(len, lines)) <= width or width == 40
    assert {name for name in HEAD if name not in lines[0].split()} == set(left_out)
    shown = {"kind": "vertical logistic", "metric": "accuracy", "age": r"\d d\b"}
    text = "\n".join(lines)
    assert all(bool(re.search(words, text)) == (name not in left_out) for name, words in shown.items())
    assert "3/6 rounds" in text
    told = f"Not shown in {width} columns: {', '.join(left_out)}. --json has everything"
    assert (told in text) == bool(left_out)


def on_terminal(width, *words):
    """The lines that a command prints to a terminal of this width, without colours."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": str(width), "TERM": "xterm"}
    command = [sys.executable, "-m", "tacit", *map(str, words)]
    process = launch(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    told = b""
    with suppress(OSError):  # the terminal is gone once the process is
        while piece := os.read(ours, 4096):
            told += piece
    os.close(ours)
    assert process.wait(HANGS) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", told.decode()).replace("\r", "").splitlines()


def test_runs_as_json_with_all_figures(here):
    write(here / "else", settings(), [STARTED, RunFinished("failed", 0, 6.0, "why")], [UPDATES, VECTORS])
    write(here / "else", settings(), [STARTED], [VECTORS | {"epsilon": "infinite"}])
    (folder := here / "else" / "20200101-000000-x\n<b>").mkdir()
    (folder / "config.yaml").write_text("kind: horizontal\n")
    found = json.loads(done("runs", "else", "--json"))
    assert [each["state"] for each in found] == ["killed", "failed", "damaged"]
    assert found[0]["spent"] == [{"of": "inference vectors", "epsilon": "infinite", "delta": 0.0}]
    assert found[1]["spent"][0] == {"of": "updates", "epsilon": 2.5, "delta": 1e-05}
    assert found[1]["reason"] == "why"
    assert found[1]["began"] == "2023-11-14T22:13:20.000+00:00"
    assert found[2]["folder"] == folder.name
    assert found[2]["damage"] == "events.jsonl is missing"
    text = done("runs", "else")
    assert "x <b>: events.jsonl is missing" in text.replace("\n", " ")


def test_an_empty_folder_and_none(here):
    (here / "runs").mkdir()
    assert done("runs") == "runs holds no runs. `tacit run FILE` makes one\n"
    assert done("runs", "--json") == "[]\n"
    missing = invoke("runs", "nowhere")
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)
    assert "nowhere: runs cannot be listed there" in missing.stderr


def test_a_reader_that_leaves_is_no_failure_of_a_task(here):
    write(here / "runs", settings(), [STARTED])
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tacit", "runs", "--json"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, text=True)
    os.close(writing)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr


def test_a_verb_that_is_almost_right_is_suggested(here):
    for typed in ("rn", "rnu"):
        assert invoke(typed).stderr == f"tacit {typed} is not a command: did you mean tacit run?\n"
