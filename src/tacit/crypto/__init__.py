"""Hides values: masks, shares, agreed keys, sealed messages, signatures, commitments and encrypted arithmetic.

    prg           masks from a key, added into a buffer of ring words; any range of columns on its own
    shamir        a 256-bit secret as shares, of which a threshold recovers it and fewer say nothing
    reed_solomon  which values of a polynomial are wrong
    agreement     two parties derive the same keys from their X25519 key pairs
    sealed        AES-256-GCM: only the holder of the key reads it, any change is noticed
    signing       Ed25519 over a context and a message
    commitment    a hash that binds a party to a secret value before it is opened
    curve         Curve25519: texts hashed onto it, many points times one secret
    ristretto     the same curve as a group of prime order, in which points can be added
    fixed_key     hashes of blocks by the million, from AES under a public key
    ot            oblivious transfer: one of two messages, one of many, words with a chosen difference
    punctured     trees of random blocks whose holder misses one leaf
    counter       numbers that are used once, also after a restart
    key_value     a table that answers some keys with chosen values and shows nobody which keys
    processes     work in chunks on several processes, for primitives that hold the interpreter lock
    paillier      sums, and products with known matrices, of encrypted integers; a pool of processes for it
    byte_strings  unambiguous concatenation and random bytes, for all of the above

Randomness and keys are arguments; nothing here knows the time, a network or a file. What a check refuses is raised:
`PeerError` when the other party sent it, `ValueError` when the caller did. No function returns False for a bad value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door

if TYPE_CHECKING:
    from tacit.crypto import agreement, commitment, curve, paillier, prg, sealed, shamir, signing

__all__ = ["agreement", "commitment", "curve", "paillier", "prg", "sealed", "shamir", "signing"]
__getattr__, __dir__ = door(__name__, __all__, {})
