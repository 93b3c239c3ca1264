"""Lattice reduction: short, nearly orthogonal vectors of the same lattice, and vectors of it near a point.

    reduced(basis)              an LLL-reduced basis
    near(basis, point)          vectors of the lattice close to a point, the closest first; for a reduced basis

Sources: Lenstra, Lenstra, Lovász 1982, section 1; Schnorr and Euchner 1994, section 3 (orthogonalisation in floats, the
basis in integers); Babai 1986, section 3 (nearest planes); Lindner and Peikert 2011, section 4 (more than one plane).
Only the orthogonalisation is in floats, and it is computed anew from the integers of the basis every few hundred swaps:
the result is always a basis of the same lattice, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.fixedpoint import Floats, Ints

_LONGEST = 2**40  # of a number in a basis: its orthogonalisation in floats is then off by 2^-13 at most
_WORD = 2.0**62
_HALF = 0.5 + 1e-7  # a coefficient of exactly 1/2 would change its sign for ever
_SWAPS = 4  # for each vector, before the orthogonalisation is computed anew
_ROUNDS = 20_000  # of that many swaps: more than any basis needs that fits the floats


def reduced(basis: Sequence[Sequence[int]] | Ints, lovasz: float = 0.99) -> Ints:
    """An LLL-reduced basis of the lattice that the rows of `basis` span; they must be linearly independent.

    Guarantee: the rows span the same lattice. That they are reduced (coefficients up to 1/2, Lovász's condition) is
    seen in floats, and holds up to their rounding.
    """
    vectors = _checked(basis)
    if not 0.25 < lovasz < 1:
        raise ValueError(f"lovasz must lie between 1/4 and 1, got {lovasz:g}")
    for _ in range(_ROUNDS):
        change = _improved(_coefficients(vectors), lovasz, _WORD / float(np.abs(vectors).max()))
        if change is None:
            return vectors
        vectors = change @ vectors
    raise ValueError("rounding keeps the reduction from ending: the numbers of the basis are too long for floats")


def _checked(basis: Sequence[Sequence[int]] | Ints) -> Ints:
    shape = np.shape(basis)
    if len(shape) != 2 or not 0 < shape[0] <= shape[1]:
        raise ValueError(f"a basis has at least one row and no more rows than columns, got {shape}")
    longest = max(abs(int(value)) for row in basis for value in row)
    if longest > _LONGEST:
        raise ValueError(f"a basis may hold integers of up to 40 bits, got one of {longest.bit_length()}")
    return np.array([[int(value) for value in row] for row in basis], dtype=np.int64)


def _coefficients(vectors: Ints) -> Floats:
    """L of vectors = L·Q with orthonormal rows Q, the diagonal positive: each vector along the ones before it."""
    lower = np.asarray(np.linalg.qr(vectors.astype(np.float64).T, mode="r")).T
    diagonal = np.diag(lower)
    if np.abs(diagonal).min() < 1e-15 * np.abs(lower).max():
        raise ValueError("the rows of the basis are linearly dependent")
    return np.ascontiguousarray(lower * np.sign(diagonal))


def _improved(lower: Floats, lovasz: float, largest: float) -> Ints | None:
    """The unimodular matrix of a few hundred steps towards a reduced basis; None if it is one.

    The absolute values of a row of it sum to at most `largest`, so that nothing overflows a word.
    """
    size = len(lower)
    change = np.eye(size, dtype=np.int64)
    sums = np.ones(size)  # bounds on the sums of absolute values
    moved = _size_reduced(lower, change, sums, largest / 4)
    growth = [float(value) for value in sums]
    swaps, place = 0, 1
    while place < size and swaps < _SWAPS * size:
        before, vector = lower[place - 1], lower[place]
        length, along, beyond = before[place - 1], vector[place - 1], vector[place]
        factor = round(along / length) if abs(along) > _HALF * length else 0
        if factor:
            growth[place] += abs(factor) * growth[place - 1]
            if growth[place] > largest:
                break
            vector -= factor * before
            change[place] -= factor * change[place - 1]
            along = vector[place - 1]
            moved = True
        if along * along + beyond * beyond >= lovasz * length * length:
            place += 1
            continue
        _swap(lower, change, place)
        growth[place - 1], growth[place] = growth[place], growth[place - 1]
        swaps += 1
        place = max(1, place - 1)
    return change if moved or swaps else None


def _size_reduced(lower: Floats, change: Ints, sums: Floats, largest: float) -> bool:
    """Take multiples of earlier vectors off all later ones, the nearest first. Whether anything changed."""
    moved = False
    for place in range(len(lower) - 2, -1, -1):
        later = slice(place + 1, None)
        most = np.maximum(0.0, np.floor((largest - sums[later]) / sums[place]))
        exact = lower[later, place] / lower[place, place]
        factors = np.clip(np.rint(exact), -most, most)
        hit = np.flatnonzero((np.abs(exact) > _HALF) & (factors != 0))
        if len(hit):
            rows, factors = place + 1 + hit, factors[hit]
            lower[rows, : place + 1] -= np.outer(factors, lower[place, : place + 1])
            change[rows] -= np.outer(factors.astype(np.int64), change[place])
            sums[rows] += np.abs(factors) * sums[place]
            moved = True
    return moved


def _swap(lower: Floats, change: Ints, place: int) -> None:
    """Exchange two neighbours, and turn the plane that they span so that the coefficients are triangular again."""
    pair = [place - 1, place]
    lower[pair] = lower[pair[::-1]]
    change[pair] = change[pair[::-1]]
    first, second = lower[place - 1, place - 1], lower[place - 1, place]
    length = np.hypot(first, second)
    turn = np.array([[first, second], [second, -first]]) / length
    lower[place - 1 :, place - 1 : place + 1] = lower[place - 1 :, place - 1 : place + 1] @ turn
    lower[place - 1, place] = 0.0


def near(basis: Ints, point: Floats, width: int = 1) -> Ints:
    """Vectors of the lattice close to `point`, the closest first: `width` of them, or fewer.

    A width of 1 takes the nearest plane at each step. A larger one keeps so many of the closest choices, which is what
    short lattices need: where planes lie closer together than the point is to the lattice, the nearest is often wrong.
    """
    if width < 1 or np.shape(point) != basis.shape[1:]:
        raise ValueError(
            f"need a width of 1 or more and a point of {basis.shape[1:]}, got {width} and {np.shape(point)}"
        )
    q, upper = np.linalg.qr(basis.astype(np.float64).T)
    lower, rest = upper.T, (point @ q)[None]
    chosen, distances = np.zeros((1, len(basis)), dtype=np.int64), np.zeros(1)
    for place in range(len(basis) - 1, -1, -1):
        exact = rest[:, place] / lower[place, place]
        nearest = np.rint(exact)
        choices = [nearest] if width == 1 else [nearest, nearest + np.where(exact >= nearest, 1.0, -1.0)]
        factors = np.concatenate(choices)
        parents = np.tile(np.arange(len(rest)), len(choices))
        reached = distances[parents] + np.square(rest[parents, place] - factors * lower[place, place])
        kept = np.argsort(reached, kind="stable")[:width]
        parents, factors, distances = parents[kept], factors[kept], reached[kept]
        rest, chosen = rest[parents], chosen[parents]
        rest[:, : place + 1] -= np.outer(factors, lower[place, : place + 1])
        chosen[:, place] = factors.astype(np.int64)
    return chosen @ basis
