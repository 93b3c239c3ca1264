"""Wrong shares and secrets: the sum is opened nevertheless if it can be, and none but the liars are blamed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.crypto import shamir
from tacit.crypto.reed_solomon import PRIME
from tacit.errors import PeerError
from tacit.randomness import seeded_rng
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES
from tacit.secagg.complaints import quorum
from tacit.secagg.messages import Advertise, Masked, Reveal, Shares, unpack_ids
from tacit.secagg.server import State
from tacit.secagg.settings import Settings
from tacit.secagg.shares import DECODINGS, RevealedShares
from tests.secagg.federation import Federation, federation, vectors_for
from tests.secagg.liars import DISPUTED, PROVED, WAYS, change, lie

ACTIVE = Settings(10, 6, share_secrets_ratio=2 / 3)
HONEST = Settings(9, 6, mode="semi_honest", share_secrets_ratio=2 / 3)
SPARSE = Settings(30, 6, mode="semi_honest", graph="sparse", corrupt=0.1, drop=0.2)
CONFIGS = pytest.mark.parametrize("config", [ACTIVE, HONEST, SPARSE], ids=["active", "semi_honest", "sparse"])
DROPPED = -1  # the last client leaves before it uploads, so that a key is rebuilt too


def forged(forge, liar, sender, message):
    """What is sent, but for the shares of a liar."""
    return forge(message) if sender == liar and isinstance(message, Shares) else message


def opened(fed: Federation) -> bool:
    """Run it; if the sum is opened it is right."""
    fed.run()
    if fed.server.state is not State.READY:
        assert fed.server.state is State.ABORTED
        return False
    assert fed.server.finish().words.tolist() == fed.expected()
    return True


def with_one_dropped(config: Settings) -> tuple[Federation, list[int]]:
    ids = list(vectors_for(config))
    return federation(config, vanish_before={ids[DROPPED]: Masked}), ids


def next_round_opens(config: Settings, blamed: set[int]) -> None:
    """Without the blamed, who are invited and not there."""
    assert blamed
    assert opened(federation(config, seed=1, vanish_before=dict.fromkeys(blamed, Advertise)))


# --- revealers that lie


@CONFIGS
@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_revealers_of_wrong_shares_are_left_out_and_blamed(config, wrong):
    """Up to as many as there are shares to spare: hashes tell which are wrong."""
    fed, ids = with_one_dropped(config)
    liars = ids[:wrong]
    for liar in liars:
        lie(fed, liar, "reveals")
    assert opened(fed)
    assert fed.server.blamed.keys() == set(liars)
    assert all("does not match the hash that it accepted" in reason for reason in fed.server.blamed.values())
    assert not fed.server.disputes


@CONFIGS
def test_a_revealer_that_lies_about_one_client_only(config):
    fed, ids = with_one_dropped(config)
    fed.run()
    about = unpack_ids(next(m.ids for s, m in fed.seen if s == ids[0] and isinstance(m, Reveal)))[2]
    fed, _ = with_one_dropped(config)
    lie(fed, ids[0], "reveals", {about})
    assert opened(fed)
    assert fed.server.blamed == {
        ids[0]: f"the share of client {about} that it revealed does not match the hash that it accepted"
    }


def test_right_shares_of_liars_still_count():
    """Two clients lie about one owner each, and there is one share to spare for each owner."""
    fed = federation(Settings(9, 6, mode="semi_honest", reconstruct_secrets_threshold=8, share_secrets_ratio=1.0))
    ids = list(fed.clients)
    lie(fed, ids[0], "reveals", {ids[5]})
    lie(fed, ids[1], "reveals", {ids[6]})
    assert opened(fed)
    assert fed.server.blamed.keys() == {ids[0], ids[1]}


def test_too_many_liars_end_the_round_and_are_all_blamed():
    fed = federation(HONEST)
    liars = list(fed.clients)[:5]
    for liar in liars:
        lie(fed, liar, "reveals")
    assert not opened(fed)
    assert "does not fit what its owner published" in fed.server.reason
    assert fed.server.blamed.keys() == set(liars)


# --- owners that lie


@CONFIGS
@pytest.mark.parametrize("uploads", [True, False])
def test_a_few_wrong_shares_of_an_owner_are_decoded_and_it_is_blamed(config, uploads):
    ids = list(vectors_for(config))
    owner = ids[0]
    fed = federation(config, vanish_before={} if uploads else {owner: Masked})
    probe = federation(config)
    probe.run()
    holders = [holder for holder in probe.clients[owner]._holders if holder != owner]
    lie(fed, owner, "deals", holders[:1])
    assert opened(fed)
    assert fed.server.blamed.keys() == {owner}
    assert "do not open what it committed to" in fed.server.blamed[owner]
    assert not fed.server.disputes


@CONFIGS
@pytest.mark.parametrize("how", ["commits", "deals"])
def test_an_owner_whose_secret_cannot_be_had_ends_one_round_and_no_other(config, how):
    fed, ids = with_one_dropped(config)
    lie(fed, ids[0], how)
    assert not opened(fed)
    assert "does not fit what its owner published" in fed.server.reason
    assert fed.server.blamed.keys() == {ids[0]}
    next_round_opens(config, set(fed.server.blamed))


@CONFIGS
def test_an_owner_that_shares_another_key_than_its_own_and_leaves(config):
    ids = list(vectors_for(config))
    fed = federation(config, vanish_before={ids[0]: Masked})
    holders = [i for i in ids if i != ids[0]]
    lie(fed, ids[0], "deals", holders)
    assert not opened(fed)
    assert fed.server.blamed.keys() == {ids[0]}
    next_round_opens(config, {ids[0]})


def test_all_owners_that_lie_are_blamed_in_one_round():
    fed = federation(HONEST)
    liars = list(fed.clients)[:3]
    lie(fed, liars[0], "commits")
    lie(fed, liars[1], "deals")
    lie(fed, liars[2], "reveals")
    assert not opened(fed)
    assert fed.server.blamed.keys() == set(liars)
    next_round_opens(HONEST, set(liars))


def test_one_wrong_share_among_601_at_threshold_600():
    """Of an owner that lies, with one share to spare; liars among the revealers are told by the hashes."""
    rng = seeded_rng(3)
    secret = rng.bytes(32)
    rows = shamir.split([secret], 601, 600, rng)[0]
    rows[17] = (rows[17] + 1) % PRIME
    shares = RevealedShares(lambda owner: tuple(range(601)), 600, lambda owner, holder, row: True)
    for holder in range(601):
        shares.add(holder, [5], rows[holder : holder + 1])
    assert shares.recover([5], lambda owner, found: found == secret, decode=True) == {5: secret}
    assert shares.blamed.keys() == {5}


def test_liars_do_not_buy_the_servers_time():
    """Many revealers lie about all: the hashes of one owner are compared, and no code is decoded."""
    config = Settings(60, 2, mode="semi_honest", graph="complete", share_secrets_ratio=1.0)
    fed = federation(config)
    liars = list(fed.clients)[:4]
    for liar in liars:
        lie(fed, liar, "reveals")
    fed.run()
    assert fed.server._shares.decodings == DECODINGS
    assert len(fed.server._shares._mismatched) <= 1
    assert fed.server.blamed.keys() == set(liars)
    assert fed.server.finish().words.tolist() == fed.expected()


def test_many_owners_that_lie_are_decoded_up_to_a_number_and_all_blamed():
    rng = seeded_rng(4)
    owners = list(range(DECODINGS + 5))
    secrets = [rng.bytes(32) for _ in owners]
    rows = shamir.split(secrets, 9, 5, rng)
    rows[:, 0] = (rows[:, 0] + 1) % PRIME
    shares = RevealedShares(lambda owner: tuple(range(9)), 5, lambda owner, holder, row: True)
    for holder in range(9):
        shares.add(holder, owners, rows[:, holder])
    found = shares.recover(owners, lambda owner, secret: secret == secrets[owner], decode=True)
    assert found == dict(enumerate(secrets[:DECODINGS]))
    assert shares.blamed.keys() == set(owners)


# --- one client's word against another's


@CONFIGS
@pytest.mark.parametrize("how", DISPUTED)
def test_where_nobody_can_tell_who_lies_both_are_named_and_nobody_is_blamed(config, how):
    fed, ids = with_one_dropped(config)
    probe = federation(config)
    probe.run()
    liar = ids[0]
    about = {holder for holder in probe.clients[liar]._holders if holder not in (liar, ids[DROPPED])}
    about = set(sorted(about)[:2])
    lie(fed, liar, how, about)
    assert opened(fed)
    assert not fed.server.blamed
    if how == "complains":
        assert fed.server.disputes == {liar: tuple(sorted(about))}
    else:
        assert fed.server.disputes == dict.fromkeys(about, (liar,))
        assert all(fed.clients[holder].unusable == (liar,) for holder in about)


@CONFIGS
@pytest.mark.parametrize("how", DISPUTED)
def test_one_client_against_many_is_blamed(config, how):
    """It would take a quorum of clients to frame it."""
    fed, ids = with_one_dropped(config)
    lie(fed, ids[0], how)
    fed.run()
    assert fed.server.blamed.keys() == {ids[0]}
    next_round_opens(config, {ids[0]})


def test_two_clients_that_complain_of_a_third_do_not_get_it_blamed():
    for n in (5, 9, 30):
        config = Settings(n, 2, mode="semi_honest", graph="complete", share_secrets_ratio=0.8)
        fed = federation(config)
        first, second, victim, *_ = fed.clients
        for liar in (first, second):
            lie(fed, liar, "complains", {victim})
        assert opened(fed)
        assert not fed.server.blamed
        assert fed.server.disputes == {first: (victim,), second: (victim,)}


def test_quorum():
    cases = ((3, 2, 1), (9, 5, 1), (9, 8, 1), (30, 16, 1), (100, 52, 2), (100, 67, 33), (1000, 513, 25))
    assert [quorum(*case) for case in cases] == [3, 3, 3, 8, 25, 34, 244]


@CONFIGS
def test_a_silent_revealer_is_nobody_to_blame(config):
    fed, ids = with_one_dropped(config)
    lie(fed, ids[0], "silent")
    assert opened(fed)
    assert fed.server.blamed == fed.server.disputes == {}


@pytest.mark.parametrize("n", [5, 6, 9, 12])
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_honest_client_is_ever_blamed(n, mode, data):
    """Whatever a few liars do together, also as dropouts, and whether or not the sum can be opened."""
    config = Settings(n, 3, mode=mode, share_secrets_ratio=0.8)
    ids = list(vectors_for(config))
    fed = federation(config, seed=n)
    threshold = config.topology(n).threshold
    most = min(n - threshold, quorum(n, threshold, 1) - 1)
    liars = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=most, unique=True), label="liars")
    for liar in liars:
        for how in data.draw(st.lists(st.sampled_from(WAYS), min_size=1, max_size=2, unique=True), label="ways"):
            lie(fed, liar, how, data.draw(st.sets(st.sampled_from(ids), min_size=1), label="about"))
        if data.draw(st.booleans(), label="leaves"):
            fed.vanish_before[liar] = Masked
    if not opened(fed):
        assert fed.server.blamed or fed.server.disputes or "are needed" in fed.server.reason or fed.server._lacking
    assert fed.server.blamed.keys() <= set(liars)
    assert set(fed.server.disputes) <= set(ids)
    for holder, owners in fed.server.disputes.items():
        assert holder in liars or set(owners) <= set(liars)
    assert not fed.client_errors


@pytest.mark.parametrize("how", PROVED)
@pytest.mark.parametrize("n", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_larger_rounds(n, how):
    config = Settings(n, 2, share_secrets_ratio=0.75)
    fed = federation(config)
    liars = list(fed.clients)[2:5]
    for liar in liars:
        lie(fed, liar, how, list(fed.clients)[:2])
    assert opened(fed) == (how != "commits")
    assert fed.server.blamed.keys() == set(liars)
    next_round_opens(config, set(liars))


# --- what is published


def test_hashes_are_signed_and_of_the_right_length():
    for forge, message in [
        (lambda m: change(m, hashes=m.hashes[:-1]), "10 pairs of hashes are 320 bytes, got 319"),
        (lambda m: change(m, hashes=bytes(len(m.hashes))), "the signature is not that of"),
        (lambda m: change(m, commitment=bytes(32)), "the signature is not that of"),
        (lambda m: change(m, sealed=bytes(len(m.sealed))), "the signature is not that of"),
        (lambda m: change(m, signature=b""), "an Ed25519 signature has 64 bytes, got 0"),
    ]:
        fed = federation(ACTIVE)
        liar = next(iter(fed.clients))
        fed.to_server = partial(forged, forge, liar)
        assert opened(fed)
        assert message in fed.server_errors[liar]
    unsigned = federation(HONEST)
    liar = next(iter(unsigned.clients))
    unsigned.to_server = lambda s, m: change(m, signature=bytes(64)) if isinstance(m, Shares) and s == liar else m
    assert opened(unsigned)
    assert "no identities to check them with" in unsigned.server_errors[liar]


def test_a_hash_binds_session_owner_holder_kind_and_share():
    row = bytes(36)
    whole = tie.share_hash(bytes(32), 1, 2, tie.MASKING, row)
    others = {
        tie.share_hash(bytes([1]) + bytes(31), 1, 2, tie.MASKING, row),
        tie.share_hash(bytes(32), 3, 2, tie.MASKING, row),
        tie.share_hash(bytes(32), 1, 3, tie.MASKING, row),
        tie.share_hash(bytes(32), 1, 2, tie.SELF_MASK, row),
        tie.share_hash(bytes(32), 1, 2, tie.MASKING, bytes([1]) + row[1:]),
    }
    assert len(others | {whole}) == 6
    assert len(whole) == tie.HASH_BYTES == 16
    other = bytes(range(36))
    both = tie.share_hashes(bytes(32), 1, 2, row + other)
    assert both == whole + tie.share_hash(bytes(32), 1, 2, tie.SELF_MASK, other)


def test_a_server_that_shows_a_holder_other_hashes_gains_nothing():
    """The holder reveals nothing of that owner."""
    fed = federation(ACTIVE)
    victim, owner, *_ = fed.clients
    fed.to_client = lambda to, m: (
        change(m, hashes=bytes([m.hashes[0] ^ 1]) + m.hashes[1:]) if to == victim and hasattr(m, "senders") else m
    )
    fed.run()
    assert fed.clients[victim].unusable == (owner,)
    (reveal,) = [m for sender, m in fed.seen if sender == victim and isinstance(m, Reveal)]
    assert owner not in unpack_ids(reveal.ids)


def test_hashes_of_the_wrong_length_end_the_clients_session():
    fed = federation(HONEST)
    victim = next(iter(fed.clients))
    fed.to_client = lambda to, m: change(m, hashes=m.hashes[:-1]) if to == victim and hasattr(m, "senders") else m
    fed.run()
    assert "8 pairs of hashes of 32 bytes are 256 bytes, got 255" in fed.client_errors[victim]


def test_a_wrong_share_is_not_passed_to_the_decoder_as_a_number_too_large():
    with pytest.raises(PeerError, match="the largest is"):
        shamir.from_bytes(np.full(9, 2**32 - 1, np.uint32).tobytes())


# --- what blame does not reach


@pytest.mark.parametrize(
    ("clients", "colluders", "ends"),
    [(4, 1, True), (5, 1, True), (6, 1, False), (10, 1, False), (12, 4, True), (20, 7, True), (20, 2, False)],
)
def test_fewer_bad_shares_than_a_quorum_end_a_round_only_if_there_are_fewer_to_spare(clients, colluders, ends):
    """And nobody is blamed: as many colluders could say the same of an honest client."""
    config = Settings(clients, 6, colluders=colluders, share_secrets_ratio=1.0)
    threshold = config.topology(clients).threshold
    bad = quorum(clients, threshold, colluders) - 1
    assert ends == (bad > clients - threshold)
    fed = federation(config)
    liar = sorted(fed.clients)[0]

    def seal(sender, message):
        if sender != liar or not isinstance(message, Shares):
            return message
        count = bad * SEALED_BYTES
        message = change(message, sealed=bytes(count) + message.sealed[count:])
        return change(message, signature=fed.keys[liar].sign(tie.DEALING, tie.dealing(message)))

    fed.to_server = seal
    assert opened(fed) != ends
    assert fed.server.blamed == {}
    assert list(fed.server.disputes.values()) == [(liar,)] * bad


def test_an_upload_of_random_words_blames_nobody():
    fed = federation(ACTIVE)
    liar = sorted(fed.clients)[0]
    noise = seeded_rng(7).bytes(4 * ACTIVE.columns)
    fed.to_server = lambda sender, m: change(m, words=noise) if sender == liar and isinstance(m, Masked) else m
    fed.run()
    assert fed.server.finish().words.tolist() != fed.expected()
    assert (fed.server.blamed, fed.server.disputes) == ({}, {})
