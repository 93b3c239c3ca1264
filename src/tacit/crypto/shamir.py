"""Shamir's secret sharing of 256-bit secrets, over a prime that fits a machine word.

    split(secrets, shares, threshold, rng)      rows[secret, share]: share number s belongs to the point s + 1
    combine(points, rows)                       the secret of one row per point
    combine_many(points, rows)                  the same for many secrets shared to the same points, None for no secret
    recover(rows_by_point, threshold, verify)   the secret that `verify` accepts though some rows are wrong, and which
    to_bytes(rows), from_bytes(data, count)     rows on the wire
    canonical(data, count)                      which of them would be accepted

A secret is nine limbs of 30 bits, each the constant term of a random polynomial modulo p = 2^31 - 1; a row is the nine
values at one point. Only canonical numbers are accepted: row values below p, limbs below 2^30, secrets below 2^256.

Matrix products run in float64, where they are exact: one factor is cut into halves of 15 and 16 bits, so that sums of
up to 64 products stay below 2^53. This is 3 to 4 times as fast as integer products in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.crypto.reed_solomon import PRIME, Ints, barycentric, inverses, syndromes, wrong_places
from tacit.errors import PeerError
from tacit.randomness import random_words, secure_rng

__all__ = [
    "LARGEST_SHARES",
    "ROW_BYTES",
    "SECRET_BYTES",
    "canonical",
    "combine",
    "combine_many",
    "from_bytes",
    "recover",
    "split",
    "to_bytes",
]

Rows = NDArray[np.uint32]
Floats = NDArray[np.float64]

LIMBS = 9
SECRET_BYTES = 32
ROW_BYTES = 4 * LIMBS
LARGEST_SHARES = 1 << 16
_LIMB_BITS = 30
_LIMB_MASK = (1 << _LIMB_BITS) - 1
_LOW_BITS = 16
_EXACT_TERMS = 64  # 64 * 2^16 * 2^31 = 2^53


def split(secrets: Sequence[bytes], shares: int, threshold: int, rng: Generator | None = None) -> Rows:
    """Share each 32-byte secret: an array of shape (len(secrets), shares, 9).

    Guarantee: any `threshold` rows of a secret determine it; fewer are independent of it, whatever the computing power.
    Assumes: `rng` is unpredictable; without one it is keyed from the operating system.
    Source: Shamir 1979; coefficients uniform modulo p by rejection.
    """
    if not 1 <= threshold <= shares <= LARGEST_SHARES:
        raise ValueError(
            f"need 1 <= threshold <= shares <= {LARGEST_SHARES}, got threshold {threshold} and {shares} shares"
        )
    columns = len(secrets) * LIMBS
    coefficients = np.empty((threshold, columns))
    coefficients[0] = [limb for secret in secrets for limb in _limbs(secret)]
    random = _field_elements(secure_rng() if rng is None else rng, (threshold - 1) * columns)
    coefficients[1:] = random.reshape(threshold - 1, columns)
    values = _product(_powers(shares, threshold), coefficients)
    coefficients.fill(0)
    random.fill(0)
    return values.astype(np.uint32).reshape(shares, len(secrets), LIMBS).swapaxes(0, 1).copy()


def combine(points: Sequence[int], rows: Rows) -> bytes:
    """The secret whose row at `points[i]` is `rows[i]`; as many rows as the threshold it was split with.

    Too few, mixed up or altered rows give another secret or a PeerError: check the result with what is public of it.
    """
    (secret,) = combine_many(points, rows[np.newaxis])
    if secret is None:
        raise PeerError("the shares do not belong together: a limb has more than 30 bits, or the secret more than 256")
    return secret


def combine_many(points: Sequence[int], rows: Rows) -> list[bytes | None]:
    """The secrets whose rows at `points[i]` are `rows[:, i]`; None for rows that belong to no secret."""
    weights = _weights_at_zero(_checked_points(points))
    _check_rows(rows, (rows.shape[0], len(points), LIMBS))
    if not _canonical(rows).all():
        raise PeerError(f"a share holds a value of {rows.max()}, the largest is {PRIME - 1}")
    return [_secret(limbs) for limbs in _product(weights, rows)[:, 0].tolist()]


def recover(
    rows_by_point: Mapping[int, Rows], threshold: int, verify: Callable[[bytes], bool]
) -> tuple[bytes, tuple[int, ...]]:
    """The secret that `verify` accepts, and the points whose rows were found wrong on the way to it.

    Guarantee: what is returned was verified. With m rows it is found if at most floor((m - threshold) / 2) of them are
        wrong, and with one row to spare if one is. The time is bounded by m^2 operations, whatever the rows are; that
        of `verify` counts for no more than a few calls, as nearly all wrong candidates are no secrets at all.
    """
    if threshold < 1:
        raise ValueError(f"threshold must be 1 or more, got {threshold}")
    if len(rows_by_point) < threshold:
        raise PeerError(f"{len(rows_by_point)} shares, the threshold is {threshold}")
    points = _checked_points(sorted(rows_by_point))
    rows = np.array([rows_by_point[point] for point in points])
    _check_rows(rows, (len(points), LIMBS))
    canonical = _canonical(rows)
    if canonical.sum() < threshold:
        raise PeerError(f"{canonical.sum()} usable shares of {len(points)}, the threshold is {threshold}")
    unusable = {point for point, usable in zip(points, canonical.tolist(), strict=True) if not usable}
    points = tuple(point for point in points if point not in unusable)
    for limbs, wrong in _candidates(points, rows[canonical].astype(np.int64), threshold):
        secret = _secret(limbs)
        if secret is not None and verify(secret):
            return secret, tuple(sorted(unusable | wrong))
    raise PeerError(f"no verified secret of {len(points)} shares with threshold {threshold}: too many are wrong")


def _candidates(points: tuple[int, ...], rows: Ints, threshold: int) -> Iterator[tuple[list[int], set[int]]]:
    """Secrets, as limbs, that some of the rows belong to, and the points of the others."""
    yield _at_zero(points[:threshold], rows[:threshold]).tolist(), set()
    if len(points) == threshold:
        return
    checks = syndromes(points, rows, threshold)
    if not checks.any():
        return  # all rows lie on one polynomial, which was just tried
    if len(points) == threshold + 1:
        yield from _leaving_one_out(points, rows, checks[0])
        return
    # A wrong row is wrong in a random combination of its limbs too, but for one chance in p.
    combination = _field_elements(secure_rng(), LIMBS).astype(np.int64)
    places = wrong_places(points, (checks * combination % PRIME).sum(axis=1) % PRIME)
    if places is not None:
        kept = np.delete(np.arange(len(points)), places)[:threshold]
        yield _at_zero(tuple(points[i] for i in kept), rows[kept]).tolist(), {points[i] for i in places}
    limbs: list[int] = []
    wrong: set[int] = set()
    for limb in range(LIMBS):
        places = wrong_places(points, checks[:, limb])
        if places is None:
            return
        kept = np.delete(np.arange(len(points)), places)[:threshold]
        limbs += _at_zero(tuple(points[i] for i in kept), rows[kept, limb : limb + 1]).tolist()
        wrong |= {points[i] for i in places}
    yield limbs, wrong


def _leaving_one_out(points: tuple[int, ...], rows: Ints, leading: Ints) -> Iterator[tuple[list[int], set[int]]]:
    """What the rows without each one in turn belong to: of the polynomial P through all, with the coefficient c of its
    highest power, P(0) - c prod_(j != i) (0 - x_j)."""
    values = (_at_zero(points, rows) - leading * _others_at_zero(points)[:, np.newaxis]) % PRIME
    for point, limbs in zip(points, values.tolist(), strict=True):
        yield limbs, {point}


def _at_zero(points: tuple[int, ...], rows: Ints) -> Ints:
    """Of the polynomials through as many rows as they have coefficients, one for each column."""
    values: Ints = _product(_weights_at_zero(points), rows)[0]
    return values


def to_bytes(rows: Rows) -> bytes:
    """Rows as little-endian 32-bit words."""
    return rows.astype("<u4").tobytes()


def from_bytes(data: bytes, count: int = 1) -> Rows:
    """The `count` rows that `to_bytes` wrote, as an array of shape (count, 9); anything else is a PeerError."""
    rows = _from_bytes(data, count)
    if not _canonical(rows).all():
        raise PeerError(f"a share holds a value of {rows.max()}, the largest is {PRIME - 1}")
    return rows


def canonical(data: bytes, count: int) -> NDArray[np.bool_]:
    """Which of `count` rows on the wire `from_bytes` would accept."""
    return _canonical(_from_bytes(data, count))


def _from_bytes(data: bytes, count: int) -> Rows:
    if len(data) != count * ROW_BYTES:
        raise PeerError(f"{count} shares have {count * ROW_BYTES} bytes, got {len(data)}")
    return np.frombuffer(data, dtype="<u4").astype(np.uint32).reshape(count, LIMBS)


def _limbs(secret: bytes) -> list[int]:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a shared secret has {SECRET_BYTES} bytes, got {len(secret)}")
    number = int.from_bytes(secret, "little")
    return [number >> shift & _LIMB_MASK for shift in range(0, _LIMB_BITS * LIMBS, _LIMB_BITS)]


def _secret(limbs: list[int]) -> bytes | None:
    """None if a limb has more than 30 bits, or the secret more than 256: such shares do not belong together."""
    number = 0
    for limb in reversed(limbs):
        if limb > _LIMB_MASK:
            return None
        number = number << _LIMB_BITS | limb
    return None if number >> 8 * SECRET_BYTES else number.to_bytes(SECRET_BYTES, "little")


def _field_elements(rng: Generator, count: int) -> Rows:
    kept = np.empty(0, dtype=np.uint32)
    while len(kept) < count:
        draws = random_words(rng, (count - len(kept) + 1) // 2).view(np.uint32) & np.uint32(PRIME)
        kept = np.concatenate([kept, draws[draws < PRIME]])  # 31 bits are uniform; p itself is drawn again
    return kept[:count]


def _canonical(rows: Rows) -> NDArray[np.bool_]:
    return np.asarray((rows < PRIME).all(axis=-1))


def _check_rows(rows: Rows, shape: tuple[int, ...]) -> None:
    if rows.dtype != np.uint32 or rows.shape != shape:
        raise ValueError(f"rows must be uint32 of shape {shape}, got {rows.dtype} of shape {rows.shape}")


def _checked_points(points: Sequence[int]) -> tuple[int, ...]:
    if not points or len(set(points)) != len(points) or not 1 <= min(points) <= max(points) <= LARGEST_SHARES:
        raise ValueError(f"points must be distinct and from 1 to {LARGEST_SHARES}, got {list(points)}")
    return tuple(points)


def _product(halves: Floats, factor: NDArray[Any]) -> NDArray[np.int64]:
    """(halves[0] * 2^16 + halves[1]) @ factor modulo p, exactly."""
    right: Floats = factor.astype(np.float64)
    total = np.zeros((), dtype=np.int64)
    for start in range(0, right.shape[-2], _EXACT_TERMS):
        terms = slice(start, start + _EXACT_TERMS)
        high = (halves[0, :, terms] @ right[..., terms, :]).astype(np.int64)
        low = (halves[1, :, terms] @ right[..., terms, :]).astype(np.int64)
        total = (total + (high % PRIME << _LOW_BITS) + low) % PRIME
    return total


def _halves(matrix: NDArray[np.int64]) -> Floats:
    return np.stack([matrix >> _LOW_BITS, matrix & (1 << _LOW_BITS) - 1]).astype(np.float64)


@lru_cache(maxsize=4)  # 16 * shares * threshold bytes each
def _powers(shares: int, threshold: int) -> Floats:
    """x^j for the points x = 1 ... shares and j = 0 ... threshold - 1, in halves."""
    points = np.arange(1, shares + 1, dtype=np.int64)
    powers = np.ones((shares, threshold), dtype=np.int64)
    for j in range(1, threshold):
        powers[:, j] = powers[:, j - 1] * points % PRIME
    return _halves(powers)


@lru_cache(maxsize=256)
def _weights_at_zero(points: tuple[int, ...]) -> Floats:
    """Lagrange's weights: the secret is sum_i w_i y_i with w_i = prod_(j != i) x_j / (x_j - x_i), in halves."""
    weights = _others_at_zero(points) * barycentric(points) % PRIME
    return _halves(weights[np.newaxis])


def _others_at_zero(points: tuple[int, ...]) -> Ints:
    """prod_(j != i) (0 - x_j) for each point x_i."""
    negative = [PRIME - point for point in points]
    product = 1
    for factor in negative:
        product = product * factor % PRIME
    return np.array([product * inverse % PRIME for inverse in inverses(negative)], dtype=np.int64)
