"""Clients that work with a cheating coordinator: as many as the settings name open nothing, two or three more do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.secagg.client import Client
from tacit.secagg.messages import Advertise, Roster
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings, a_third
from tests.secagg.federation import MODEL, federation, vectors_for
from tests.secagg.split_view import SplitView
from tests.secagg.test_attacks import lie, only, refused


def split_view(
    settings: Settings, colluders: int, absent: int = 0, silent: int = 0
) -> tuple[SplitView, dict[int, np.ndarray]]:
    """A coordinator with so many colluders, and what the clients hold. `absent` never come; `silent` share nothing."""
    vectors = vectors_for(settings)
    ids = sorted(vectors)[: settings.clients - absent]
    keys = {i: SigningKey.generate() for i in vectors}
    identities = {i: key.public for i, key in keys.items()}
    context = Context(settings, MODEL, 0)
    signed = settings.mode == "active"
    clients = {
        i: Client(context, i, vectors[i], key=keys[i] if signed else None, identities=identities if signed else None)
        for i in ids
    }
    adverts: dict[int, Advertise] = {}
    for identity, client in clients.items():
        (adverts[identity],) = client.start(0.0)
    view = SplitView(
        adverts,
        lambda to, message: clients[to].receive(message, 0.0),
        lambda colluder: clients[colluder],
        {i: keys[i] for i in ids[:colluders]},
        frozenset(ids[len(ids) - silent :]),
    )
    return view, vectors


def attack(settings: Settings, colluders: int, absent: int = 0, silent: int = 0) -> tuple[SplitView, dict, dict]:
    """Let it show two lists of survivors."""
    view, vectors = split_view(settings, colluders, absent, silent)
    return view, view.opened(settings.topology(settings.clients - absent).threshold), vectors


@pytest.mark.parametrize("n", [5, 7, 8, 9, 20, 21])
def test_one_colluder_opens_nothing_by_default(n):
    view, opened, _ = attack(Settings(n, 4), colluders=1)
    assert opened == {}
    assert any("clients agree on the survivors" in words or "survivors, this" in words for words in view.refusals)


CASES = [(8, 1), (9, 1), (9, 2), (20, 2), (21, 2), (21, 3), (30, 5), (31, 5)]


@pytest.mark.parametrize(("absent", "silent"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("n", "colluders"), CASES)
def test_colluders_open_nothing(n, colluders, absent, silent):
    settings = Settings(n, 4, colluders=colluders, share_secrets_ratio=(n - 2) / n)
    _, opened, _ = attack(settings, colluders, absent, silent)
    assert opened == {}


@pytest.mark.parametrize("absent", [0, 1])
@pytest.mark.parametrize(("n", "colluders"), CASES)
def test_the_bound_is_sharp(n, colluders, absent):
    """2t - n of them open every upload on the left, exactly: c + 1 where n + c is odd, c + 2 where it is even."""
    settings = Settings(n, 4, colluders=colluders, share_secrets_ratio=(n - 2) / n)
    came = n - absent
    threshold = settings.topology(came).threshold
    enough = 2 * threshold - came
    assert enough == colluders + (1 if (came + colluders) % 2 else 2)
    assert attack(settings, enough - 1, absent)[1] == {}
    _, opened, vectors = attack(settings, enough, absent)
    assert len(opened) == came - threshold
    for victim, words in opened.items():
        assert words.tolist() == vectors[victim].tolist()


@pytest.mark.slow  # 10 s
def test_fifty_uploads_of_a_hundred_stay_closed():
    """100 clients, 2 colluders: with t = 51 it would open 49 of them, with t = 52 none."""
    settings = Settings(100, 2, colluders=2)
    assert settings.topology(100).threshold == 52
    assert attack(settings, 2)[1] == {}


@pytest.mark.parametrize(("n", "named", "threshold"), [(8, 1, 5), (9, 1, 5), (9, 6, 7)])
def test_a_server_that_follows_the_protocol_opens_nothing_below_the_threshold(n, named, threshold):
    settings = Settings(n, 4, mode="semi_honest", colluders=named, share_secrets_ratio=1.0)
    assert settings.topology(n).threshold == threshold > named
    for colluders in (named, threshold - 1):
        assert split_view(settings, colluders)[0].pooled() == {}
    view, vectors = split_view(settings, threshold)
    opened = view.pooled()
    assert opened.keys() == vectors.keys() - view.keys.keys()
    assert all(opened[victim].tolist() == vectors[victim].tolist() for victim in opened)


# --- the law


@given(
    n=st.integers(3, 5000), colluders=st.integers(0, 5000), part=st.floats(0.01, 1), set_to=st.none() | st.integers(1)
)
def test_settings_are_safe_and_in_reach_for_every_roster_or_refused(n, colluders, part, set_to):
    try:
        settings = Settings(
            n, 1, colluders=colluders, share_secrets_ratio=part, reconstruct_secrets_threshold=set_to, mode="active"
        )
    except ValueError:
        return
    for came in {settings.sharing, (settings.sharing + n) // 2, n}:
        topology = settings.topology(came)
        assert 2 * topology.threshold > came + colluders
        assert colluders + 2 <= topology.minimum <= settings.sharing
        assert topology.threshold <= topology.minimum


@given(n=st.integers(3, 3000), colluders=st.integers(0, 3000), mode=st.sampled_from(["active", "semi_honest"]))
def test_the_derived_threshold_is_refused_only_where_too_few_would_be_honest(n, colluders, mode):
    """With all sharing, every number of colluders is taken that leaves two others."""
    keys = {"colluders": colluders, "share_secrets_ratio": 1.0, "mode": mode, "graph": "complete"}
    if colluders + 2 > n:
        with pytest.raises(ValueError, match=f"{n} clients are too few for {colluders} colluders"):
            Settings(n, 1, **keys)
        return
    topology = Settings(n, 1, **keys).topology(n)
    assert topology.threshold == ((n + colluders) // 2 + 1 if mode == "active" else max(n // 2, colluders) + 1)
    assert topology.minimum - colluders >= 2


@pytest.mark.parametrize(("n", "colluders", "threshold"), [(100, 2, 52), (1000, 25, 513), (21, 1, 12), (3, 1, 3)])
def test_thresholds_of_the_active_mode(n, colluders, threshold):
    assert Settings(n, 1, colluders=colluders).topology(n).threshold == threshold


@given(n=st.integers(4, 5000))
def test_collusion_is_about_a_third(n):
    settings = Settings(n, 1, collusion=True, share_secrets_ratio=1.0)
    assert settings.topology(n).threshold == 2 * n // 3 + 1
    assert settings.tolerated == a_third(n)
    assert n / 3 - 3 <= a_third(n) <= n / 3 + 1
    assert Settings(n, 1, collusion=True, colluders=1, share_secrets_ratio=1.0).tolerated == 1


def test_the_corrupt_of_a_sparse_graph_cover_the_colluders():
    few = {"mode": "semi_honest", "graph": "sparse", "corrupt": 0.02, "drop": 0.1}
    named = Settings(1000, 1, colluders=100, **few)
    assert named.topology(1000) == Settings(1000, 1, **{**few, "corrupt": 0.1}).topology(1000)
    assert named.topology(1000).threshold > Settings(1000, 1, **few).topology(1000).threshold
    with pytest.raises(ValueError, match="1000 clients, 700 of them corrupt and 40% leaving, are too few for a s"):
        Settings(1000, 1, colluders=700, **{**few, "drop": 0.4})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"reconstruct_secrets_threshold": 52, "colluders": 4},
            r"reconstruct_secrets_threshold is 52, 100 clients need more than half of 100 \+ 4 .*set 53 or more",
        ),
        ({"colluders": 60}, r"need 81 shares to open \(colluders: 60\).* with 80 of 100 .*or lower colluders"),
        (
            {"colluders": 79},
            "100 clients are too few for 79 colluders: a sum needs two others, so 81 clients, .* proceeds with 80",
        ),
        ({"minimum": 5, "colluders": 4}, "minimum is 5, .* 4 colluders ask for 6 or more in a sum: take 6 to 80"),
        (
            {"mode": "semi_honest", "graph": "complete", "reconstruct_secrets_threshold": 60, "colluders": 60},
            "threshold is 60, 100 clients need more than half, and than 60 .*set 61 or more",
        ),
    ],
)
def test_more_colluders_than_the_settings_bear_are_refused_with_the_numbers(keys, words):
    with pytest.raises(ValueError, match=words):
        Settings(100, 1, **keys)


def test_colluders_are_part_of_what_all_agree_on():
    assert Settings(10, 1).digest_input() == Settings(10, 1, colluders=1).digest_input()
    assert Settings(10, 1, colluders=2).digest_input() != Settings(10, 1, colluders=1).digest_input()


# --- a coordinator that tries for a smaller threshold


def test_a_coordinator_with_other_colluders_is_refused():
    """Advertisements are signed for the settings: those of clients with a smaller threshold are of no use."""
    fed, other = federation(Settings(9, 4, colluders=2)), federation(Settings(9, 4, colluders=1))
    assert fed.keys.keys() == other.keys.keys()
    fed.run()
    other.run()
    victim = next(iter(fed.clients))
    roster = next(message for to, message in other.told if to == victim and isinstance(message, Roster))
    again = federation(Settings(9, 4, colluders=2))
    lie(again, victim, Roster, lambda message: roster)
    refused(again, victim, "own keys as it advertised them")
    mixed = federation(Settings(9, 4, colluders=2))
    own = mixed.clients[victim].start(0.0)[0]

    def with_own_keys(message: Roster) -> Roster:
        place = sorted(mixed.clients).index(victim)
        put = lambda data, size, value: data[: place * size] + value + data[(place + 1) * size :]  # noqa: E731
        return Roster(
            message.digest, message.total, message.ids,
            put(message.sealing_keys, 32, own.sealing_key), put(message.masking_keys, 32, own.masking_key),
            put(message.signatures, 64, own.signature),
        )  # fmt: skip

    with pytest.raises(PeerError, match="signature is not that of"):
        mixed.clients[victim].receive(with_own_keys(roster), 0.0)


def test_a_roster_that_was_cut_to_lower_the_threshold():
    """The threshold falls with the roster. A client accepts none below share_secrets_ratio, where it is still safe."""
    settings = Settings(21, 4, colluders=3)
    assert settings.sharing == 17
    assert settings.topology(17).threshold == 11
    fed = federation(settings)
    lie(fed, next(iter(fed.clients)), Roster, only(list(fed.clients)[:16]))
    refused(fed, next(iter(fed.clients)), "a cohort of 16, this client accepts 17 or more")
    for colluders, works in ((3, False), (5, True)):
        _, opened, _ = attack(settings, colluders, absent=4)
        assert bool(opened) is works
