"""128 oblivious transfers of keys by Diffie-Hellman, from which `extension` makes millions.

    Offer(rng)                   the sender's first move: `offer.message`
    answer(message, bits, rng)   the receiver's: its message, and the key of each bit
    offer.keys(message)          the sender: both keys of each transfer

The sender draws c and r, and sends C = c·B and A = r·B. For bit b the receiver draws k and sends P = k·B (b = 0) or C -
k·B (b = 1); it knows the logarithm of one of P and C - P only. The keys are hashes of r·P and r·(C - P); the receiver's
is the hash of k·A.

Guarantee: P is uniform for either bit, so the sender learns nothing about a bit, whatever it computes. The receiver
    learns nothing about the other key.
Assumes: for the second, the computational Diffie-Hellman problem in ristretto255 is hard and SHA-256 is a random
    oracle; both parties follow the protocol. Nothing proves that a sender's two keys were used later as the protocol
    says.
Source: Naor, Pinkas 2001 (SODA, "Efficient oblivious transfer protocols"), the protocol with a random oracle, with one
    C and one r for all transfers of a session, which the paper allows if the number of the transfer is hashed with the
    point.

Messages of a wrong length, encodings that are no elements, and the zero of the group are refused. The arithmetic does
not take constant time: see `ristretto`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from numpy.random import Generator

from tacit.crypto.byte_strings import frame
from tacit.crypto.ristretto import (
    BASE,
    POINT_BYTES,
    FixedBase,
    Point,
    decode,
    encode,
    is_identity,
    multiply,
    random_scalar,
    subtract,
)
from tacit.errors import PeerError

__all__ = ["ANSWER_BYTES", "COUNT", "KEY_BYTES", "OFFER_BYTES", "Offer", "answer", "session"]

COUNT = 128
KEY_BYTES = 16
OFFER_BYTES = 2 * POINT_BYTES
ANSWER_BYTES = COUNT * POINT_BYTES
_DOMAIN = b"tacit base oblivious transfer, version 1"


class Offer:
    """The sender of the base transfers, for one answer."""

    def __init__(self, rng: Generator | None = None) -> None:
        base = FixedBase(BASE)
        self._secret = random_scalar(rng)
        self._constant = base.multiply(random_scalar(rng))
        self.message = encode(self._constant) + encode(base.multiply(self._secret))

    def keys(self, message: bytes) -> list[tuple[bytes, bytes]]:
        """Both keys of each transfer, from the receiver's message."""
        if len(message) != ANSWER_BYTES:
            raise PeerError(f"the answer to base transfers has {len(message)} bytes, not {ANSWER_BYTES}")
        shared = multiply(self._secret, self._constant)
        found = []
        for number in range(COUNT):
            point = _decode(message, number)
            if is_identity(subtract(self._constant, point)):
                raise PeerError(f"the point {number} of the answer to base transfers is the constant of the offer")
            zero = multiply(self._secret, point)
            found.append((_key(self.message, number, zero), _key(self.message, number, subtract(shared, zero))))
        return found

    def __repr__(self) -> str:
        return "Offer(secret)"


def answer(message: bytes, bits: Sequence[int], rng: Generator | None = None) -> tuple[bytes, list[bytes]]:
    """The receiver's message, and the key of each of the 128 bits."""
    if len(message) != OFFER_BYTES:
        raise PeerError(f"the offer of base transfers has {len(message)} bytes, not {OFFER_BYTES}")
    if len(bits) != COUNT:
        raise ValueError(f"there are {COUNT} base transfers, got {len(bits)} bits")
    constant, public = _decode(message, 0), FixedBase(_decode(message, 1))
    base = FixedBase(BASE)
    points, keys = [], []
    for number, bit in enumerate(bits):
        scalar = random_scalar(rng)
        point = base.multiply(scalar)
        other = subtract(constant, point)  # in either case: the time does not depend on the bit
        points.append(encode(other if bit else point))
        keys.append(_key(message, number, public.multiply(scalar)))
    return b"".join(points), keys


def session(offer: bytes, reply: bytes) -> bytes:
    """32 public bytes that name this conversation; both parties' randomness is in them."""
    return hashlib.sha256(frame(_DOMAIN, b"session", offer, reply)).digest()


def _decode(message: bytes, number: int) -> Point:
    name = f"the point {number} of the base transfers"
    point = decode(message[number * POINT_BYTES : (number + 1) * POINT_BYTES], name)
    if is_identity(point):
        raise PeerError(f"{name} is the zero of the group, whose multiples everyone knows")
    return point


def _key(offer: bytes, number: int, point: Point) -> bytes:
    parts = frame(_DOMAIN, b"key", offer, number.to_bytes(8, "big"), encode(point))
    return hashlib.sha256(parts).digest()[:KEY_BYTES]
