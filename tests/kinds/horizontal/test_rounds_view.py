"""What the directory of a run says, and what is said where it says nothing."""

import json
import math

import pytest

from tacit import events
from tacit.kinds.horizontal.rounds_view import rounds_of
from tacit.runs.report import read_run
from tests.report.sample_runs import DDP, UPDATES, VECTORS, finished, settings, whole, write

MADE = settings(encrypt=DDP, unsupervised={"cluster_client_num": 5})
STARTED = events.RunStarted("fleet", "horizontal", 10, 6, "NOT_ENCRYPT", 650)


def test_a_finished_run(tmp_path):
    record = rounds_of(read_run(write(tmp_path, MADE, whole(MADE), [UPDATES, VECTORS])))
    assert record.settings == MADE
    assert [event.round for event in record.rounds] == [0, 1, 2, 4]
    assert [event.reason for event in record.aborted] == ["2 survivors of 5 needed"]
    assert record.scores == {1: 0.1875, 2: 0.25, 3: 0.3125, 4: 0.375}
    assert [event.round for event in record.evaluations] == [0, 1, 2, 3, 4]
    assert len(record.refused) == 5
    assert record.sampled == dict.fromkeys(range(5), 9)
    assert record.status == "done"
    assert record.seconds == 321.5
    assert record.environment["python"]


def test_the_ledgers(tmp_path):
    path = write(tmp_path, MADE, [STARTED], [UPDATES, {**VECTORS, "epsilon": "infinite"}, {"covers": ["updates"]}])
    updates, vectors, bare = rounds_of(read_run(path)).ledgers
    assert (updates.covers, updates.view, updates.relation) == (("updates",), "central", "zero-out")
    assert (updates.epsilon, updates.delta) == (2.5, 1e-5)
    assert updates.lines[0]["count"] == 29
    assert math.isinf(vectors.epsilon)
    assert math.isinf(bare.epsilon)  # what does not say what it costs promises nothing
    assert bare.lines == ()


def test_a_run_without_ledger_or_rounds_is_legal(tmp_path):
    record = rounds_of(read_run(write(tmp_path, MADE, [STARTED])))
    assert record.ledgers == ()
    assert record.rounds == ()
    assert record.status == "running, or cut off"
    assert rounds_of(read_run(write(tmp_path, MADE, []))).started is None


def test_of_a_round_that_was_done_again_the_last_time_counts(tmp_path):
    happened = [
        STARTED,
        finished(0, survivors=5),
        events.RoundStarted(1, 9),
        events.ClientRefused(1, 3, "torn"),
        finished(1, survivors=5),
        events.RoundAborted(2, "few", 1.0),
        events.RunFinished("stopped", 3, 4.0),
        events.RunResumed(1, True),
        events.RoundStarted(1, 8),
        finished(1, survivors=6, seconds=2.0),
    ]
    record = rounds_of(read_run(write(tmp_path, MADE, happened)))
    assert [(event.round, event.survivors) for event in record.rounds] == [(0, 5), (1, 6)]
    assert record.aborted == ()
    assert record.refused == ()
    assert record.sampled == {1: 8}
    assert record.resumed == 1
    assert record.finished is None
    assert record.seconds == 61.25 + 2.0


def test_what_came_before_a_resumption_and_was_not_done_again_does_not_count(tmp_path):
    happened = [STARTED, finished(0), finished(1), finished(2), events.RunResumed(1, False)]
    assert [event.round for event in rounds_of(read_run(write(tmp_path, MADE, happened))).rounds] == [0]


def test_no_such_folder(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere: there is no such folder: give the folder of a run"):
        rounds_of(read_run(tmp_path / "nowhere"))


@pytest.mark.parametrize("missing", ["config.yaml", "events.jsonl"])
def test_a_folder_that_is_no_run(tmp_path, missing):
    path = write(tmp_path, MADE, [STARTED])
    (path / missing).unlink()
    with pytest.raises(ValueError, match=f"not the folder of a run, it has no {missing}"):
        rounds_of(read_run(path))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "events.jsonl",
            '{"event": "Noted", "text": "a"}\n{"event"\n{}\n',
            r"events.jsonl:2: this line is not an event",
        ),
        ("events.jsonl", '{"event": "Noted", "text": 3}\n', r"events.jsonl:1: text of Noted cannot be '3'"),
        ("events.jsonl", '{"event": "RoundStarted", "round": "x", "sampled": 3}\n', r"events.jsonl:1: round of Round"),
        ("ledger.json", '{"version": 1,\n "ledgers": [}', r"ledger.json:2: this is not JSON"),
        ("ledger.json", "[]", r"ledger.json:1: this file is damaged"),
        ("ledger.json", '{"ledgers": [3]}', r"ledger.json:1: this is not a ledger"),
        ("ledger.json", '{"ledgers": [{"epsilon": "low"}]}', r"ledger.json:1: this is not a ledger: epsilon cannot be"),
        ("environment.json", "3", r"environment.json:1: this is not an environment"),
        ("config.yaml", "kind: horizontal\nrounds: x\ntask: digits\nclients: 3\n", r"config.yaml:2"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, name, text, message):
    path = write(tmp_path, MADE, [STARTED], [UPDATES])
    (path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        rounds_of(read_run(path))


def test_each_event_of_a_run_passes_the_check(tmp_path):
    happened = [
        STARTED,
        events.Noted("a"),
        finished(0, metrics={"a": math.nan}, epsilon=math.inf, training_loss=None, stages={"a": 1}),
        events.BudgetReached(1, 9.0, 8.0, 1e-5),
        events.RunFinished("budget reached", 1, 2),
    ]
    record = rounds_of(read_run(write(tmp_path, MADE, happened)))
    assert record.rounds[0].metrics == {"a": None}
    assert record.budget_reached is not None
    assert json.loads((record.path / "events.jsonl").read_text().splitlines()[2])["epsilon"] is None
