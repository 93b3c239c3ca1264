"""Who is protected from whom, each adversary played; and what is said to be open is."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from tacit.crypto import sealed
from tacit.crypto.agreement import KeyPair, agree_each_way
from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES, Client
from tacit.secagg.client import State as ClientState
from tacit.secagg.messages import Abort, Advertise, Agreements, Inbox, Masked, Roster, Shares, Survivors, unpack_ids
from tacit.secagg.session import name
from tacit.secagg.settings import Settings
from tests.secagg.federation import Federation, federation, vectors_for

ACTIVE = Settings(7, 6, share_secrets_ratio=0.72)
HONEST = Settings(7, 6, mode="semi_honest", share_secrets_ratio=0.72)
SPARSE = Settings(30, 6, mode="semi_honest", graph="sparse", corrupt=0.1, drop=0.2)
change = msgspec.structs.replace


def puppets(config: Settings) -> tuple[Federation, int]:
    """One real client; the server makes up all the others, whose vectors are nothing."""
    vectors = vectors_for(config)
    victim = min(vectors)
    fed = Federation(config, {i: v if i == victim else np.zeros_like(v) for i, v in vectors.items()})
    if config.mode == "active":  # the victim knows the keys of those who are real
        known = {i: SigningKey.generate().public for i in vectors} | {victim: fed.keys[victim].public}
        fed.clients[victim] = Client(fed.context, victim, fed.vectors[victim], key=fed.keys[victim], identities=known)
    return fed, victim


def test_in_semi_honest_mode_a_server_that_makes_up_clients_reads_a_vector():
    """Said to be open: nobody proves there who they are."""
    fed, victim = puppets(HONEST)
    assert fed.aggregate().words.tolist() == fed.vectors[victim].tolist()


def test_in_active_mode_a_server_that_makes_up_clients_gets_nothing():
    fed, victim = puppets(ACTIVE)
    fed.run()
    assert "signature is not that of" in fed.client_errors[victim]
    assert fed.clients[victim].state is ClientState.ABORTED
    assert {type(m) for sender, m in fed.seen if sender == victim} == {Advertise}


def test_on_a_sparse_graph_the_server_chooses_the_neighbours():
    """Said to be open in semi-honest mode: a client cannot tell that a neighbour was exchanged."""
    fed = federation(SPARSE)
    adverts: dict[int, Advertise] = {}
    victim = min(fed.clients)
    chosen: list[int] = []

    def kept(sender, message):
        if isinstance(message, Advertise):
            adverts[sender] = message
        return message

    def exchanged(to, message):
        if to != victim or not isinstance(message, Roster):
            return message
        ids = [i for i in unpack_ids(message.ids) if i != victim]
        stranger = next(i for i in sorted(adverts) if i not in ids and i != victim)
        chosen.append(stranger)
        shown = [adverts[i] for i in sorted([*ids[1:], stranger, victim])]
        return change(
            message,
            ids=b"".join(i.sender.to_bytes(4, "little") for i in shown),
            sealing_keys=b"".join(a.sealing_key for a in shown),
            masking_keys=b"".join(a.masking_key for a in shown),
        )

    fed.to_server, fed.to_client = kept, exchanged
    fed.run()
    assert chosen
    assert [m for sender, m in fed.seen if sender == victim and isinstance(m, Shares)]


@pytest.mark.parametrize("config", [ACTIVE, HONEST, SPARSE], ids=["active", "semi_honest", "sparse"])
def test_no_vector_reaches_another_client(config):
    """All that clients are told: keys, sealed shares and their hashes, numbers of clients, signatures."""
    fed = federation(config, vanish_before={max(vectors_for(config)): Masked})
    fed.run()
    told = {(type(m), field) for _, m in fed.told for field in m.__struct_fields__}
    allowed = {
        Roster: {"digest", "total", "ids", "sealing_keys", "masking_keys", "signatures"},
        Inbox: {"session", "total", "senders", "hashes", "sealed"},
        Survivors: {"session", "total", "alive", "dropped"},
        Agreements: {"session", "ids", "signatures"},
        Abort: {"reason"},
    }
    assert told <= {(kind, field) for kind, fields in allowed.items() for field in fields}
    masked = [m.words for _, m in fed.seen if isinstance(m, Masked)]
    vectors = [v.tobytes() for v in fed.vectors.values()]
    values = [value for _, m in fed.told for value in msgspec.structs.astuple(m)]
    heard = b"|".join(bytes(value) for value in values if isinstance(value, bytes | memoryview))
    assert masked
    assert not [data for data in (*masked, *vectors) if bytes(data[:8]) in heard]


def test_a_client_that_hears_everything_opens_only_what_is_sealed_for_it():
    """A curious client with its own keys, and the inboxes of all others."""
    fed = federation(HONEST)
    ids = sorted(fed.clients)
    curious = ids[0]
    pairs = [KeyPair(bytes(p.private)) for p in (fed.clients[curious]._sealing, fed.clients[curious]._masking)]
    fed.run()
    adverts = {m.sender: m for _, m in fed.seen if isinstance(m, Advertise)}
    opened = {True: 0, False: 0}
    for to, inbox in fed.told:
        if not isinstance(inbox, Inbox):
            continue
        senders = [i for i in unpack_ids(inbox.senders) if i != curious]
        for sender in senders:
            at = unpack_ids(inbox.senders).index(sender) * SEALED_BYTES
            box = inbox.sealed[at : at + SEALED_BYTES]
            publics = (adverts[sender].sealing_key, adverts[sender].masking_key)
            contexts = {tie.pair_context(tie.SEALING, inbox.session, sender, holder) for holder in (curious, to)}
            for own, public, context in itertools.product(pairs, publics, contexts):
                for key in agree_each_way(own, public, context=context):
                    try:
                        sealed.unseal(key, box, (inbox.session, name(sender), name(to), tie.SHARES))
                        opened[to == curious] += 1
                    except PeerError:
                        pass
    assert opened == {True: len(ids) - 1, False: 0}


@pytest.mark.parametrize("config", [ACTIVE, HONEST], ids=["active", "semi_honest"])
def test_a_client_that_lies_moves_the_sum_by_what_it_likes(config):
    """Said to be open: masks hide a wrong vector too."""
    fed = federation(config)
    honest = fed.expected(tuple(fed.clients))
    liar = max(fed.clients)
    shift = np.array([1, 10**9, 2**31, 2**32 - 1, 0, 5], dtype=np.uint32)
    fed.clients[liar]._vector = fed.vectors[liar] + shift
    found = fed.aggregate().words.tolist()
    assert found == [(value + by) % 2**32 for value, by in zip(honest, shift.tolist(), strict=True)]
