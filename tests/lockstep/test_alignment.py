"""The rows that all parties have."""

from __future__ import annotations

from tacit.channel import run_parties
from tacit.events import Aligned, Kept
from tacit.lockstep.alignment import common_rows


def test_all_find_the_same_people_in_the_same_order_and_are_told_how_many():
    ids = {"bank": ["a", "b", "c", "d"], "shop": ["x", "d", "b"]}
    sinks = {name: Kept() for name in ids}

    def party(name):
        return lambda channels: common_rows(channels, name, "bank", ids[name], sinks[name])

    rows = run_parties({name: party(name) for name in ids})
    people = {name: [ids[name][row] for row in found] for name, found in rows.items()}
    assert people["bank"] == people["shop"]
    assert sorted(people["bank"]) == ["b", "d"]
    for name, sink in sinks.items():
        (told,) = sink.events
        assert isinstance(told, Aligned)
        assert (told.own, told.common) == (len(ids[name]), 2)
