"""Clients that lie about secrets and shares, each in its own way, on real clients and a real link.

`lie(fed, liar, how, about)` makes client `liar` of a federation lie about the clients in `about`: as their revealer, or
as the owner of the shares that they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from unittest.mock import patch

import msgspec
import numpy as np

from tacit.crypto import commitment, shamir
from tacit.crypto.reed_solomon import PRIME
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES
from tacit.secagg.messages import Reveal, Shares, ToServer, pack_ids, unpack_ids
from tests.secagg.federation import Federation

change = msgspec.structs.replace
PROVED = ("reveals", "deals", "commits")  # ways to lie that are proved, if they matter at all
DISPUTED = ("hashes", "boxes", "complains")  # ways in which it is one client's word against another's
WAYS = (*PROVED, *DISPUTED, "silent")


def lie(fed: Federation, liar: int, how: str, about: Collection[int] | None = None) -> None:
    about = set(fed.clients if about is None else about)
    if how == "deals":
        _within(fed, liar, shamir, "split", lambda rows: _spoilt_rows(fed, liar, rows, about))
    elif how == "commits":
        _within(fed, liar, commitment, "commit", lambda promise: bytes(32))
    else:
        _tamper(fed, liar, lambda message: _changed(fed, message, how, about))


def _within(fed: Federation, liar: int, module: object, name: str, spoil: Callable) -> None:
    """Let a function give the liar something else: what it signs and hashes is of the lie."""
    client, made = fed.clients[liar], getattr(module, name)
    receive = client.receive

    def lying(message, now):
        with patch.object(module, name, lambda *arguments: spoil(made(*arguments))):
            return receive(message, now)

    client.receive = lying


def _spoilt_rows(fed: Federation, liar: int, rows: np.ndarray, about: set[int]) -> np.ndarray:
    spoilt = rows.copy()
    for place, holder in enumerate(fed.clients[liar]._holders):
        if holder in about:
            error = np.random.default_rng(place).integers(1, PRIME, spoilt[:, place].shape)
            spoilt[:, place] = (spoilt[:, place] + error) % PRIME
    return spoilt


def _tamper(fed: Federation, liar: int, forge: Callable[[ToServer], ToServer | None]) -> None:
    passed = fed.to_server
    fed.to_server = lambda sender, message: passed(sender, forge(message) if sender == liar else message)


def _changed(fed: Federation, message: ToServer, how: str, about: set[int]) -> ToServer | None:
    match how, message:
        case "reveals", Reveal():
            owners = unpack_ids(message.ids)
            rows = shamir.from_bytes(message.shares, len(owners))
            for place, owner in enumerate(owners):
                if owner in about:
                    rows[place] = (rows[place] + 1) % PRIME
            return change(message, shares=shamir.to_bytes(rows))
        case "complains", Reveal():
            owners = unpack_ids(message.ids)
            kept = [place for place, owner in enumerate(owners) if owner not in about - {message.sender}]
            rows = shamir.from_bytes(message.shares, len(owners))[kept]
            return change(message, ids=pack_ids(owners[i] for i in kept), shares=shamir.to_bytes(rows))
        case "silent", Reveal():
            return None
        case "hashes", Shares():
            hashes = bytearray(message.hashes)
            for place, holder in enumerate(fed.clients[message.sender]._holders):
                if holder in about and holder != message.sender:
                    hashes[2 * tie.HASH_BYTES * place + 3] ^= 1
                    hashes[2 * tie.HASH_BYTES * place + tie.HASH_BYTES] ^= 1
            return _signed(fed, change(message, hashes=bytes(hashes)))
        case "boxes", Shares():
            sealed = bytearray(message.sealed)
            receivers = [holder for holder in fed.clients[message.sender]._holders if holder != message.sender]
            for place, holder in enumerate(receivers):
                if holder in about:
                    sealed[SEALED_BYTES * place] ^= 1
            return _signed(fed, change(message, sealed=bytes(sealed)))
    return message


def _signed(fed: Federation, message: Shares) -> Shares:
    if message.sender not in fed.keys:
        return message
    return change(message, signature=fed.keys[message.sender].sign(tie.DEALING, tie.dealing(message)))
