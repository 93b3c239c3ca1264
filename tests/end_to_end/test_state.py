"""`--state DIR`: one command that starts a run, resumes it, and says that it is done."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import tacit
from tacit.config.source import ConfigError
from tacit.events import Answered, EndHeard, RunFinished, RunStarted
from tacit.runs.load import load
from tacit.store import directory
from tacit.store.directory import RunDirectory, party_of, read_events
from tests.commands import ended, invoke, kill_once, start
from tests.inside import inside

FILE = "kind: horizontal\nname: fleet\ntask: digits\nrounds: 4\nclients: 10\nencrypt: {encrypt_type: DP_ENCRYPT}\n"


@pytest.fixture(autouse=True)
def file(here):
    Path("fleet.yaml").write_text(FILE)


def ends() -> list[str]:
    return [event.status for event in read_events("state/events.jsonl") if isinstance(event, RunFinished)]


def test_one_command_starts_a_run_resumes_it_and_says_that_it_is_done():
    command = ("run", "fleet.yaml", "--state", "state", "--quiet", "--set", "rounds=60")
    kill_once(start(*command), lambda: list(Path("state").glob("state-[1-9]*.safetensors")))
    assert ends() == []
    out, _ = ended(start(*command))
    assert "Results: state" in out
    assert ends() == ["done"]
    (ledger,) = json.loads(Path("state/ledger.json").read_text())["ledgers"]
    assert ledger["lines"][0]["count"] in (60, 61)  # the round that was under way is paid for, if it had begun
    before = Path("state/events.jsonl").read_bytes()
    done = invoke(*command)
    assert done.exit_code == 0
    assert "state: all 60 rounds are done: to train longer, give more (--set rounds=120)" in done.output
    assert Path("state/events.jsonl").read_bytes() == before  # nothing was missing
    assert not Path("runs").exists()


@pytest.mark.parametrize("missing", ["event", "page", "both"])
def test_what_is_missing_of_a_finished_run_is_written(missing):
    """As after a kill between the last stored round and the end."""
    tacit.run("fleet.yaml", state="state")
    if missing in ("page", "both"):
        Path("state/report.html").unlink()
    if missing in ("event", "both"):
        lines = Path("state/events.jsonl").read_text().splitlines(keepends=True)
        Path("state/events.jsonl").write_text("".join(line for line in lines if "RunFinished" not in line))
    done = invoke("run", "--resume", "state")
    assert done.exit_code == 0, done.output
    assert "all 4 rounds are done" in done.output
    assert ends()[-1] == "done"
    assert Path("state/report.html").exists()


NETWORK = "network: {coordinator: '127.0.0.1:9', patience: 1}\n"
JOIN = ("join", "fleet.yaml", "--party", "client", "--id", "3", "--insecure", "--state", "state", "--quiet")


def client_folder(*happened) -> None:
    """Of a client that was killed after these events."""
    Path("fleet.yaml").write_text(FILE + NETWORK)
    settings = inside(load("fleet.yaml")).networked()
    made = RunDirectory.create(Path("runs"), settings, 0.0, party="client-3", at=Path("state"))
    for event in happened:
        made.emit(event)
    made.close()


STARTED = RunStarted("fleet", "horizontal", 10, 4, "DP_ENCRYPT", 650)


def test_a_client_that_is_killed_once_it_heard_the_end_knows_it():
    answers = [Answered(3, number, {"Update": 9}) for number in (0, 2)]
    client_folder(STARTED, *answers, EndHeard(3, "done", ""))
    for _ in range(2):  # the second start finds nothing missing
        done = invoke(*JOIN)
        assert done.exit_code == 0, done.output
        assert "the coordinator said that the run is done" in done.output
        assert ends() == ["done"]
        assert Path("state/report.html").exists()
    assert [event.rounds for event in read_events("state/events.jsonl") if isinstance(event, RunFinished)] == [2]


@pytest.mark.parametrize("happened", [[], [EndHeard(3, "done", ""), STARTED], [EndHeard(3, "failed", "no luck")]])
def test_a_client_that_did_not_hear_that_it_is_done_connects(happened):
    client_folder(STARTED, *happened)
    waited = invoke(*JOIN)
    assert waited.exit_code == 5, waited.output
    assert "the coordinator was away for 1 s" in waited.output


def test_the_file_may_not_change_between_two_starts():
    assert invoke("run", "fleet.yaml", "--state", "state").exit_code == 0
    changed = invoke("run", "fleet.yaml", "--state", "state", "--set", "seed=3")
    assert changed.exit_code == 2
    assert "seed was 0 when the run began, and is 3 now" in changed.output
    longer = invoke("run", "fleet.yaml", "--state", "state", "--set", "rounds=5")
    assert longer.exit_code == 0, longer.output
    assert "round 5/5" in longer.output


def test_a_folder_with_other_files_is_not_taken():
    Path("state").mkdir()
    Path("state/letter.txt").touch()
    done = invoke("run", "fleet.yaml", "--state", "state")
    assert done.exit_code == 2
    assert "state: it holds letter.txt and no run: name an empty folder, or that of a run" in done.output
    both = invoke("run", "fleet.yaml", "--state", "state", "--resume", "state")
    assert both.exit_code == 2
    assert "--resume and --state both name a directory" in both.output
    file = invoke("run", "fleet.yaml", "--state", "fleet.yaml")
    assert file.exit_code == 2
    assert "this is a file" in file.output


@pytest.mark.parametrize(
    "left", [[], ["environment.json"], ["environment.json", "events.jsonl", "run.log"], [".x.tmp"]]
)
def test_what_a_killed_start_left_is_no_obstacle(left):
    Path("state").mkdir()
    for name in left:
        Path("state", name).touch()
    assert invoke("run", "fleet.yaml", "--state", "state").exit_code == 0
    assert ends() == ["done"]


@pytest.mark.parametrize("verb", ["run", "join"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_full_disk_at_the_start_is_no_mistake_of_the_user(verb, code, monkeypatch):
    """A supervisor starts it again, until there is room."""
    words = {"run": (), "join": ("--party", "coordinator", "--insecure", "--set", "network.coordinator=127.0.0.1:1")}
    command = (verb, "fleet.yaml", "--state", "state", *words[verb])

    def full(path, *data):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(directory, "replace_file", full)
        refused = invoke(*command)
    assert refused.exit_code == 5, refused.output
    assert f"results cannot be stored there: {os.strerror(code)}: start again once that is fixed" in refused.output
    assert not Path("state").exists()
    if verb == "run":
        assert invoke(*command).exit_code == 0


def test_of_two_that_start_in_one_folder_the_second_changes_nothing(monkeypatch):
    """It looked for a run before the first had one there."""
    settings = load("fleet.yaml")
    first = RunDirectory.create("runs", settings, 0.0, party="client-0", at=Path("state"))
    for words in ("another process is writing there", "another process has begun a run there"):
        with pytest.raises(ConfigError, match=words):
            RunDirectory.create("runs", settings, 0.0, party="client-1", at=Path("state"))
        assert party_of(Path("state")) == "client-0"
        first.close()


def test_a_finished_run_whose_events_are_lost_is_still_finished():
    """They are not synced: a machine that loses power may have the last model and no events."""
    tacit.run("fleet.yaml", state="state")
    Path("state/events.jsonl").write_text("")
    done = invoke("run", "--resume", "state")
    assert done.exit_code == 0, done.output
    assert ends() == ["done"]


def test_a_damaged_event_can_be_removed():
    tacit.run("fleet.yaml", state="state")
    path = Path("state/events.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "?" + lines[1][1:], *lines[2:]]))
    refused = invoke("run", "--resume", "state")
    assert refused.exit_code == 2
    assert "events.jsonl:2: this line is not an event" in refused.output
    assert "remove this line to resume the run" in refused.output
    path.write_text("".join([lines[0], *lines[2:]]))
    assert invoke("run", "--resume", "state").exit_code == 0


def test_an_empty_name_of_the_party_is_damage():
    tacit.run("fleet.yaml", state="state")
    Path("state/party").touch()
    refused = invoke("run", "--resume", "state")
    assert refused.exit_code == 2
    assert "state/party: this file is damaged: write into it whose run this is" in refused.output
