"""ristretto255: a group of prime order over Curve25519, in which points can be added.

    BASE, IDENTITY          the generator and the zero of the group
    add, subtract, multiply the group; multiply(scalar, point) takes any point
    FixedBase(point)        a table for many multiples of one point, five times as fast
    encode(point), decode(data, name)    32 bytes, one encoding for each element
    random_scalar(rng)      a uniform non-zero scalar

`tacit.crypto.curve` multiplies in OpenSSL, but only by x-coordinates: two of its points cannot be added. This module is
arithmetic on integers of gmpy2, about 0.5 ms a multiple: for some hundred points, as base oblivious transfers need.

A point is an element of the Edwards curve in extended coordinates (X, Y, Z, T); four of them are the same element of
the group, which has prime order, so that a peer's point has no part of small order. `decode` takes only the one
canonical encoding of an element.

The time of integer arithmetic depends on the integers. A party that can measure the time of single operations on the
same machine may learn about scalars from it.

Source: RFC 9496; addition of Hisil, Wong, Carter, Dawson 2008 (complete on this curve).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gmpy2
from numpy.random import Generator

from tacit.crypto.byte_strings import random_bytes
from tacit.crypto.curve import ORDER, PRIME
from tacit.errors import PeerError

__all__ = [
    "BASE",
    "IDENTITY",
    "POINT_BYTES",
    "FixedBase",
    "Point",
    "add",
    "decode",
    "encode",
    "is_identity",
    "multiply",
    "random_scalar",
    "subtract",
]

POINT_BYTES = 32
_WINDOW = 4  # bits of a scalar that one addition takes
_DIGITS = -(-ORDER.bit_length() // _WINDOW)
_P = gmpy2.mpz(PRIME)
_D = -121665 * gmpy2.invert(121666, _P) % _P
_TWICE_D = 2 * _D % _P
_ROOT = gmpy2.powmod(2, (_P - 1) // 4, _P)  # of -1; RFC 9496 takes the even one, which this is


class Point(NamedTuple):
    """Extended coordinates: x = X/Z, y = Y/Z, T = XY/Z. Compare elements by `encode`."""

    x: Any
    y: Any
    z: Any
    t: Any


def add(one: Point, other: Point) -> Point:
    """The sum of two points."""
    a = (one.y - one.x) * (other.y - other.x) % _P
    b = (one.y + one.x) * (other.y + other.x) % _P
    c = one.t * _TWICE_D * other.t % _P
    d = 2 * one.z * other.z % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return Point(e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def subtract(one: Point, other: Point) -> Point:
    """The difference of two points."""
    return add(one, Point(-other.x % _P, other.y, other.z, -other.t % _P))


def multiply(scalar: int, point: Point) -> Point:
    """`point` times `scalar`, a number from 0 to below the order."""
    multiples = _multiples(point)
    result = IDENTITY
    for digit in reversed(_digits(scalar)):
        for _ in range(_WINDOW):
            result = _double(result)
        result = add(result, multiples[digit])
    return result


class FixedBase:
    """The multiples of one point, by a table of its multiples with every digit at every place."""

    def __init__(self, point: Point) -> None:
        self._rows = []
        for _ in range(_DIGITS):
            row = _multiples(point)
            self._rows.append(row)
            point = _double(row[1 << (_WINDOW - 1)])

    def multiply(self, scalar: int) -> Point:
        """The point times `scalar`, a number from 0 to below the order."""
        result = IDENTITY
        for row, digit in zip(self._rows, _digits(scalar), strict=True):
            result = add(result, row[digit])
        return result


def random_scalar(rng: Generator | None) -> int:
    """A uniform number from 1 to below the order; without an `rng` from the operating system."""
    while True:  # half of the numbers of 253 bits are refused, not reduced: no number is more likely than another
        scalar = int.from_bytes(random_bytes(rng, POINT_BYTES), "little") >> (256 - ORDER.bit_length())
        if 0 < scalar < ORDER:
            return scalar


def encode(point: Point) -> bytes:
    """The one encoding of an element (RFC 9496, section 4.3.2)."""
    x, y, z, t = point
    u1, u2 = (z + y) * (z - y) % _P, x * y % _P
    _, inverse = _inverse_root(u1 * u2 * u2 % _P)
    first, second = inverse * u1 % _P, inverse * u2 % _P
    z_inverse = first * second * t % _P
    if _odd(t * z_inverse):
        x, y, denominator = y * _ROOT % _P, x * _ROOT % _P, first * _INVERSE_ROOT_A_D % _P
    else:
        denominator = second
    if _odd(x * z_inverse):
        y = -y % _P
    return int(_absolute(denominator * (z - y))).to_bytes(POINT_BYTES, "little")


def decode(data: bytes, name: str = "a point") -> Point:
    """The element with this encoding. PeerError if it is none, or not the canonical one (RFC 9496, section 4.3.1)."""
    if len(data) != POINT_BYTES:
        raise PeerError(f"{name} has {len(data)} bytes, not {POINT_BYTES}")
    s = gmpy2.mpz(int.from_bytes(data, "little"))
    if s >= _P or s % 2:
        raise PeerError(f"{name} is not a canonical encoding of ristretto255")
    square = s * s % _P
    u1, u2 = (1 - square) % _P, (1 + square) % _P
    u2_square = u2 * u2 % _P
    v = (-_D * u1 * u1 - u2_square) % _P
    is_square, inverse = _inverse_root(v * u2_square % _P)
    x_part = inverse * u2 % _P
    x = _absolute(2 * s * x_part)
    y = u1 * inverse * x_part * v % _P
    t = x * y % _P
    if not is_square or _odd(t) or y == 0:
        raise PeerError(f"{name} is not an element of ristretto255")
    return Point(x, y, gmpy2.mpz(1), t)


def is_identity(point: Point) -> bool:
    """Whether the element is the zero of the group."""
    return bool(point.x * point.y % _P == 0)  # the four points of this element have x = 0 or y = 0


def _double(point: Point) -> Point:
    a, b = point.x * point.x, point.y * point.y
    h = a + b
    e = h - (point.x + point.y) ** 2
    g = a - b
    f = 2 * point.z * point.z + g
    e, f, g, h = e % _P, f % _P, g % _P, h % _P
    return Point(e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _multiples(point: Point) -> list[Point]:
    """0 to 15 times the point."""
    found = [IDENTITY, point]
    while len(found) < 1 << _WINDOW:
        found.append(add(found[-1], point))
    return found


def _digits(scalar: int) -> list[int]:
    if not 0 <= scalar < ORDER:
        raise ValueError("a scalar is a number from 0 to below the order of the group")
    return [scalar >> shift & ((1 << _WINDOW) - 1) for shift in range(0, _DIGITS * _WINDOW, _WINDOW)]


def _odd(value: Any) -> bool:
    return bool(value % _P % 2)


def _absolute(value: Any) -> Any:
    value %= _P
    return _P - value if value % 2 else value


def _inverse_root(v: Any) -> tuple[bool, Any]:
    """Whether v is a square, and then the even root of 1/v (RFC 9496, section 4.2, with u = 1)."""
    cube = v * v * v % _P
    root = cube * gmpy2.powmod(cube * cube * v % _P, (_P - 5) // 8, _P) % _P
    check = v * root * root % _P
    if check in (_P - 1, -_ROOT % _P):
        root = root * _ROOT % _P
    return bool(check in (1, _P - 1)), _absolute(root)


_, _INVERSE_ROOT_A_D = _inverse_root(-1 - _D)
IDENTITY = Point(gmpy2.mpz(0), gmpy2.mpz(1), gmpy2.mpz(1), gmpy2.mpz(0))
BASE = decode(bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"))
