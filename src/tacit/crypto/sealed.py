"""Sealed messages: AES-256-GCM with a random nonce in front.

    seal(key, plaintext, associated, rng)   nonce, ciphertext and tag
    nonces(rng, count)                      for as many messages, drawn at once: `seal(..., nonce=...)` takes one
    unseal(key, sealed, associated)         the plaintext, or PeerError

The associated data are a tuple of byte strings (session, sender, receiver, purpose): not sent, but both sides must name
the same ones. Each part enters behind its length, so that ("ab", "c") does not open what was sealed for ("a", "bc").
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.random import Generator

from tacit.crypto.byte_strings import frame, random_bytes
from tacit.errors import PeerError

__all__ = ["KEY_BYTES", "OVERHEAD_BYTES", "nonces", "seal", "unseal"]

KEY_BYTES = 32
_NONCE_BYTES = 12
_DRAWN_BYTES = 16  # for a nonce: whole words of the generator
_TAG_BYTES = 16
OVERHEAD_BYTES = _NONCE_BYTES + _TAG_BYTES  # a sealed message is this much longer than its plaintext


def nonces(rng: Generator | None, count: int) -> list[bytes]:
    """Random nonces, each for one message: the same that `seal` would draw one by one."""
    drawn = random_bytes(rng, _DRAWN_BYTES * count)
    return [drawn[start : start + _NONCE_BYTES] for start in range(0, len(drawn), _DRAWN_BYTES)]


def seal(
    key: bytes,
    plaintext: bytes,
    associated: tuple[bytes, ...],
    rng: Generator | None = None,
    *,
    nonce: bytes | None = None,
) -> bytes:
    """Encrypt and authenticate, under a fresh nonce from `rng`, or under one of `nonces`.

    Guarantee: without the key, nothing but the length is learned, and no changed message, or one moved to other
        associated data, is accepted.
    Assumes: one key per direction and at most 2^32 messages under it (random 96-bit nonces then repeat with
        probability below 2^-32); a nonce of `nonces` is used once.
    Source: NIST SP 800-38D, sections 7 and 8.3.
    """
    if nonce is None:
        (nonce,) = nonces(rng, 1)
    elif len(nonce) != _NONCE_BYTES:
        raise ValueError(f"a nonce has {_NONCE_BYTES} bytes, got {len(nonce)}")
    return nonce + _cipher(key).encrypt(nonce, plaintext, frame(*associated))


def unseal(key: bytes, sealed: bytes, associated: tuple[bytes, ...]) -> bytes:
    """Decrypt what `seal` made with the same key and associated data; anything else is a PeerError."""
    cipher = _cipher(key)
    if len(sealed) < OVERHEAD_BYTES:
        raise PeerError(f"a sealed message has {OVERHEAD_BYTES} bytes or more, got {len(sealed)}")
    try:
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], frame(*associated))
    except InvalidTag:
        raise PeerError("a sealed message was altered, or sealed with another key or for another purpose") from None


def _cipher(key: bytes) -> AESGCM:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a sealing key has {KEY_BYTES} bytes, got {len(key)}")
    return AESGCM(key)
