"""What a kind's parties came to: a ledger that a report could not tell the truth from is refused."""

from __future__ import annotations

import pytest

from tacit.dp.accounting import Ledger
from tacit.dp.release import PureEvent
from tacit.events import Kept, RunFinished
from tacit.kind import Result
from tacit.runs.load import load
from tacit.runs.outcome import carried_out

SETTINGS = {"kind": "private_training", "name": "small", "task": "digits", "privacy": {"epsilon": 3, "delta": 1e-5}}


def outcome(ledger, told=None):
    made = load(SETTINGS)
    return carried_out(made, lambda kind, here: lambda: Result({}, ledger), sink=told or Kept(), directory=None)


def ledger():
    made = Ledger("record", "replace-one")
    made.spend(PureEvent(1.0, "record", "replace-one"))
    return made.to_json()


def test_a_ledger_that_lacks_its_epsilon_is_refused():
    told = Kept()
    with pytest.raises(
        ValueError, match=r"ledgers\[0\] of the kind private_training lacks covers, view, epsilon, delta:"
    ):
        outcome({"version": 1, "ledgers": [ledger()]}, told)
    assert [event.status for event in told.events if isinstance(event, RunFinished)] == ["failed"]
    with pytest.raises(ValueError, match='no list "ledgers"'):
        outcome(ledger())


def test_a_whole_ledger_is_kept():
    whole = {"covers": ["model"], "view": "central", **ledger(), "epsilon": 1.0, "delta": 0.0}
    for good in ({}, {"version": 1, "ledgers": []}, {"version": 1, "ledgers": [whole]}):
        assert outcome(good).ledger == good
    with pytest.raises(ValueError, match=r"ledgers\[1\] of the kind private_training lacks unit:"):
        outcome({"ledgers": [whole, {key: value for key, value in whole.items() if key != "unit"}]})
