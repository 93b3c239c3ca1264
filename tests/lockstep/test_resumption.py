"""Which training parties are part of when they meet again."""

from __future__ import annotations

import pytest

from tacit.channel import run_parties
from tacit.errors import NotResumed
from tacit.lockstep.resumption import Held, agreed_session
from tests.subprocesses import HANGS

OLD = bytes(range(16))


def met(shop, notary, *, follows=False):
    """The session of each party: the bank has begun one, the others hold what is given."""
    parties = {
        "bank": lambda channels: agreed_session(channels, "bank", "bank", Held(OLD, True)),
        "shop": lambda channels: agreed_session(channels, "shop", "bank", shop),
        "notary": lambda channels: agreed_session(channels, "notary", "bank", notary, needs_nothing=follows),
    }
    return run_parties(parties, patience=HANGS)


def test_parties_that_hold_the_same_resume_it():
    assert set(met(Held(OLD, True), Held(OLD)).values()) == {OLD}


def test_a_party_that_lost_its_part_cannot_resume():
    with pytest.raises(NotResumed, match="notary holds no part"):
        met(Held(OLD, True), Held())


def test_a_party_that_has_nothing_to_lose_follows():
    assert set(met(Held(OLD, True), Held(), follows=True).values()) == {OLD}
    with pytest.raises(NotResumed, match="notary holds no part"):
        met(Held(OLD, True), Held(bytes(16)), follows=True)  # it is of another training
