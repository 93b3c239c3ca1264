"""What a kind can do, made of its `Lockstep`."""

from __future__ import annotations

import pytest

from tacit.config.source import ConfigError
from tacit.kind import find
from tacit.lockstep.resumption import CONFIRMED
from tacit.lockstep.run import Lockstep
from tacit.lockstep.verbs import resume
from tests.kinds.split.networks import settings_v
from tests.kinds.vertical_logistic.parties import deal


def lockstep():
    def unused(*arguments):
        raise AssertionError("no party is made")

    return Lockstep(
        unused,
        unused,
        lambda settings, state: state["round"] >= 3,
        lambda settings, state: f"{state['round']} of {settings.name} are done",
        lambda settings: frozenset({"seed"}),
    )


def test_a_party_has_nothing_left_to_do_once_all_have_said_that_they_are_done():
    made, settings = resume(lockstep), settings_v(name="a")
    assert made.finished(settings, {"round": 2, CONFIRMED: True}) is None  # more epochs were asked for
    assert made.finished(settings, {"round": 3}) is None  # others may still need it
    assert made.finished(settings, {"round": 3, CONFIRMED: True}) == "3 of a are done"
    assert made.free(settings) == {"seed"}
    assert made.caught_up(settings, {"round": 1}, {"ledgers": []}) == {"round": 1}
    assert made.parts(settings) == ("lead", "east", "west")


def test_nothing_is_loaded_before_a_verb_needs_it():
    def load():
        raise AssertionError("loaded")

    made = resume(load)
    with pytest.raises(AssertionError, match="loaded"):
        made.free(settings_v())


@pytest.mark.parametrize(("kind", "settings"), [("split", settings_v()), ("vertical_logistic", deal())])
def test_a_seat_is_that_of_a_party_of_the_file(kind, settings):
    join = find(kind).join
    assert join.networked(settings) is settings
    assert join.seat(settings, settings.lead, None).name == settings.lead
    with pytest.raises(ConfigError, match="--id is for the clients of a horizontal federation"):
        join.seat(settings, settings.lead, "1")
    with pytest.raises(ConfigError, match="--party is 'nobody': give "):
        join.address(settings, "nobody")
    with pytest.raises(ConfigError, match=f"the file does not say where {settings.lead} is"):
        join.address(settings, settings.lead)
    assert find(kind).predict.receiver(settings) == settings.lead
