"""A commitment: a hash that binds a party to a secret value before the value is opened.

commit(value, context)              the commitment, 32 bytes
check(commitment, value, context)   PeerError unless it is the commitment of this value

The value must be a secret that nobody can guess, such as a fresh seed: see `commit`.
"""

from __future__ import annotations

import hashlib
import hmac

from tacit.crypto.byte_strings import frame
from tacit.errors import PeerError

__all__ = ["COMMITMENT_BYTES", "check", "commit"]

COMMITMENT_BYTES = 32
_SHORTEST_VALUE = 32
_DOMAIN = b"tacit commitment 1"


def commit(value: bytes, context: bytes) -> bytes:
    """SHA-256 over the domain, the context and the value, each behind its length.

    Guarantee: binding, as nobody finds a second value and context with the same commitment (SHA-256 collisions).
        Hiding only because the value cannot be guessed.
    Assumes: the value has 256 bits of entropy, as a fresh key or seed has. There is no blinding: a password, a label
        or a model update committed to like this could be found by trying. Shorter values are refused.
    """
    if len(value) < _SHORTEST_VALUE:
        raise ValueError(f"a value of {len(value)} bytes could be guessed: commit to {_SHORTEST_VALUE} random bytes")
    return hashlib.sha256(frame(_DOMAIN, context, value)).digest()


def check(commitment: bytes, value: bytes, context: bytes) -> None:
    """Raise PeerError unless `commitment` was made from this value and context. Takes the same time for any value."""
    if len(value) < _SHORTEST_VALUE:
        raise PeerError(f"an opened value has {len(value)} bytes, a committed one has {_SHORTEST_VALUE} or more")
    if not hmac.compare_digest(commitment, commit(value, context)):
        raise PeerError("the opened value is not the one that was committed to")
