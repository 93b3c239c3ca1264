"""What a party says to each word of an operator."""

from __future__ import annotations

import errno

from tacit.net.pausing import Pausing, State
from tacit.operations.commands import answers
from tests.operations.views import view


def stopped():
    raise AssertionError("it was not asked to stop")


def test_pause_and_unpause_change_what_is_asked_and_may_be_repeated():
    pausing = Pausing()
    answer = answers(view(pausing=pausing), pausing, stopped)
    assert "No further round begins" in answer("pause")[0]["text"]
    assert "asked for already" in answer("pause")[0]["text"]
    assert pausing.rests()
    assert "paused already" in answer("pause")[0]["text"]
    assert "begin again" in answer("unpause")[0]["text"]
    assert "was not paused" in answer("unpause")[0]["text"]
    assert pausing.state is State.RUNNING


def test_only_a_coordinator_is_paused():
    answer = answers(view(), None, stopped)
    for word in ("pause", "unpause"):
        assert "only the coordinator of a federation over a network can be paused" in answer(word)[0]["error"]


def test_status_and_stop():
    made, done = view(), []
    answer = answers(made, None, lambda: done.append(True))
    told, then = answer("status")
    assert (told["round"], then) == (5, None)
    said, then = answer("stop")
    assert "SIGTERM" in said["text"]
    assert done == []
    then()
    assert done == [True]


def test_other_words_are_refused():
    answer = answers(view(), Pausing(), stopped)
    for word in ("", "Stop", "pause ", "__class__", "x" * 200):
        said, then = answer(word)
        assert "known are" in said["error"]
        assert then is None


def test_a_pause_that_cannot_be_stored_is_none():
    def store(asked):
        raise OSError(errno.ENOSPC, "No space left on device")

    pausing = Pausing(store=store)
    said, _ = answers(view(), pausing, stopped)("pause")
    assert said == {"error": "this could not be stored, and nothing has changed: No space left on device"}
    assert not pausing.asked
