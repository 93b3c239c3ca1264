"""What a site must assume of a party of a split training: what it sends that no ledger covers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tacit.config.local import Local
from tacit.kind import Seat
from tacit.kinds.split import most as most_of
from tests.kinds.split.networks import parts_u, parts_v, settings_u, settings_v

EMBEDDED = {"embedding_dp": {"eps": 5}}
LABELS = {"label_dp": {"eps": 3}}
NOISED = {"gradients": {"protection": "noised", "noise_multiplier": 2.0}}


def most(monkeypatch, settings, parts, party):
    monkeypatch.setattr(most_of, "party_part", lambda settings, name, place: parts[name])
    return most_of.most(settings, Seat(party), Local(), Path())


@pytest.mark.parametrize(
    ("party", "protections", "own_features", "uncovered"),
    [
        ("east", EMBEDDED, False, ()),
        ("east", {"embedding_dp": {"eps": None}}, False, ("activations",)),
        ("east", LABELS, False, ("activations",)),
        ("lead", LABELS, False, ()),
        ("lead", LABELS, True, ("gradients",)),
        ("lead", NOISED, True, ()),
        ("lead", EMBEDDED, False, ("gradients",)),
    ],
)
def test_what_a_party_sends_under_no_epsilon_is_named(monkeypatch, party, protections, own_features, uncovered):
    found = most(monkeypatch, settings_v(**protections), parts_v(own_features), party)
    assert found.uncovered == uncovered


@pytest.mark.parametrize(
    ("protections", "uncovered"),
    [
        (EMBEDDED, ("gradients",)),
        ({**EMBEDDED, **LABELS}, ("gradients",)),
        (NOISED, ("activations",)),
        ({**EMBEDDED, **NOISED}, ()),
    ],
)
def test_a_leader_that_holds_the_records_sends_both(monkeypatch, protections, uncovered):
    assert most(monkeypatch, settings_u(**protections), parts_u(), "office").uncovered == uncovered


def test_a_follower_that_holds_no_records_has_no_private_data(monkeypatch):
    assert most(monkeypatch, settings_u(), parts_u(), "cloud") is None
