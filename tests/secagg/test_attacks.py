"""A cheating server, a hostile client, a replay: each is refused, and nobody reveals anything."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest
from scipy.stats import chi2

from tacit.crypto import sealed, shamir
from tacit.crypto.agreement import KeyPair, agree_each_way
from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES, Client, mask_key, sign
from tacit.secagg.client import State as ClientState
from tacit.secagg.messages import (
    Advertise,
    Agreed,
    Agreements,
    Inbox,
    Masked,
    Reveal,
    Roster,
    Shares,
    Survivors,
    pack_ids,
    unpack_ids,
)
from tacit.secagg.server import Server, State
from tacit.secagg.session import Context, name
from tacit.secagg.settings import Settings
from tacit.secagg.shares import RevealedShares
from tests.secagg.federation import Federation, federation, vectors_for

ACTIVE = Settings(7, 6, share_secrets_ratio=0.72)
HONEST = Settings(7, 6, mode="semi_honest", share_secrets_ratio=0.72)
SPARSE = Settings(30, 6, mode="semi_honest", graph="sparse", corrupt=0.1, drop=0.2)

change = msgspec.structs.replace


def refused(fed: Federation, victim: int, message: str) -> None:
    """The victim refused, ended its session, and revealed nothing."""
    fed.run()
    assert message in fed.client_errors.get(victim, "no error"), fed.client_errors
    assert fed.clients[victim].state is ClientState.ABORTED
    assert not [m for sender, m in fed.seen if sender == victim and isinstance(m, Reveal)]


def lie(fed: Federation, victim: int, kind: type, forge) -> None:
    """Show the victim a forged message of one kind; the others see the truth."""
    fed.to_client = lambda to, m: forge(m) if to == victim and isinstance(m, kind) else m


def first(fed: Federation, n: int = 1) -> list[int]:
    return list(fed.clients)[:n]


# --- lists of ids


@pytest.mark.parametrize("config", [ACTIVE, HONEST, SPARSE], ids=["active", "semi_honest", "sparse"])
def test_a_client_both_alive_and_dropped(config):
    fed = federation(config)
    victim = first(fed)[0]
    other = lambda m: unpack_ids(m.alive)[-1]  # noqa: E731
    lie(fed, victim, Survivors, lambda m: change(m, dropped=pack_ids([*unpack_ids(m.dropped), other(m)])))
    refused(fed, victim, "both as survivors and as dropped")


@pytest.mark.parametrize("config", [ACTIVE, HONEST, SPARSE], ids=["active", "semi_honest", "sparse"])
@pytest.mark.parametrize("where", ["alive", "dropped"])
def test_an_unknown_client_among_the_survivors_or_dropped(config, where):
    fed = federation(config)
    victim = first(fed)[0]
    lie(fed, victim, Survivors, lambda m: change(m, **{where: pack_ids([*unpack_ids(getattr(m, where)), 4_000_000])}))
    refused(fed, victim, "not the clients that shared")


@pytest.mark.parametrize("config", [ACTIVE, HONEST, SPARSE], ids=["active", "semi_honest", "sparse"])
def test_a_client_left_out_of_both_lists(config):
    fed = federation(config)
    victim = first(fed)[0]
    lie(fed, victim, Survivors, lambda m: change(m, alive=m.alive[:-4], total=m.total - 1))
    refused(fed, victim, "not the clients that shared")


@pytest.mark.parametrize("kind", [Roster, Inbox, Survivors, Agreements])
def test_a_repeated_id(kind):
    fed = federation(ACTIVE)
    victim = first(fed)[0]
    where = {Roster: "ids", Inbox: "senders", Survivors: "alive", Agreements: "ids"}[kind]
    lie(fed, victim, kind, lambda m: change(m, **{where: getattr(m, where) + getattr(m, where)[-4:]}))
    refused(fed, victim, "not ascending, or repeats one")


def test_ids_that_are_no_numbers():
    fed = federation(ACTIVE)
    victim = first(fed)[0]
    lie(fed, victim, Survivors, lambda m: change(m, alive=m.alive + b"x"))
    refused(fed, victim, "32-bit numbers")


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "semi_honest"])
def test_the_client_itself_listed_as_dropped(config):
    """It would reveal the share of its own masking key."""
    fed = federation(config)
    victim = first(fed)[0]

    def forge(m):
        alive = [i for i in unpack_ids(m.alive) if i != victim]
        return change(m, alive=pack_ids(alive), dropped=pack_ids([*unpack_ids(m.dropped), victim]), total=len(alive))

    lie(fed, victim, Survivors, forge)
    refused(fed, victim, "not counted among the survivors")


def test_a_share_from_the_client_itself_or_from_a_stranger():
    for stranger in ("self", 4_000_000):
        fed = federation(HONEST)
        victim = first(fed)[0]
        extra = victim if stranger == "self" else stranger

        def forge(m, extra=extra):
            return change(
                m,
                senders=pack_ids([*unpack_ids(m.senders), extra]),
                sealed=m.sealed + bytes(SEALED_BYTES),
                hashes=m.hashes + bytes(32),
            )

        lie(fed, victim, Inbox, forge)
        refused(fed, victim, "who are not peers here")


# --- shrunken cohorts


def only(kept):
    def forge(m: Roster) -> Roster:
        ids = unpack_ids(m.ids)
        places = [i for i, identity in enumerate(ids) if identity in kept]
        adverts = [
            Advertise(
                ids[i],
                m.sealing_keys[32 * i : 32 * i + 32],
                m.masking_keys[32 * i : 32 * i + 32],
                m.signatures[64 * i : 64 * i + 64],
            )
            for i in places
        ]
        return Roster(
            tie.roster_digest(adverts), len(adverts), pack_ids(a.sender for a in adverts),
            b"".join(a.sealing_key for a in adverts), b"".join(a.masking_key for a in adverts),
            b"".join(a.signature for a in adverts),
        )  # fmt: skip

    return forge


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "semi_honest"])
def test_a_roster_of_too_few(config):
    fed = federation(config)
    lie(fed, first(fed)[0], Roster, only(first(fed, 3)))
    refused(fed, first(fed)[0], "a cohort of 3, this client accepts 6 or more")


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "semi_honest"])
def test_shares_of_too_few(config):
    fed = federation(config)
    victim = first(fed)[0]
    lie(
        fed,
        victim,
        Inbox,
        lambda m: change(m, senders=m.senders[:8], sealed=m.sealed[: 2 * SEALED_BYTES], hashes=m.hashes[:64], total=3),
    )
    refused(fed, victim, f"shares of 3 clients, {config.topology(7).threshold} are needed")


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@pytest.mark.parametrize("kind", [Roster, Inbox])
def test_a_cohort_below_share_secrets_ratio(mode, kind):
    """8 of 9 are asked for. More than the threshold, and fewer than 8: the client refuses, whatever the server does."""
    config = Settings(9, 6, mode=mode)
    assert (config.sharing, config.topology(9).threshold) == (8, 6 if mode == "active" else 5)
    fed = federation(config)
    forges = {
        Roster: only(first(fed, 7)),
        Inbox: lambda m: change(
            m, senders=m.senders[:24], sealed=m.sealed[: 6 * SEALED_BYTES], hashes=m.hashes[:192], total=7
        ),
    }
    lie(fed, first(fed)[0], kind, forges[kind])
    refused(fed, first(fed)[0], "a cohort of 7, this client accepts 8 or more")


def test_shares_of_fewer_than_said():
    fed = federation(HONEST)
    victim = first(fed)[0]
    lie(fed, victim, Inbox, lambda m: change(m, total=m.total + 1))
    refused(fed, victim, "a cohort of 8, and shares of 7")


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "semi_honest"])
def test_survivors_too_few(config):
    fed = federation(config)
    victim = first(fed)[0]

    def forge(m):
        alive = unpack_ids(m.alive)
        return change(m, alive=pack_ids(alive[:3]), dropped=pack_ids(alive[3:]), total=3)

    lie(fed, victim, Survivors, forge)
    refused(fed, victim, f"3 survivors, this client accepts {config.topology(7).minimum} or more")


def test_the_minimum_is_the_clients_own():
    config = Settings(7, 6, mode="semi_honest", share_secrets_ratio=0.86, minimum=6)
    fed = federation(config, vanish_before=dict.fromkeys(list(vectors_for(config))[5:], Masked))
    fed.run()
    assert fed.server.state is State.ABORTED
    assert "5 clients uploaded, 6 are needed" in fed.server.reason
    honest = federation(config)
    victim = first(honest)[0]

    def forge(m):
        alive = unpack_ids(m.alive)
        return change(m, alive=pack_ids(alive[:5]), dropped=pack_ids(alive[5:]), total=5)

    lie(honest, victim, Survivors, forge)
    refused(honest, victim, "5 survivors, this client accepts 6 or more")


def test_sparse_counts_are_checked():
    for kind, forge, message in (
        (Roster, lambda m: change(m, total=2**32 - 1), "a cohort of 4294967295, only 30 were invited"),
        (Inbox, lambda m: change(m, total=23), "a cohort of 23, this client accepts 24 or more"),
        (Survivors, lambda m: change(m, total=23), "23 survivors, this client accepts 24 or more"),
    ):
        fed = federation(SPARSE)
        lie(fed, first(fed)[0], kind, forge)
        refused(fed, first(fed)[0], message)


def test_a_missing_neighbour_is_noticed():
    fed = federation(SPARSE)
    victim = first(fed)[0]

    def forge(m):
        end = -32 if unpack_ids(m.ids)[-1] != victim else -64
        return change(m, ids=m.ids[: end // 8], sealing_keys=m.sealing_keys[:end], masking_keys=m.masking_keys[:end])

    lie(fed, victim, Roster, forge)
    refused(fed, victim, "neighbours of 30")


# --- two truths


def test_two_survivor_sets_are_never_both_opened():
    """The server tells half of the clients that one is alive and the others that it dropped."""
    fed = federation(ACTIVE)
    target = first(fed, 7)[6]
    fooled = set(first(fed, 2))

    def forge(to, m):
        if to in fooled and isinstance(m, Survivors):
            alive = [i for i in unpack_ids(m.alive) if i != target]
            return change(m, alive=pack_ids(alive), dropped=pack_ids([target]), total=len(alive))
        return m

    fed.to_client = forge
    fed.run()
    signed = [m for _, m in fed.seen if isinstance(m, Agreed)]
    assert len(signed) == 7
    # The server's own code drops signatures on another set. One that cheats passes on all that it has: refused.
    others = sorted((m for m in signed if m.sender != target), key=lambda m: m.sender)
    mixed = Agreements(signed[0].session, pack_ids(m.sender for m in others), b"".join(m.signature for m in others))
    for identity in fooled:
        with pytest.raises(PeerError, match="signature is not that of"):
            fed.clients[identity].receive(mixed, fed.now)
    assert not fooled & {m.sender for _, m in fed.seen if isinstance(m, Reveal)}


def test_too_few_or_foreign_agreements():
    for forge, message in (
        (lambda m: change(m, ids=m.ids[:12], signatures=m.signatures[:192]), "3 clients agree on the survivors, 5"),
        (lambda m: change(m, ids=m.ids[:-4] + pack_ids([4_000_000])), "signed, who are not survivors"),
        (lambda m: change(m, signatures=m.signatures[:-64] + bytes(64)), "signature is not that of"),
        (lambda m: change(m, signatures=m.signatures[:-1]), "7 signatures of 64 bytes"),
    ):
        fed = federation(ACTIVE)
        lie(fed, first(fed)[0], Agreements, forge)
        refused(fed, first(fed)[0], message)


def test_a_second_story_ends_the_session():
    fed = federation(ACTIVE)
    victim = first(fed)[0]
    stories = []

    def forge(to, m):
        if to == victim and isinstance(m, Survivors):
            stories.append(m)
        return None if to == victim and isinstance(m, Agreements) else m

    fed.to_client = forge
    fed.run()
    alive = unpack_ids(stories[0].alive)
    second = change(stories[0], alive=pack_ids(alive[:-1]), dropped=pack_ids(alive[-1:]), total=len(alive) - 1)
    with pytest.raises(PeerError, match="Survivors is not expected in AGREED"):
        fed.clients[victim].receive(second, fed.now)
    assert fed.clients[victim].state is ClientState.ABORTED


def test_one_kind_of_share_per_peer_ever():
    fed = federation(HONEST)
    fed.run()
    identity, story = next((to, m) for to, m in fed.told if isinstance(m, Survivors))
    alive = unpack_ids(story.alive)
    second = change(story, alive=pack_ids(alive[:-1]), dropped=pack_ids(alive[-1:]), total=len(alive) - 1)
    assert fed.clients[identity].receive(second, fed.now) == []
    (again,) = fed.clients[identity].receive(story, fed.now)
    assert [again] == [m for sender, m in fed.seen if sender == identity and isinstance(m, Reveal)]


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "honest"])
def test_a_client_reveals_one_share_of_each_peer_and_of_the_right_kind(config):
    """Of a survivor the share of its self-mask, of a client that left that of its masking key, by their hashes."""
    ids = sorted(vectors_for(config))
    fed = federation(config, vanish_before={ids[6]: Masked})
    fed.run()
    published = {sender: m.hashes for sender, m in fed.seen if isinstance(m, Shares)}
    reveals = [(sender, m) for sender, m in fed.seen if isinstance(m, Reveal)]
    assert sorted(sender for sender, _ in reveals) == ids[:6]
    for holder, message in reveals:
        owners = unpack_ids(message.ids)
        assert owners == tuple(ids)
        assert len(message.shares) == len(ids) * shamir.ROW_BYTES
        for place, owner in enumerate(owners):
            row = message.shares[place * shamir.ROW_BYTES :][: shamir.ROW_BYTES]
            kind, half = (tie.MASKING, 0) if owner == ids[6] else (tie.SELF_MASK, 1)
            due = published[owner][(2 * ids.index(holder) + half) * tie.HASH_BYTES :][: tie.HASH_BYTES]
            assert tie.share_hash(message.session, owner, holder, kind, row) == due


# --- replays and substitutions


@pytest.mark.parametrize("kind", [Inbox, Survivors, Agreements])
def test_a_message_of_another_session(kind):
    earlier = federation(ACTIVE, seed=5)
    earlier.run()
    fed = federation(ACTIVE)
    victim = first(fed)[0]
    replay = next(m for to, m in earlier.told if to == victim and isinstance(m, kind))
    lie(fed, victim, kind, lambda m: replay)
    refused(fed, victim, "another session")


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "semi_honest"])
def test_client_messages_of_another_session(config):
    earlier = federation(config, seed=5)
    earlier.run()
    for kind in (Shares, Masked, Agreed, Reveal):
        replays = {sender: m for sender, m in earlier.seen if isinstance(m, kind)}
        if not replays:
            continue
        fed = federation(config)
        cheat = first(fed)[0]
        fed.to_server = lambda sender, m, k=kind, r=replays, c=cheat: (  # type: ignore[misc]
            r[sender] if sender == c and isinstance(m, k) else m
        )
        fed.run()
        assert "another session" in fed.server_errors[cheat]
        assert fed.server.finish().words.tolist() == fed.expected()


def test_an_advertisement_of_another_round_or_model():
    for other in (Context(ACTIVE, bytes(32), 3), Context(ACTIVE, bytes(range(32)), 2)):
        fed = federation(ACTIVE)
        replayed, victim = first(fed, 2)
        keys = fed.keys[replayed]
        identities = {i: k.public for i, k in fed.keys.items()}
        (old,) = Client(other, replayed, np.zeros(6, np.uint32), key=keys, identities=identities).start(0.0)
        with pytest.raises(PeerError, match="signature is not that of"):
            fed.server.receive(replayed, old, 0.0)
        place = list(fed.clients).index(replayed)

        def forge(m, old=old, place=place):
            def put(data, new, size):
                return data[: size * place] + new + data[size * (place + 1) :]

            return change(
                m,
                sealing_keys=put(m.sealing_keys, old.sealing_key, 32),
                masking_keys=put(m.masking_keys, old.masking_key, 32),
                signatures=put(m.signatures, old.signature, 64),
            )

        lie(fed, victim, Roster, forge)
        refused(fed, victim, "signature is not that of")


@pytest.mark.parametrize("which", ["sealing_keys", "masking_keys"])
def test_substituted_keys(which):
    fed = federation(ACTIVE)
    victim = first(fed)[0]
    lie(fed, victim, Roster, lambda m: change(m, **{which: getattr(m, which)[:-32] + KeyPair.generate().public}))
    refused(fed, victim, "signature is not that of")


@pytest.mark.parametrize("config", [ACTIVE, HONEST, SPARSE], ids=["active", "semi_honest", "sparse"])
def test_a_clients_own_keys_substituted_or_missing(config):
    fed = federation(config)
    victim = first(fed)[0]

    def forge(m):
        place = unpack_ids(m.ids).index(victim)
        keys = m.masking_keys
        return change(m, masking_keys=keys[: 32 * place] + KeyPair.generate().public + keys[32 * place + 32 :])

    lie(fed, victim, Roster, forge)
    refused(fed, victim, "own keys as it advertised them")


def test_one_key_for_two_clients():
    fed = federation(HONEST)
    victim = first(fed)[0]
    lie(fed, victim, Roster, lambda m: change(m, masking_keys=m.masking_keys[:-32] + m.masking_keys[-64:-32]))
    refused(fed, victim, "two advertised keys are the same")
    one, two = first(fed, 2)
    fresh = federation(HONEST)
    (a,) = fresh.clients[one].start(0.0)
    fresh.server.receive(one, a, 0.0)
    with pytest.raises(PeerError, match="in use already"):
        fresh.server.receive(two, Advertise(two, a.masking_key, KeyPair.generate().public, b""), 0.0)


def test_a_roster_that_is_not_the_one_it_names():
    for forge in (lambda m: change(m, digest=bytes(32)), lambda m: change(m, total=m.total - 1)):
        fed = federation(HONEST)
        lie(fed, first(fed)[0], Roster, forge)
        refused(fed, first(fed)[0], "not the one that its digest and count name")


def test_a_stranger_in_the_roster():
    fed = federation(ACTIVE)
    victim = first(fed)[0]
    intruder = SigningKey.generate()
    unsigned = Advertise(4_000_000, KeyPair.generate().public, KeyPair.generate().public, b"")
    signature = intruder.sign(tie.ADVERTISE, fed.context.advertisement(unsigned))

    def forge(m):
        return change(
            m,
            ids=m.ids + pack_ids([4_000_000]),
            sealing_keys=m.sealing_keys + unsigned.sealing_key,
            masking_keys=m.masking_keys + unsigned.masking_key,
            signatures=m.signatures + signature,
        )

    lie(fed, victim, Roster, forge)
    refused(fed, victim, "client 4000000 is not among the known identities")


def test_signatures_without_identities_are_refused():
    fed = federation(HONEST)
    with pytest.raises(PeerError, match="no identities to check it with"):
        fed.server.receive(first(fed)[0], Advertise(first(fed)[0], bytes(32), bytes([1]) * 32, bytes(64)), 0.0)


# --- tampering


def test_a_tampered_ciphertext_is_never_revealed_and_the_sum_stays_right():
    fed = federation(HONEST, vanish_before={list(vectors_for(HONEST))[6]: Masked})
    victim = first(fed)[0]
    lie(fed, victim, Inbox, lambda m: change(m, sealed=bytes([m.sealed[0] ^ 1]) + m.sealed[1:]))
    result = fed.aggregate()
    assert result.words.tolist() == fed.expected()
    harmed = first(fed, 2)[1]
    assert fed.clients[victim].unusable == (harmed,)
    (reveal,) = [m for sender, m in fed.seen if sender == victim and isinstance(m, Reveal)]
    assert harmed not in unpack_ids(reveal.ids)


def test_ciphertexts_swapped_between_senders_do_not_open():
    fed = federation(HONEST)
    victim = first(fed)[0]
    size = SEALED_BYTES
    lie(
        fed,
        victim,
        Inbox,
        lambda m: change(m, sealed=m.sealed[size : 2 * size] + m.sealed[:size] + m.sealed[2 * size :]),
    )
    fed.run()
    assert len(fed.clients[victim].unusable) == 2


@pytest.mark.parametrize("kind", [Advertise, Agreed])
def test_a_tampered_signature_costs_its_sender_the_round(kind):
    fed = federation(ACTIVE)
    liar = first(fed)[0]

    def spoil(sender, m):
        return (
            change(m, signature=bytes([m.signature[0] ^ 1]) + m.signature[1:])
            if sender == liar and isinstance(m, kind)
            else m
        )

    fed.to_server = spoil
    fed.run()
    assert "signature is not that of" in fed.server_errors[liar]
    assert fed.server.finish().words.tolist() == fed.expected()


def test_shares_of_a_stranger_are_not_taken():
    fed = federation(HONEST)
    liar = first(fed)[0]

    def spoil(sender, m):
        if sender == liar and isinstance(m, Reveal):
            return change(m, ids=m.ids[:-4] + pack_ids([4_000_000]))
        return m

    fed.to_server = spoil
    fed.run()
    assert "holds no shares of [4000000]" in fed.server_errors[liar]


# --- different models


def test_clients_holding_different_models_do_not_mix():
    ids = list(vectors_for(ACTIVE))
    fed = federation(ACTIVE, models={ids[0]: bytes(32)})
    fed.run()
    assert "signature is not that of" in fed.server_errors[ids[0]]
    assert ids[0] not in fed.server.finish().survivors
    unsigned = federation(HONEST, models={ids[0]: bytes(32)})
    unsigned.run()
    assert "another session" in unsigned.server_errors[ids[0]]
    assert ids[0] not in unsigned.server.finish().survivors


# --- what is opened, and what is not


def test_a_reconstructed_masking_key_opens_nothing_that_was_sealed(monkeypatch):
    fed = federation(HONEST, vanish_before={list(vectors_for(HONEST))[6]: Masked})
    dropped = first(fed, 7)[6]
    known: dict[int, bytes] = {}
    recover = RevealedShares.recover

    def spy(self, owners, is_right, *, decode):
        found = recover(self, owners, is_right, decode=decode)
        known.update(found)
        return found

    monkeypatch.setattr(RevealedShares, "recover", spy)
    fed.run()
    masking = KeyPair(known[dropped])
    adverts = {m.sender: m for _, m in fed.seen if isinstance(m, Advertise)}
    assert masking.public == adverts[dropped].masking_key
    session = next(m.session for _, m in fed.seen if isinstance(m, Masked))
    ids = sorted(fed.clients)
    tried = 0
    for sender, m in fed.seen:
        if isinstance(m, Shares) and sender != dropped:
            receivers = [i for i in ids if i != sender]
            box = m.sealed[receivers.index(dropped) * SEALED_BYTES :][:SEALED_BYTES]
            associated = (session, name(sender), name(dropped), tie.SHARES)
            for own, public in itertools.product([masking], (adverts[sender].sealing_key, adverts[sender].masking_key)):
                context = tie.pair_context(tie.SEALING, session, sender, dropped)
                for key in agree_each_way(own, public, context=context):
                    with pytest.raises(PeerError):
                        sealed.unseal(key, box, associated)
                    tried += 1
    assert tried == 24


def test_keys_are_overwritten_and_dropped():
    fed = federation(HONEST)
    pairs = [pair for c in fed.clients.values() for pair in (c._sealing, c._masking)]
    seeds = [c._seed for c in fed.clients.values()]
    assert all(any(pair.private) for pair in pairs)
    fed.aggregate()
    assert not any(any(pair.private) for pair in pairs)
    assert not any(any(seed) for seed in seeds)
    for client in fed.clients.values():
        assert client._held == client._opening == {}
        assert client._own_rows is None
        assert client._vector is None
    aborted = federation(HONEST)
    one = next(iter(aborted.clients.values()))
    one.start(0.0)
    one.abort("enough")
    assert not any(one._masking.private)
    assert one._replies == {}
    assert aborted.server.abort("enough")
    assert aborted.server._sum is None


def byte_p_value(data: bytes) -> float:
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = len(data) / 256
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 255))


@pytest.mark.parametrize("value", [0, 2**31 + 12345])
def test_an_upload_is_independent_of_its_vector(value):
    config = Settings(4, 200_000, mode="semi_honest", share_secrets_ratio=1.0)
    vectors = {i: np.full(config.columns, value, np.uint32) for i in range(4)}
    fed = Federation(config, vectors, seed=9)
    fed.run()
    for _, message in fed.seen:
        if isinstance(message, Masked):
            # Each of the four bytes of a word: random ones fail at one of 16 places once in 6 million times.
            assert min(byte_p_value(bytes(message.words)[place::4]) for place in range(4)) > 1e-8


def test_no_mask_is_used_in_two_rounds():
    """The same vectors in two rounds: no upload has a word of the other, but once in 10^8 runs."""
    vectors = vectors_for(HONEST)
    rounds = []
    for seed in (1, 2):
        fed = Federation(HONEST, vectors, seed=seed)
        fed.run()
        rounds.append({who: np.frombuffer(m.words, "<u4") for who, m in fed.seen if isinstance(m, Masked)})
    assert all((rounds[0][who] != rounds[1][who]).all() for who in vectors)
    own, peer = KeyPair(bytes([1] * 32)), Advertise(2, bytes(32), KeyPair(bytes([2] * 32)).public, b"")
    sessions = [bytes([number] * 32) for number in (1, 2)]
    assert len({mask_key(own, 1, peer, session) for session in sessions}) == 2  # though the keys were the same
    assert len({tie.self_mask_key(bytes(32), session) for session in sessions}) == 2


def test_float_masks_give_the_vector_away():
    """Masks in [-1, 1] around a weight: the same test, on the upload scaled to bytes, tells 0 from 1.5."""
    rng = np.random.default_rng(9)
    p_values = []
    for value in (0.0, 1.5):
        upload = value + sum(rng.uniform(-1, 1, 50_000) for _ in range(3))
        scaled = np.clip((upload + 5) / 10 * 256, 0, 255).astype(np.uint8)
        p_values.append((byte_p_value(scaled.tobytes()), float(upload.mean())))
    assert all(p < 1e-6 for p, _ in p_values)
    assert p_values[1][1] - p_values[0][1] > 1.4


def test_nothing_secret_is_shown():
    fed = federation(HONEST)
    client = next(iter(fed.clients.values()))
    shown = repr(client) + repr(client._sealing) + repr(vars(fed.server).get("_plan"))
    assert bytes(client._sealing.private).hex() not in shown
    fed.run()
    assert repr(fed.server._plan) == f"Plan({len(fed.server._plan)} masks)"


def test_an_invited_client_without_a_known_identity_is_refused():
    fed = federation(ACTIVE)
    stranger = first(fed)[0]
    known = {i: key.public for i, key in fed.keys.items() if i != stranger}
    server = Server(fed.context, fed.clients, identities=known)
    (advert,) = fed.clients[stranger].start(0.0)
    with pytest.raises(PeerError, match=f"client {stranger} is not among the known identities"):
        server.receive(stranger, advert, 0.0)


# --- one malicious client


def variant(public: bytes) -> bytes:
    """Another encoding of the same X25519 key: bit 255 is ignored."""
    return public[:-1] + bytes([public[-1] ^ 0x80])


def test_a_copied_masking_key_does_not_make_masks_cancel():
    """Client 9 shows client 1's masking key in other bytes: the masks of client 5 with both would add up to nothing."""
    victim, copied = KeyPair.generate(), KeyPair.generate()
    honest = Advertise(1, bytes(32), copied.public, b"")
    cheat = Advertise(9, bytes(32), variant(copied.public), b"")
    assert victim.exchange(honest.masking_key) == victim.exchange(cheat.masking_key)  # X25519 sees one key
    assert sign(5, 1) + sign(5, 9) == 0
    assert mask_key(victim, 5, honest, bytes(32)) != mask_key(victim, 5, cheat, bytes(32))
    assert mask_key(victim, 5, honest, bytes(32)) == mask_key(
        copied, 1, Advertise(5, bytes(32), victim.public, b""), bytes(32)
    )


