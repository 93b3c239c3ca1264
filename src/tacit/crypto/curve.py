"""Curve25519 with many points and one secret: texts hashed onto the curve, and multiples that commute.

    hash_to_curve(data)            a point as its x-coordinate, from bytes; a whole list with `hash_all`
    Scalar(secret), .generate()    a secret multiplier; .inverse() takes it off again
    multiply(scalar, points)       every point times the scalar; points lie end to end, 32 bytes each

A point is its x-coordinate (RFC 7748's u), little-endian, below p. A scalar has RFC 7748's form: 8·k, with bit 254 set.

Which points, and why that is safe:
- `hash_to_curve` takes only an x that lies on the curve (Euler's criterion), never on its quadratic twist. X25519 works
  on both and keeps a point on its side, so a set with both kinds would show on which side each hashed id lies.
- A point of a peer may lie on the twist. That shows nothing about the scalar: the twist's order is 4 times a prime.
- Scalars are multiples of 8, so that what comes out lies in the subgroup of prime order (of curve or twist): no bit of
  a scalar shows in a small subgroup. A point of small order gives zero and is refused (RFC 7748, section 6.1).
- A peer's point must be reduced below p: one point has one encoding, so that a repeated one cannot be dressed up.

Hashing by try-and-increment and inverting a scalar take a time that depends on the input. The multiplication does not:
it is OpenSSL's X25519, about 36 µs a point on a 3 GHz core (libsodium's takes 1.5 times as long; arithmetic in gmpy2
more than 10 times). It holds the interpreter lock, so more cores need more processes: see `processes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.crypto.byte_strings import random_bytes
from tacit.errors import PeerError

__all__ = [
    "ORDER",
    "POINT_BYTES",
    "PRIME",
    "SCALAR_BYTES",
    "Scalar",
    "check_points",
    "hash_all",
    "hash_to_curve",
    "multiply",
]

POINT_BYTES = 32
SCALAR_BYTES = 32
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the subgroup that the base point generates
_A = 486662  # y² = x³ + A·x² + x
_COFACTOR = 8
_DOMAIN = b"tacit curve25519 hash, version 1\0"
_MASK = 2**255 - 1
_MPZ_PRIME = gmpy2.mpz(PRIME)


def hash_to_curve(data: bytes) -> bytes:
    """The x-coordinate of a point on the curve that depends on `data` alone.

    Guarantee: a random function onto x-coordinates of the curve, whose points have unknown discrete logarithms.
    Assumes: SHA-512 is a random oracle. Each of its two halves is one candidate, right with probability 1/2.
    Source: try-and-increment, as Boneh, Lynn, Shacham 2001 (hashing onto elliptic curves).
    """
    from_bytes, legendre, sha512 = int.from_bytes, gmpy2.legendre, hashlib.sha512
    attempt = 0
    while True:
        digest = sha512(_DOMAIN + attempt.to_bytes(4, "big") + data).digest()
        for half in (digest[:32], digest[32:]):
            x = from_bytes(half, "little") & _MASK
            square = gmpy2.mpz(x)
            if x < PRIME and legendre(square * (square * (square + _A) + 1), _MPZ_PRIME) == 1:
                return x.to_bytes(POINT_BYTES, "little")
        attempt += 1


def hash_all(texts: Iterable[str]) -> bytes:
    """The points of the texts, end to end. Any text: lone surrogates too."""
    return b"".join([hash_to_curve(text.encode("utf-8", "surrogatepass")) for text in texts])


class Scalar:
    """A secret multiplier of points, in RFC 7748's form."""

    __slots__ = ("_key", "secret")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SCALAR_BYTES:
            raise ValueError(f"a scalar has {SCALAR_BYTES} bytes, got {len(secret)}")
        self.secret = bytes([secret[0] & 248, *secret[1:31], secret[31] & 127 | 64])
        self._key = X25519PrivateKey.from_private_bytes(self.secret)

    @classmethod
    def generate(cls, rng: Generator | None = None) -> Scalar:
        """A fresh one from `rng`, or from the operating system, that has an inverse."""
        while True:
            scalar = cls(random_bytes(rng, SCALAR_BYTES))
            if _clamped(_inverse(scalar)) is not None:  # all but one in 2^126
                return scalar

    def inverse(self) -> Scalar:
        """The scalar that takes this one off: multiplying by both gives the x-coordinate of the point's prime part.

        It stands for 1/s or for -1/s, whichever has RFC 7748's form: P and -P have the same x-coordinate.
        """
        found = _clamped(_inverse(self))
        if found is None:
            raise ValueError("this scalar's inverse has no form of RFC 7748: make scalars with Scalar.generate")
        return Scalar(found.to_bytes(SCALAR_BYTES, "little"))

    def exchange(self, point: bytes) -> bytes:
        """`point` times the scalar. ValueError for a point of small order."""
        return self._key.exchange(X25519PublicKey.from_public_bytes(point))

    def __reduce__(self) -> tuple[type[Scalar], tuple[bytes]]:
        return Scalar, (self.secret,)  # for this party's own worker processes

    def __repr__(self) -> str:
        return "Scalar(secret)"


def _inverse(scalar: Scalar) -> int:
    return pow(int.from_bytes(scalar.secret, "little"), -1, ORDER)


def _clamped(residue: int) -> int | None:
    """A multiple of 8 in [2^254, 2^255) that is ± `residue` modulo the order, if there is one."""
    lifted = residue + ORDER * (-residue * pow(ORDER, -1, _COFACTOR) % _COFACTOR)
    for candidate in (lifted, _COFACTOR * ORDER - lifted):
        if 2**254 <= candidate < 2**255:
            return candidate
    return None


def multiply(scalar: Scalar, points: bytes) -> bytes:
    """Each of `points`, 32 bytes each, times `scalar`, in the same order.

    Guarantee: without the scalar, multiples of hashed texts cannot be told from random points of the curve.
    Assumes: decisional Diffie-Hellman on Curve25519; the random oracle of `hash_to_curve`.
    Source: RFC 7748, section 5.
    """
    check_points(points)
    exchange = scalar.exchange
    try:
        return b"".join([exchange(points[start : start + 32]) for start in range(0, len(points), 32)])
    except ValueError:
        raise PeerError("a point of small order, whose multiples are public") from None


def check_points(points: bytes) -> None:
    """PeerError if `points` are not whole, or one is not reduced below p."""
    if len(points) % POINT_BYTES:
        raise PeerError(f"{len(points)} bytes are not points of {POINT_BYTES} bytes each")
    words: NDArray[np.uint64] = np.frombuffer(points, dtype="<u8").reshape(-1, 4)
    top = words[:, 3] >= np.uint64(2**63 - 1)  # rare: only then are the other words looked at
    for index in np.flatnonzero(top):
        if int.from_bytes(words[index].tobytes(), "little") >= PRIME:
            raise PeerError(f"the point {index} is not reduced below p")
