"""Distributed DP against a coordinator that cheats, with the very number of colluders that its noise is sized for."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.kinds.horizontal.boundary import unprotected
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.masked import inside_of, secure_context
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.protections.distributed_dp import skellam_encoding
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.client import Client as SecureClient
from tacit.secagg.messages import Roster, pack_ids
from tacit.secagg.session import roster_digest
from tacit.secagg.skellam import SkellamEncoding
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.secagg.split_view import SplitView

DDP = {"encrypt_type": "DDP_ENCRYPT", "ddp_eps": 4.0}


def attack(settings: Settings, colluders: int, monkeypatch) -> tuple[dict, dict]:
    """What a coordinator opens of a round of real clients, and what they encoded."""
    encoded: dict[int, np.ndarray] = {}
    original = SkellamEncoding.encode

    def encode(self, *arguments):
        words = original(self, *arguments)
        encoded[asked[-1]] = words.copy()
        return words

    monkeypatch.setattr(SkellamEncoding, "encode", encode)
    task, asked = Numbers(), []
    keys = {i: SigningKey.generate() for i in range(settings.clients)}
    identities = {i: key.public for i, key in keys.items()}
    layout = Layout.of(task.model())
    clients = {i: Client(settings, i, task.fit, layout, key=keys[i], identities=identities) for i in keys}

    def send(to, message):
        asked.append(to)
        return clients[to].receive(message, 0.0)

    adverts = {i: send(i, Work(0, np.zeros(layout.size)))[0] for i in clients}
    columns, bits = inside_of(settings, layout.size).ring
    view = SplitView(
        adverts,
        send,
        lambda colluder: inside(clients[colluder]._round)._secure,
        {i: keys[i] for i in range(colluders)},
        dtype=f"<u{bits // 8}",
    )
    threshold = settings.secure(columns, bits).topology(settings.sampled).threshold
    return view.opened(threshold), encoded


@pytest.mark.parametrize("clients", [9, 20, 21])
def test_as_many_colluders_as_the_noise_is_sized_for_open_no_update(clients, monkeypatch):
    settings = settings_for(clients=clients, encrypt=DDP, rounds=2).networked()
    assert settings.mode == "active"
    assert skellam_encoding(settings, 5).colluders == settings.colluders == 1
    opened, encoded = attack(settings, settings.colluders, monkeypatch)
    assert len(encoded) == clients
    assert opened == {}


def test_more_than_that_open_single_updates(monkeypatch):
    """The control: t is 12 of 21, which three colluders defeat."""
    settings = settings_for(clients=21, encrypt=DDP, rounds=2).networked()
    opened, encoded = attack(settings, 3, monkeypatch)
    assert len(opened) == 9
    for victim, words in opened.items():
        assert words.tolist() == encoded[victim].tolist()


def test_a_certified_client_of_another_federation_has_no_place_in_a_roster():
    """Colluders are counted among the clients of the file. The authority may have certified others: client 9 of 9."""
    settings = settings_for(clients=9, encrypt=DDP).networked()
    task = Numbers()
    keys = {i: SigningKey.generate() for i in range(10)}
    identities = {i: key.public for i, key in keys.items()}
    layout = Layout.of(task.model())
    clients = {i: Client(settings, i, task.fit, layout, key=keys[i], identities=identities) for i in range(9)}
    adverts = [clients[i].receive(Work(0, np.zeros(layout.size)), 0.0)[0] for i in range(8)]
    context = secure_context(settings, layout, np.zeros(layout.size), 0)
    stranger = SecureClient(context, 9, lambda: np.zeros(8, np.uint64), key=keys[9], identities=identities)
    adverts += stranger.start(0.0)
    roster = Roster(
        roster_digest(adverts),
        len(adverts),
        pack_ids(a.sender for a in adverts),
        b"".join(a.sealing_key for a in adverts),
        b"".join(a.masking_key for a in adverts),
        b"".join(a.signature for a in adverts),
    )
    with pytest.raises(PeerError, match="client 9 is not among the known identities"):
        clients[0].receive(roster, 0.0)


@pytest.mark.parametrize("kind", ["PW_ENCRYPT", "DDP_ENCRYPT"])
@pytest.mark.parametrize(
    ("clients", "keys", "colluders", "threshold"),
    [
        (100, {}, 2, 52),
        (1000, {}, 25, 513),
        (100, {"colluders": 7}, 7, 54),
        (100, {"collusion": True}, 33, 67),
        (100, {"collusion": True, "colluders": 7}, 7, 54),
        (3, {}, 1, 3),
        (4, {}, 1, 3),
        (5, {}, 1, 4),
    ],
)
def test_masks_and_noise_are_made_for_one_number_of_colluders(kind, clients, keys, colluders, threshold):
    settings = settings_for(clients=clients, encrypt={"encrypt_type": kind} | keys).networked()
    secure = settings.secure(1, 64)
    assert (settings.colluders, secure.tolerated) == (colluders, colluders)
    assert secure.topology(clients).threshold == threshold
    if kind == "DDP_ENCRYPT":
        assert skellam_encoding(settings, 5).colluders == colluders


@pytest.mark.parametrize("encrypt_type", ["PW_ENCRYPT", "DDP_ENCRYPT"])
def test_small_federations_need_no_more_than_the_defaults(encrypt_type):
    for clients in range(3, 200):
        settings = settings_for(clients=clients, encrypt={"encrypt_type": encrypt_type})
        for each in (settings, settings.networked()):
            assert each.secure(1, 64).topology(clients).minimum <= each.sharing


def test_the_plan_notes_that_nobody_may_leave():
    few = settings_for(clients=5, encrypt=DDP).networked()
    assert any("a round needs 4 clients to the end (colluders: 1)" in note for note in few.notes())
    many = settings_for(clients=20, encrypt=DDP).networked()
    assert not any("to the end" in note for note in many.notes())


@pytest.mark.parametrize("spelling", [{"colluders": 3}, {"pw_encrypt": {"colluders": 3}}])
def test_colluders_are_named_nested_or_flat(spelling):
    assert settings_for(encrypt=DDP | spelling).colluders == 3


def test_colluders_of_the_noise_alone_are_refused_with_their_new_place():
    with pytest.raises(ValueError, match="colluders holds for masks and noise alike, and belongs to pw_encrypt: move"):
        settings_for(encrypt=DDP | {"ddp_encrypt": {"colluders": 3}})
    assert settings_for(encrypt=DDP | {"ddp_encrypt": {"colluders": None}}).colluders == 1  # as stored by earlier runs


@pytest.mark.parametrize("kind", ["PW_ENCRYPT", "DDP_ENCRYPT"])
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_the_boundary_names_the_number(kind, mode):
    settings = settings_for(clients=100, encrypt={"encrypt_type": kind, "mode": mode})
    (words,) = [sentence for sentence in unprotected(settings) if "work with it" in sentence]
    assert "at most 2 of the 100 clients" in words
    assert ("trusted to follow the protocol" in words) is (mode == "semi_honest")
