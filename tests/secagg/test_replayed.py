"""A server that replays advertisements of an earlier run, whose masking keys it opened there as those of dropped."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.crypto.signing import SigningKey
from tacit.errors import Declined
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES, Client, State
from tacit.secagg.messages import Agreed, Inbox, Roster, Shares, Survivors, pack_ids
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings

CLIENTS, MINIMUM = 20, 16  # t = 11, one colluder
SETTINGS = Settings(CLIENTS, 4, mode="active", minimum=MINIMUM)
CONTEXT = Context(SETTINGS, bytes(range(32)), 0)  # of both runs: the same model, the same number
KEYS = {i: SigningKey.generate() for i in range(CLIENTS)}
PUBLIC = {i: key.public for i, key in KEYS.items()}


def client(identity: int) -> Client:
    return Client(CONTEXT, identity, np.zeros(4, np.uint32), key=KEYS[identity], identities=PUBLIC)


def until_uploads(clients: dict[int, Client], adverts: dict) -> tuple[bytes, dict[int, Client]]:
    """Everybody in `adverts` is said to have shared; for those without a client the boxes hold nothing."""
    listed = [adverts[i] for i in sorted(adverts)]
    everybody = sorted(adverts)
    roster = Roster(
        tie.roster_digest(listed),
        len(listed),
        pack_ids(everybody),
        b"".join(a.sealing_key for a in listed),
        b"".join(a.masking_key for a in listed),
        b"".join(a.signature for a in listed),
    )
    shares: dict[int, Shares] = {}
    for identity, each in clients.items():
        (answer,) = each.receive(roster, 0.0)
        assert isinstance(answer, Shares)
        shares[identity] = answer
    session = next(iter(shares.values())).session
    for identity, each in clients.items():
        boxes, hashes = b"", b""
        senders = [i for i in everybody if i != identity]
        for sender in senders:
            receivers = [i for i in everybody if i != sender]
            box, pair = receivers.index(identity) * SEALED_BYTES, everybody.index(identity) * 2 * tie.HASH_BYTES
            real = shares.get(sender)
            boxes += real.sealed[box : box + SEALED_BYTES] if real else bytes(SEALED_BYTES)
            hashes += real.hashes[pair : pair + 2 * tie.HASH_BYTES] if real else bytes(2 * tie.HASH_BYTES)
        each.receive(Inbox(session, len(everybody), pack_ids(senders), hashes, boxes), 0.0)
        assert each.state is State.UPLOADED
    return session, clients


def survivors(session: bytes, alive: list[int], dropped: list[int]) -> Survivors:
    return Survivors(session, len(alive), pack_ids(alive), pack_ids(dropped))


@pytest.mark.parametrize("replayed", [1, CLIENTS - MINIMUM])
def test_clients_of_an_earlier_run_are_not_counted_among_the_survivors(replayed):
    """Otherwise a sum of 12 clients, with the noise of 12, would pass for one of 16: the server knows all masks between
    them and those whose advertisements it replays."""
    old = {i: client(i).start(0.0)[0] for i in range(replayed)}
    fresh = {i: client(i) for i in range(replayed, CLIENTS)}
    session, _ = until_uploads(fresh, old | {i: each.start(0.0)[0] for i, each in fresh.items()})
    honest = sorted(fresh)[: MINIMUM - replayed]
    dropped = sorted(fresh.keys() - set(honest))
    for identity in honest:
        with pytest.raises(Declined, match=f"shares of {MINIMUM - replayed} of the {MINIMUM} survivors opened"):
            fresh[identity].receive(survivors(session, [*old, *honest], dropped), 0.0)
        assert fresh[identity].state is State.ABORTED


def test_bad_shares_of_clients_that_are_not_needed_stop_nobody():
    old = {0: client(0).start(0.0)[0]}
    fresh = {i: client(i) for i in range(1, CLIENTS)}
    session, _ = until_uploads(fresh, old | {i: each.start(0.0)[0] for i, each in fresh.items()})
    for each in fresh.values():
        (answer,) = each.receive(survivors(session, list(range(CLIENTS)), []), 0.0)
        assert isinstance(answer, Agreed)
