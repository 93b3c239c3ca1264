"""Each event in words."""

import dataclasses

import pytest

from tacit import events
from tacit.store.log_lines import line

FINISHED = events.RoundFinished(
    round=2,
    survivors=87,
    refused=0,
    seconds=1.23,
    bytes_up=4096,
    metrics={"loss": 0.43121, "accuracy": 0.912},
    epsilon=12.3,
    delta=0.01,
)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            events.RunStarted("digits", "horizontal", 100, 30, "PW_ENCRYPT", 650),
            "digits: horizontal federation of 100 clients, 30 rounds, PW_ENCRYPT, 650 parameters",
        ),
        (events.Noted("mind the gap"), "note: mind the gap"),
        (events.RoundStarted(2, 80), "round 3/30 sampled 80"),
        (events.ClientRefused(2, 17, "wrong shape"), "round 3/30 client 17 refused: wrong shape"),
        (
            events.ClientBlamed(2, 17, "its shares are wrong", True),
            "round 3/30 client 17 broke the protocol, and is left out of the rest of the run: its shares are wrong",
        ),
        (events.ClientBlamed(2, 17, "no", False), "round 3/30 client 17 broke the protocol: no"),
        (
            events.SharesDisputed(2, 17, [4], 1),
            "round 3/30 client 17 says that its shares of client 4 are invalid: one side is wrong, and it "
            "is not known which",
        ),
        (
            events.SharesDisputed(2, 17, [4, 5], 12),
            "round 3/30 client 17 says that its shares of 12 clients (4, 5, …) are invalid: one side is wrong, and it "
            "is not known which",
        ),
        (FINISHED, "round 3/30 survivors 87 loss: 0.4312 accuracy: 0.912 epsilon: 12.3 (delta 0.01) 1.2 s"),
        (
            events.RoundFinished(0, 87, 2, 0.1, 1, training_loss=float("inf")),
            "round 1/30 survivors 87 refused 2 training loss: inf 0.1 s",
        ),
        (events.RunResumed(2, False), "resumed after 2 rounds"),
        (
            events.Evaluated(2, "SILHOUETTE_SCORE", 0.41234, "", 60, 480, 9),
            "round 3/30 SILHOUETTE_SCORE: 0.4123 (480 vectors of 60 clients, 9 clusters)",
        ),
        (
            events.Evaluated(2, "SILHOUETTE_SCORE", None, "all vectors are in one cluster", 60, 480, 1),
            "round 3/30 SILHOUETTE_SCORE: not evaluable: all vectors are in one cluster",
        ),
        (events.RoundAborted(2, "only 3 answered", 4), "round 3/30 changed nothing: only 3 answered 4.0 s"),
        (
            events.BudgetReached(2, 12.34, 10, 1e-5),
            "round 3/30 not begun: it would bring the epsilon of updates to 12.34, above the budget of 10 "
            "(delta 1e-05)",
        ),
        (
            events.Answered(3, 2, {"Inference": 9, "Update": 5}, {"updates": 1.5}, {"updates": 1e-5}),
            "round 3 client 3 uploaded epsilon of updates: 1.5 (delta 1e-05)",
        ),
        (events.Answered(3, 2, {"Advertise": 9}), ""),
        (events.AnswerRefused(3, 2, "budget", "it is spent"), "round 3 client 3 answers no more: it is spent"),
        (events.TrainingResumed(0, 3), "resumed in epoch 1 after 3 of its steps"),
        (events.Stepped(0, 10, 43391, loss=10.654), "epoch 1 step 10/43391 loss: 10.65"),
        (events.EpochFinished(1, 2.0, {"loss": 0.5}), "epoch 2 done loss: 0.5 2.0 s"),
        (events.Curve("ROC", "x", "y", [[0, 0]], lines={"chance": [[0, 0], [1, 1]]}), "curve: ROC, 3 points"),
        (events.Bars("Weights", "log odds", "", {"age": 1.0}), "bars: Weights, 1 of them"),
        (events.Tree("Tree 1", "", ["a", "b", "c"], ["x", "", ""], [[1, 2], [], []]), "tree: Tree 1, 3 nodes"),
        (events.Tabled("Thresholds", "", ["a"], [["b"], [1.0]]), "table: Thresholds, 2 rows"),
        (events.RunFinished("done", 30, 61.26), "done after 30 rounds in 61.3 s"),
        (events.RunFinished("failed", 0, 1, "no luck"), "failed after 0 rounds in 1.0 s: no luck"),
    ],
)
def test_each_event_is_one_line(event, expected):
    assert line(event, 30) == expected


def test_without_the_number_of_rounds():
    assert line(events.RoundStarted(2, 80)) == "round 3 sampled 80"


def test_every_kind_of_event_has_words():
    samples = {"str": "x", "int": 1, "float": 1.0, "bool": True, "float | None": 1.0}
    samples |= {"dict[str, int]": {"Update": 1}, str(events.AnswerRefused.__annotations__["why"]): "budget"}
    for kind in events.KINDS.values():
        needed = [
            samples.get(str(field.type), "done")
            for field in dataclasses.fields(kind)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        ]
        assert line(kind(*needed))


def test_a_peers_words_neither_break_the_line_nor_steer_the_terminal():
    text = line(events.ClientRefused(0, 1, "bad\nround 1 survivors 99\x1b[2J\r"))
    assert "\n" not in text
    assert "\x1b" not in text
    assert "\r" not in text


def test_what_was_stored_as_nothing_is_shown_as_no_number():
    stored = dataclasses.replace(FINISHED, metrics={"loss": None}, delta=None)
    assert "loss: nan" in line(stored)
    assert "(delta nan)" in line(stored)
