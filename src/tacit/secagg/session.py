"""What ties an aggregation together: one digest that enters every key, signature and message.

session = H(shared settings, roster, model, round). A message of another round, of another cohort, or of a client that
holds another model carries another session, opens nothing and cancels nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tacit.crypto import shamir, signing
from tacit.crypto.byte_strings import frame
from tacit.errors import PeerError
from tacit.secagg.messages import Advertise, Roster, Shares, pack_ids
from tacit.secagg.settings import Settings

ADVERTISE = b"secagg advertise"
SURVIVORS = b"secagg survivors"
SEALING = b"secagg sealing"
MASKING = b"secagg masking"
SELF_MASK = b"secagg self mask"
SHARES = b"secagg shares"
DEALING = b"secagg dealing"
SHARE_HASH = b"secagg share hash"
HASH_BYTES = 16


class UnknownClient(PeerError):
    """A client takes part whose identity is not known here."""

    def __init__(self, client: int) -> None:
        super().__init__(f"client {client} is not among the known identities")
        self.client = client


@dataclass(frozen=True, slots=True)
class Context:
    """What a party knows before it hears of the others: settings, the model's digest, the round."""

    settings: Settings
    model: bytes
    round: int

    def __post_init__(self) -> None:
        if len(self.model) != 32 or bytes(self.model) != self.model:
            raise ValueError(f"model must be a digest of 32 bytes, got {len(self.model)}")
        if not 0 <= self.round < 2**63:
            raise ValueError(f"round must be at least 0 and below 2^63, got {self.round}")

    @lru_cache(maxsize=16)  # noqa: B019 -- values, not an object's life: a client asks once for each signature
    def digest(self) -> bytes:
        number = self.round.to_bytes(8, "big")
        return hashlib.sha256(frame(b"secagg context", self.settings.digest_input(), self.model, number)).digest()

    def session(self, roster: bytes) -> bytes:
        return hashlib.sha256(frame(b"secagg session", self.digest(), roster)).digest()

    def advertisement(self, message: Advertise) -> bytes:
        """What a client signs when it advertises its keys."""
        return frame(self.digest(), name(message.sender), message.sealing_key, message.masking_key)


def name(identity: int) -> bytes:
    return identity.to_bytes(4, "big")


@lru_cache(maxsize=1 << 12)
def _framed_name(identity: int) -> bytes:
    return frame(name(identity))


@lru_cache(maxsize=64)
def _head(purpose: bytes, session: bytes) -> bytes:
    """Frames are joined, so that what all pairs of clients of a session have in common is framed once."""
    return frame(purpose, session)


def pair_context(purpose: bytes, session: bytes, one: int, other: int) -> bytes:
    """What the keys of two clients are derived for. It names the two: a third that shows a variant of another's public
    key, which X25519 takes for the same, must not get the same keys, or masks could be made to cancel."""
    return _head(purpose, session) + _framed_name(min(one, other)) + _framed_name(max(one, other))


def check_signature(
    identities: Mapping[int, bytes] | None, signer: int, signature: bytes, purpose: bytes, content: bytes
) -> None:
    """Raise PeerError unless the known identity `signer` signed `content` for `purpose`."""
    public = (identities or {}).get(signer)
    if public is None:
        raise UnknownClient(signer)
    signing.verify(public, signature, purpose, content)


def dealing(message: Shares) -> bytes:
    """What a client signs when it shares its secrets."""
    return frame(message.session, name(message.sender), message.commitment, message.hashes, message.sealed)


def share_hash(session: bytes, owner: int, holder: int, kind: bytes, row: bytes) -> bytes:
    """What `owner` publishes of a share that it seals for `holder`; `kind` is MASKING or SELF_MASK.

    Guarantee: a holder that reveals another share of an honest owner under the same hash needs a second preimage, 2^128
        trials. Collisions, which an owner finds in 2^64, harm nobody: a holder reveals the very share that it checked.
        The hash hides the share: to an attacker with fewer shares than the threshold any other one has the entropy of
        the secret, 251 bits or more. So no secret salt is needed; the session is fresh for each round, and with owner,
        holder and kind makes every hash one of its own.
    """
    return hashlib.sha256(frame(SHARE_HASH, session, name(owner), name(holder), kind, row)).digest()[:HASH_BYTES]


def share_hashes(session: bytes, owner: int, holder: int, rows: bytes) -> bytes:
    """Of the two shares of one holder: the masking key's and the self-mask's, each as `share_hash` gives it.

    Frames are joined: a client makes and checks two of these for every neighbour, and their framing would cost as much
    as all else it does in Python.
    """
    pair = _head(SHARE_HASH, session) + _framed_name(owner) + _framed_name(holder)
    key = hashlib.sha256(pair + _KEY_SHARE + rows[: shamir.ROW_BYTES]).digest()
    seed = hashlib.sha256(pair + _SEED_SHARE + rows[shamir.ROW_BYTES :]).digest()
    return key[:HASH_BYTES] + seed[:HASH_BYTES]


_KEY_SHARE, _SEED_SHARE = (frame(kind, bytes(shamir.ROW_BYTES))[: -shamir.ROW_BYTES] for kind in (MASKING, SELF_MASK))


def roster_digest(advertisements: list[Advertise]) -> bytes:
    """Of the advertisements in the order of their ids."""
    ordered = sorted(advertisements, key=lambda a: a.sender)
    parts = [_framed_name(a.sender) + frame(a.sealing_key, a.masking_key) for a in ordered]
    return hashlib.sha256(frame(b"secagg roster") + b"".join(parts)).digest()


def roster_of(digest: bytes, present: int, adverts: list[Advertise]) -> Roster:
    """What a client is told of those who hold its shares, out of `present` that advertised."""
    return Roster(
        digest,
        present,
        pack_ids(a.sender for a in adverts),
        b"".join(a.sealing_key for a in adverts),
        b"".join(a.masking_key for a in adverts),
        b"".join(a.signature for a in adverts),
    )


def survivors_digest(session: bytes, alive: bytes, dropped: bytes) -> bytes:
    """What a client signs when it is told who survived."""
    return frame(session, alive, dropped)


def self_mask_key(seed: bytes, session: bytes) -> bytes:
    """The mask key of the self-mask seed b."""
    return hashlib.sha256(frame(SELF_MASK, session, seed)).digest()[:16]
