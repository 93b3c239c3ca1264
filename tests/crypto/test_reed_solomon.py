"""Wrong values of polynomials against plain Python integers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto.reed_solomon import PRIME, barycentric, inverses, syndromes, wrong_places

NUMBERS = st.integers(0, PRIME - 1)
POINTS = st.lists(st.integers(1, 65536), min_size=1, max_size=30, unique=True)


def value(coefficients, x):
    return sum(c * x**j for j, c in enumerate(coefficients)) % PRIME


@given(POINTS)
def test_barycentric_weights(points):
    for x, weight in zip(points, barycentric(tuple(points)).tolist(), strict=True):
        product = weight
        for other in points:
            product = product * (x - other if other != x else 1) % PRIME
        assert product == 1


def test_barycentric_weights_beyond_one_block():
    points = tuple(range(1, 601))
    weights = barycentric(points).tolist()
    for place in (0, 255, 256, 511, 512, 599):
        product = weights[place]
        for other in points:
            product = product * (points[place] - other if other != points[place] else 1) % PRIME
        assert product == 1


@given(POINTS, st.data())
def test_syndromes_are_those_of_the_errors(points, data):
    dimension = data.draw(st.integers(1, len(points)))
    coefficients = data.draw(st.lists(NUMBERS, min_size=dimension, max_size=dimension))
    errors = data.draw(st.lists(NUMBERS, min_size=len(points), max_size=len(points)))
    values = [(value(coefficients, x) + error) % PRIME for x, error in zip(points, errors, strict=True)]
    both = np.array([values, errors], dtype=np.int64).T
    found = syndromes(tuple(points), both, dimension)
    assert found.shape == (len(points) - dimension, 2)
    assert found[:, 0].tolist() == found[:, 1].tolist()
    weights = barycentric(tuple(points)).tolist()
    for power, row in enumerate(found.tolist()):
        expected = sum(w * x**power * e for w, x, e in zip(weights, points, errors, strict=True)) % PRIME
        assert row[0] == expected


@given(POINTS, st.data())
@settings(max_examples=200)
def test_places_of_errors(points, data):
    dimension = data.draw(st.integers(1, len(points)))
    coefficients = data.draw(st.lists(NUMBERS, min_size=dimension, max_size=dimension))
    values = [value(coefficients, x) for x in points]
    most = (len(points) - dimension) // 2
    wrong = data.draw(st.sets(st.integers(0, len(points) - 1), max_size=most))
    for place in wrong:
        values[place] = (values[place] + data.draw(st.integers(1, PRIME - 1))) % PRIME
    checks = syndromes(tuple(points), np.array(values, dtype=np.int64)[:, np.newaxis], dimension)[:, 0]
    places = wrong_places(tuple(points), checks)
    assert places is not None
    assert set(places.tolist()) == wrong


@given(st.lists(st.integers(1, PRIME - 1), max_size=20))
def test_inverses(numbers):
    assert [a * b % PRIME for a, b in zip(numbers, inverses(numbers), strict=True)] == [1] * len(numbers)
