"""Signatures: Ed25519 over a context and a message.

    SigningKey(seed), SigningKey.generate(rng)      .seed, .public, .sign(context, message)
    verify(public, signature, context, message)     PeerError unless the holder of the key signed exactly this

What is signed is the domain, the context and the message, each behind its length: a signature made for one purpose is
never valid for another, and never for a protocol that signs bare messages with the same key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.crypto.byte_strings import frame, random_bytes
from tacit.errors import PeerError

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["PUBLIC_BYTES", "SEED_BYTES", "SIGNATURE_BYTES", "SigningKey", "verify"]

SEED_BYTES = 32
PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
_DOMAIN = b"tacit signature 1"


class SigningKey:
    """A private Ed25519 key. `seed` is what a party keeps, `public` what others verify with."""

    __slots__ = ("_key", "public", "seed")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"an Ed25519 seed has {SEED_BYTES} bytes, got {len(seed)}")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.seed = bytes(seed)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, rng: Generator | None = None) -> SigningKey:
        """A fresh key from `rng`, or from the operating system."""
        return cls(random_bytes(rng, SEED_BYTES))

    def sign(self, context: bytes, message: bytes) -> bytes:
        """Sign `message` for the purpose that `context` names.

        Guarantee: without the seed nobody makes a signature for a context and message that was not signed.
        Source: RFC 8032, section 5.1 (Ed25519, deterministic: no nonce to get wrong).
        """
        return self._key.sign(frame(_DOMAIN, context, message))

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()})"


def verify(public: bytes, signature: bytes, context: bytes, message: bytes) -> None:
    """Raise PeerError unless `signature` is that of `public` for this context and message.

    Assumes: `public` is known to belong to the signer. A party may choose a weak key and so disown its own signatures;
        it gains nothing over another's.
    """
    if len(public) != PUBLIC_BYTES:
        raise PeerError(f"an Ed25519 public key has {PUBLIC_BYTES} bytes, got {len(public)}")
    if len(signature) != SIGNATURE_BYTES:
        raise PeerError(f"an Ed25519 signature has {SIGNATURE_BYTES} bytes, got {len(signature)}")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, frame(_DOMAIN, context, message))
    except (InvalidSignature, ValueError):
        raise PeerError(f"the signature is not that of {public.hex()} for this context and message") from None
