"""Lines of a log: plain as ever, with time and level, or as JSON."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import (
    Answered,
    AnswerRefused,
    ClientRefused,
    Noted,
    PortWatched,
    RoundAborted,
    RoundFinished,
    RunFinished,
    Stepped,
)
from tacit.store.log_format import event_line, level_of, written
from tacit.store.log_lines import line

AT = 1795032000.25  # 2026-11-18 20:00:00.25 UTC
STEP = Stepped(0, 10, 43391, loss=10.654)


def test_the_three_formats():
    assert event_line(STEP, None, AT, "plain") == "epoch 1 step 10/43391 loss: 10.65"
    assert event_line(STEP, None, AT, "text") == "2026-11-18T20:00:00Z INFO epoch 1 step 10/43391 loss: 10.65"
    found = json.loads(event_line(STEP, None, AT, "json"))
    fields = found.pop("fields")
    assert found == {
        "time": "2026-11-18T20:00:00.250Z",
        "level": "INFO",
        "event": "Stepped",
        "message": "epoch 1 step 10/43391 loss: 10.65",
    }
    assert (fields["epoch"], fields["step"], fields["loss"]) == (0, 10, 10.654)


def test_what_is_not_worth_a_line_is_none_in_any_format():
    silent = Answered(1, 2, {"Shares": 9})
    assert [event_line(silent, None, AT, form) for form in ("plain", "text", "json")] == ["", "", ""]


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (RunFinished("failed", 1, 1.0), "ERROR"),
        (RunFinished("budget reached", 1, 1.0), "WARNING"),
        (RunFinished("stopped", 1, 1.0), "INFO"),
        (RunFinished("done", 1, 1.0), "INFO"),
        (RoundAborted(1, "few", 1.0), "WARNING"),
        (ClientRefused(1, 2, "no"), "WARNING"),
        (AnswerRefused(1, 2, "budget", "spent"), "WARNING"),
        (PortWatched(1, 0, {}, 0, 1, "refused"), "WARNING"),
        (RoundFinished(1, 2, 0, 1.0, 1), "INFO"),
        (Noted("words"), "INFO"),
    ],
)
def test_levels(event, level):
    assert level_of(event) == level
    assert f" {level} " in event_line(event, None, AT, "text")


@given(st.text())
def test_nothing_that_another_party_says_begins_a_line_of_its_own(reason):
    """As with plain lines: no end of a line, no escape for a terminal. JSON is one line in any case."""
    event = ClientRefused(1, 2, reason)
    words = line(event)
    text = event_line(event, None, AT, "text")
    assert text == f"2026-11-18T20:00:00Z WARNING {words}"
    assert text.isprintable()
    made = event_line(event, None, AT, "json")
    assert re.fullmatch(r"[ -~]*", made)  # everything else is escaped
    assert json.loads(made)["fields"]["reason"] == reason
    assert json.loads(made)["message"] == words


def test_infinite_numbers_are_left_to_the_message():
    event = RoundFinished(1, 2, 0, 1.0, 1, epsilon=math.inf, delta=1e-5)
    found = json.loads(event_line(event, 3, AT, "json"), parse_constant=lambda constant: pytest.fail(constant))
    assert found["fields"]["epsilon"] is None
    assert "epsilon: inf" in found["message"]


def test_other_words():
    assert written("Results: x", AT, "plain") == "Results: x"
    assert written("Results: x", AT, "text", "ERROR") == "2026-11-18T20:00:00Z ERROR Results: x"
    found = json.loads(written("Results: x", AT, "json", name="Results", fields={"path": "x"}))
    assert (found["event"], found["fields"]) == ("Results", {"path": "x"})
