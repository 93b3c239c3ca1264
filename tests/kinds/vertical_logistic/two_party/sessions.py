"""Trainings between two parties for tests, and functions of a pair of ends over channels in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit import oblivious
from tacit.channel import Recorder, run_parties
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import SharedContext
from tacit.kinds.vertical_logistic.two_party.training import train
from tests.kinds.vertical_logistic.shared.trainings import PATIENCE, shared_out
from tests.kinds.vertical_logistic.shared.trainings import terms_of as terms_with_dealer


def terms_of(rows: int, **changes: Any) -> Terms:
    return replace(terms_with_dealer(2, rows, **changes), dealer="")


def functions(x, y, terms, *, row_weights=None, contexts=None, recorders=None):
    """Each party's function. `recorders` collects each one's recorded channel."""
    recorders = {} if recorders is None else recorders

    def recorded(name, channels):
        recorders[name] = {other: Recorder(channel) for other, channel in channels.items()}
        return recorders[name]

    def party(name, part):
        active = name == terms.active
        context = (contexts or {}).get(name, SharedContext())
        given = Given(part, y, row_weights) if active else Given(part)
        return lambda channels: train(recorded(name, channels), given, terms, name, context)

    return {name: party(name, part) for name, part in shared_out(x, terms).items()}


def run(x, y, terms, **options):
    return run_parties(functions(x, y, terms, **options), patience=PATIENCE)


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