def test_a_key_of_low_order_costs_its_sender_the_round():
    fed = federation(HONEST)
    cheat = first(fed)[0]
    low = (1).to_bytes(32, "little")
    fed.to_server = lambda s, m: change(m, masking_key=low) if s == cheat and isinstance(m, Advertise) else m
    fed.run()
    assert "low order" in fed.server_errors[cheat]
    assert fed.server.finish().words.tolist() == fed.expected()
    assert not fed.client_errors


def test_sealed_nonsense_is_not_passed_on_in_others_names(monkeypatch):
    fed = federation(HONEST)
    cheat = first(fed)[0]
    split = shamir.split
    nonsense = lambda *arguments: np.full_like(split(*arguments), 2**32 - 1)  # noqa: E731
    upload = fed.clients[cheat].receive

    def receive(message, now):
        with monkeypatch.context() as patch:
            patch.setattr(shamir, "split", nonsense)
            return upload(message, now)

    monkeypatch.setattr(fed.clients[cheat], "receive", receive)
    fed.vanish_before = {cheat: Masked}
    fed.run()
    assert not fed.server_errors
    others = [c for i, c in fed.clients.items() if i != cheat]
    assert all(c.unusable == (cheat,) for c in others)
    assert fed.server.state is State.ABORTED  # its masks are in the sum, and nobody can take them out


def test_a_client_may_want_a_larger_crowd():
    fed = federation(HONEST)
    identity = first(fed)[0]
    wary = Client(fed.context, identity, fed.vectors[identity], minimum=7)
    fed.clients[identity] = wary
    gone = first(fed, 7)[6]
    fed.vanish_before = {gone: Masked}
    refused(fed, identity, "6 survivors, this client accepts 7 or more")
