from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tacit.secagg.graph import Circle, Degree, degree


@pytest.mark.parametrize(
    ("corrupt", "drop", "n", "k", "t"),
    [
        (0.05, 0.05, 100, 12, 6), (0.05, 0.05, 500, 28, 16), (0.05, 0.05, 1000, 30, 17), (0.05, 0.05, 10_000, 34, 20),
        (0.1, 0.3, 100, 34, 11), (0.1, 0.3, 500, 76, 31), (0.1, 0.3, 1000, 88, 36), (0.1, 0.3, 10_000, 108, 44),
    ],
)  # fmt: skip
def test_reference_values(corrupt, drop, n, k, t):
    assert degree(n, round(corrupt * n), round(drop * n)) == Degree(k, t)


def tail(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """P(at least `least` marked among `drawn`), in whole numbers."""
    ways = sum(math.comb(marked, i) * math.comb(population - marked, drawn - i) for i in range(least, drawn + 1))
    return Fraction(ways, math.comb(population, drawn))


@pytest.mark.parametrize(("n", "corrupt", "drop"), [(100, 0.05, 0.05), (300, 0.1, 0.2), (500, 0.1, 0.3)])
def test_the_three_failures_are_improbable_and_k_is_least(n, corrupt, drop):
    bad, gone = round(corrupt * n), round(drop * n)
    found = degree(n, bad, gone)

    def holds(k: int, t: int) -> bool:
        enough = 1 - tail(n - 1, n - 1 - gone, k, t)
        cut = Fraction(n * (n - 1), 2) * tail(n, bad + gone, k, k)
        return (
            n * tail(n - 1, bad, k, t) < Fraction(1, 2**41)
            and n * enough < Fraction(1, 2**20)
            and cut < Fraction(1, 2**41)
        )

    assert holds(found.neighbours, found.threshold)
    assert not holds(found.neighbours, found.threshold - 1)
    assert not any(holds(found.neighbours - 2, t) for t in range(1, found.neighbours - 1))


def test_small_cohorts():
    assert degree(3, 1, 1) is None
    assert degree(10, 1, 1) == Degree(4, 2)
    assert degree(20, 10, 9) is None


def test_the_circle_is_regular_mutual_connected_and_a_function_of_its_seed():
    ids = [3 * i + 7 for i in range(50)]
    circle = Circle(ids, 6, bytes(32))
    for identity in ids:
        near = circle.neighbours(identity)
        assert len(set(near)) == 6
        assert identity not in near
        assert list(near) == sorted(near)
        assert all(identity in circle.neighbours(other) for other in near)
    reached, frontier = {ids[0]}, [ids[0]]
    while frontier:
        frontier = [n for i in frontier for n in circle.neighbours(i) if n not in reached]
        reached |= set(frontier)
    assert reached == set(ids)
    assert [Circle(ids, 6, bytes(32)).neighbours(i) for i in ids] == [circle.neighbours(i) for i in ids]
    assert [Circle(ids, 6, bytes([1] * 32)).neighbours(i) for i in ids] != [circle.neighbours(i) for i in ids]
    assert [Circle(ids[::-1], 6, bytes(32)).neighbours(i) for i in ids] == [circle.neighbours(i) for i in ids]


@pytest.mark.parametrize("k", [0, 3, 10, 12])
def test_bad_degrees_are_refused(k):
    with pytest.raises(ValueError, match="even number"):
        Circle(range(10), k, bytes(32))
