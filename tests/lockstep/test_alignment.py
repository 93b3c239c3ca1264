"""The rows that all parties have."""

from __future__ import annotations

from tacit.channel import run_parties
from tacit.events import Aligned, Kept
from tacit.lockstep.alignment import common_here, common_rows


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


def test_without_a_protocol_the_same_people_are_found_in_the_order_of_the_lead():
    ids = {"bank": ["a", "b", "c", "d"], "shop": ["x", "d", "b"], "club": ["d", "y", "b", "a"]}
    rows = common_here(ids, "bank")
    assert all([ids[name][row] for row in found] == ["b", "d"] for name, found in rows.items())
    assert not len(common_here({"bank": ["a"], "shop": ["b"]}, "bank")["shop"])
