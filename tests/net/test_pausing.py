"""A pause, as operators ask for it and a coordinator heeds it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.net.pausing import Pausing, State


@given(st.booleans(), st.lists(st.sampled_from(["ask", "end", "rests"])))
def test_what_is_stored_is_what_was_asked_last(earlier, steps):
    """A model of two booleans: whether a pause is asked for, and whether the coordinator has noticed."""
    asked, noticed, stored = earlier, False, [earlier]
    pausing = Pausing(earlier, stored.append)
    for step in steps:
        match step:
            case "ask":
                assert pausing.ask() is state(asked, noticed)
                asked = True
            case "end":
                assert pausing.end() is state(asked, noticed)
                asked = noticed = False
            case "rests":
                assert pausing.rests() == asked
                noticed = asked
        assert pausing.state is state(asked, noticed)
        assert (pausing.asked, pausing.paused) == (asked, noticed)
        assert stored[-1] == asked


def state(asked, noticed):
    return State.PAUSED if noticed else State.ASKED if asked else State.RUNNING


def test_it_is_stored_only_when_it_changes():
    stored = []
    pausing = Pausing(store=stored.append)
    for step in (pausing.end, pausing.ask, pausing.ask, pausing.end, pausing.end):
        step()
    assert stored == [True, False]


def test_what_cannot_be_stored_does_not_hold():
    def full(asked):
        raise OSError("disk full")

    running, paused = Pausing(store=full), Pausing(True, full)
    with pytest.raises(OSError, match="full"):
        running.ask()
    with pytest.raises(OSError, match="full"):
        paused.end()
    assert (running.asked, paused.asked) == (False, True)
