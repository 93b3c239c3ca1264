"""Trainings between two parties for tests, and functions of a pair of ends over channels in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit import oblivious
from tacit.channel import Recorder, run_parties
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tests.kinds.vertical_logistic.shared.trainings import PATIENCE
from tests.kinds.vertical_logistic.shared.trainings import terms_of as terms_with_dealer


def terms_of(rows: int, **changes: Any) -> Terms:
    return replace(terms_with_dealer(2, rows, **changes), dealer="")


def both(first, second, recorders=None):
    """What two functions of a channel and an end return: that of the sender, and that of the receiver."""
    kept = {} if recorders is None else recorders

    def one(channels):
        kept["first"] = channel = Recorder(channels["second"])
        return first(channel, oblivious.sender(channel))

    def other(channels):
        kept["second"] = channel = Recorder(channels["first"])
        return second(channel, oblivious.receiver(channel))

    found = run_parties({"first": one, "second": other}, patience=PATIENCE)
    return found["first"], found["second"]
