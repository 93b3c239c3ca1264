"""Lattice reduction against its definition in exact arithmetic, and against enumeration."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.audit.attacks import lattice


def coefficients(basis):
    """Gram-Schmidt in rational numbers: the coefficients, and the squared lengths."""
    stars, squares, all_factors = [], [], []
    for vector in ([int(value) for value in row] for row in basis):
        star: list = [Fraction(value) for value in vector]
        factors = []
        for other, square in zip(stars, squares, strict=True):
            factor = sum(a * b for a, b in zip(vector, other, strict=True)) / square
            factors.append(factor)
            star = [a - factor * b for a, b in zip(star, other, strict=True)]
        stars.append(star)
        squares.append(sum(value * value for value in star))
        all_factors.append(factors)
    return all_factors, squares


def assert_reduced(basis, lovasz=Fraction(98, 100), largest=Fraction(501, 1000)) -> None:
    """For slightly weaker numbers than were asked for: the reduction looks at floats."""
    factors, squares = coefficients(basis)
    assert all(abs(factor) <= largest for row in factors for factor in row)
    for place in range(1, len(squares)):
        assert squares[place] >= (lovasz - factors[place][-1] ** 2) * squares[place - 1]


def assert_same_lattice(one, other) -> None:
    """Each basis in terms of the other, in rational numbers: both matrices must be of integers."""
    for basis, vectors in ((one, other), (other, one)):
        factors, squares = coefficients(basis)
        stars = [np.array([Fraction(int(v)) for v in row]) for row in basis]
        for place, row in enumerate(factors):
            for before, factor in enumerate(row):
                stars[place] = stars[place] - factor * stars[before]
        for vector in vectors:
            rest = np.array([Fraction(int(v)) for v in vector])
            for place in range(len(basis) - 1, -1, -1):
                times = sum(rest * stars[place]) / squares[place]
                assert times.denominator == 1
                rest = rest - times * np.array([Fraction(int(v)) for v in basis[place]])
            assert not any(rest)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(0, 3), st.integers(2, 38), st.integers(0, 2**32))
def test_reduced_bases_meet_the_definition_and_span_the_same_lattice(rows, more, bits, seed):
    rng = np.random.default_rng(seed)
    basis = rng.integers(-(2**bits), 2**bits, (rows, rows + more))
    basis[:, :rows] += np.diag(np.full(rows, 2 ** (bits + 1)))  # independent rows
    found = lattice.reduced(basis)
    assert_reduced(found)
    assert_same_lattice(basis, found)


@pytest.mark.parametrize("bits", [10, 25, 39])
def test_a_knapsack_with_one_long_column_is_reduced(bits):
    rng = np.random.default_rng(bits)
    basis = np.hstack([np.eye(25, dtype=np.int64), rng.integers(0, 2**bits, (25, 1))])
    found = lattice.reduced(basis)
    assert_reduced(found)
    assert_same_lattice(basis, found)


def test_dimension_sixty():
    rng = np.random.default_rng(1)
    basis = np.hstack([np.eye(60, dtype=np.int64), rng.integers(-(2**30), 2**30, (60, 8))])
    assert_reduced(lattice.reduced(basis))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32))
def test_the_shortest_vector_of_a_small_lattice_is_nearly_found(rows, seed):
    """LLL's first vector is at most (δ − 1/4)^(−(n−1)/2) times the shortest, which enumeration finds: over a reduced
    basis its coefficients are small."""
    rng = np.random.default_rng(seed)
    basis = rng.integers(-50, 51, (rows, rows)) + 200 * np.eye(rows, dtype=np.int64)
    found = lattice.reduced(basis)
    shortest = min(
        float(np.linalg.norm(np.array(times) @ found)) for times in product(range(-4, 5), repeat=rows) if any(times)
    )
    assert np.linalg.norm(found[0]) <= shortest * (0.98 - 0.25) ** (-(rows - 1) / 2) + 1e-9
    nearest = min(float(np.linalg.norm(row)) for row in found)
    assert shortest <= nearest + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32))
def test_the_closest_vector_is_the_one_that_enumeration_finds(rows, seed):
    rng = np.random.default_rng(seed)
    found = lattice.reduced(rng.integers(-50, 51, (rows, rows)) + 200 * np.eye(rows, dtype=np.int64))
    point = rng.normal(size=rows) * 300
    centre = np.rint(np.linalg.solve(found.T.astype(float), point)).astype(int)
    closest = min(
        float(np.linalg.norm((centre + np.array(times)) @ found - point))
        for times in product(range(-3, 4), repeat=rows)
    )
    near = lattice.near(found, point, width=64)
    distances = np.linalg.norm(near - point, axis=1)
    assert distances[0] == pytest.approx(closest)
    assert (np.diff(distances) >= -1e-6).all()


def test_a_vector_of_the_lattice_is_its_own_nearest():
    rng = np.random.default_rng(3)
    found = lattice.reduced(rng.integers(-1000, 1000, (20, 25)))
    vector = rng.integers(-5, 6, 20) @ found
    assert (lattice.near(found, vector.astype(float))[0] == vector).all()


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        ([[1, 2], [2, 4]], "linearly dependent"),
        ([[1], [2]], "no more rows than columns"),
        ([[1 << 41, 0], [0, 1]], "40 bits, got one of 42"),
    ],
)
def test_what_is_no_basis_is_refused(basis, words):
    with pytest.raises(ValueError, match=words):
        lattice.reduced(basis)


def test_a_condition_outside_its_range_and_a_point_of_another_size_are_refused():
    with pytest.raises(ValueError, match="between 1/4 and 1, got 1"):
        lattice.reduced([[1, 0], [0, 1]], lovasz=1.0)
    with pytest.raises(ValueError, match="a point of"):
        lattice.near(np.eye(2, dtype=np.int64), np.zeros(3))


def test_the_nearest_planes_leave_at_most_half_of_each_step():
    """Babai's guarantee, for a basis whose steps differ much."""
    rng = np.random.default_rng(4)
    found = lattice.reduced(np.hstack([np.eye(15, dtype=np.int64), rng.integers(0, 2**20, (15, 1))]))
    _, upper = np.linalg.qr(found.T.astype(float))
    q = np.linalg.qr(found.T.astype(float))[0]
    for _ in range(20):
        point = rng.normal(size=16) * 100
        rest = (point - lattice.near(found, point)[0]) @ q
        assert (np.abs(rest / np.diag(upper)) <= 0.5 + 1e-9).all()
