"""Messages between two parties that a third passes on: sealed end to end, in order, each once.

    introduce(own, key, run, party, proof)              what a party shows all others, once a run
    meet(introduction, own, run, party, signing_key_of)     the Sealing with whom the introduction is of
    sealing.seal(frame), sealing.unseal(body)

The hub that relays sees who sends how many bytes to whom, and when. A message that it alters, repeats, holds back or
puts in another order does not open, nor does anything after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated

import msgspec

from tacit.crypto.agreement import KeyPair, agree_each_way
from tacit.crypto.byte_strings import frame
from tacit.crypto.sealed import seal, unseal
from tacit.crypto.signing import SigningKey, verify
from tacit.errors import PeerError
from tacit.wire import Message, Text

_SIGNED = b"tacit relay introduction 1"
_AGREED = b"tacit relay keys 1"
_SEALED = b"tacit relay message 1"


class Introduction(Message, frozen=True, tag=51):
    """A party's key for this run, signed with its identity key."""

    party: Text
    proof: Annotated[bytes, msgspec.Meta(max_length=8192)]  # a certificate; a bare signing key if there are none
    public: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


def federation(hub: str, settings: bytes) -> bytes:
    """What all parties of a run agree on, as a hash."""
    return hashlib.sha256(frame(hub.encode(), settings)).digest()


def introduce(own: KeyPair, key: SigningKey, run: bytes, party: str, proof: bytes) -> Introduction:
    """What shows the others that `own` is the key of `party` in the federation `run`."""
    return Introduction(party, proof, own.public, key.sign(_SIGNED, frame(run, party.encode(), own.public)))


def meet(
    introduction: Introduction,
    own: KeyPair,
    run: bytes,
    party: str,
    signing_key_of: Callable[[bytes], tuple[str, bytes]],
) -> Sealing:
    """The sealing between `party` and whom the introduction is of.

    Guarantee: only the holders of the two identity keys, in the run of which `own` is, can seal or open. An old
        introduction leads to keys that nobody has.
    Assumes: `signing_key_of` says whose a proof is, by a certificate. A bare key proves nothing: a relay can put its
        own in its place.
    Source: signed ephemeral Diffie-Hellman; RFC 7748, RFC 8032, RFC 5869.
    """
    other = introduction.party
    name, signing_key = signing_key_of(introduction.proof)
    if name != other:
        raise PeerError(f"the certificate of {name} for {other}")
    verify(signing_key, introduction.signature, _SIGNED, frame(run, other.encode(), introduction.public))
    both = sorted([frame(party.encode(), own.public), frame(other.encode(), introduction.public)])
    context = frame(_AGREED, run, *both)
    sending, receiving = agree_each_way(own, introduction.public, context=context)
    return Sealing(party, other, sending, receiving)


class Sealing:
    """One party's side of what it says to another through a hub. The two directions are for one thread each."""

    def __init__(self, party: str, other: str, sending: bytes, receiving: bytes) -> None:
        self._party = party.encode()
        self._other = other.encode()
        self._sending = sending
        self._receiving = receiving
        self._sent = 0
        self._received = 0

    def seal(self, plain: bytes) -> bytes:
        body = seal(self._sending, plain, (_SEALED, self._party, self._other, self._sent.to_bytes(8, "big")))
        self._sent += 1
        return body

    def unseal(self, body: bytes) -> bytes:
        """What the other party sealed as its next message; PeerError for anything else."""
        associated = (_SEALED, self._other, self._party, self._received.to_bytes(8, "big"))
        try:
            plain = unseal(self._receiving, body, associated)
        except PeerError:
            raise PeerError(
                f"message {self._received + 1} of {self._other.decode()} was altered, repeated, left out or put in "
                "another order on its way"
            ) from None
        self._received += 1
        return plain
