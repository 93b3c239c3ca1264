from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.fixedpoint import Grid, Ring, residues, signed, word_type
from tacit.randomness import seeded_rng

floats = hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1000, 1000))


@given(floats, st.integers(-5, 40))
def test_encoding_is_nearest_and_decoding_is_exact(values, bits):
    grid = Grid(bits)
    integers = grid.encode(values)
    for value, integer in zip(values, integers, strict=True):
        assert abs(Fraction(float(value)) - int(integer) * Fraction(grid.step)) <= Fraction(grid.step) / 2
    assert (grid.encode(grid.decode(integers)) == integers).all()


@given(hnp.arrays(np.int64, st.integers(1, 20), elements=st.integers(-(2**53), 2**53)), st.integers(-300, 300))
def test_grid_integers_survive_a_round_trip(integers, bits):
    assert (Grid(bits).encode(Grid(bits).decode(integers)) == integers).all()


def test_stochastic_rounding_takes_a_neighbour_and_is_right_on_average():
    values = np.full(200_000, 0.3)
    integers = Grid(0).encode(values, seeded_rng(1))
    assert set(np.unique(integers)) == {0, 1}
    assert abs(integers.mean() - 0.3) < 6 * math.sqrt(0.3 * 0.7 / len(values))
    assert (Grid(0).encode([2.0, -3.0], seeded_rng(1)) == [2, -3]).all()


@given(
    st.lists(hnp.arrays(np.float64, 5, elements=st.floats(-1, 1)), min_size=1, max_size=8),
    st.integers(25, 64),
)
def test_a_sum_of_residues_is_the_sum_of_the_grid_integers(vectors, modulus_bits):
    ring = Ring(modulus_bits, Grid(20), largest_sum=len(vectors))
    total = np.zeros(5, dtype=ring.dtype)
    for vector in vectors:
        total += ring.encode(vector)
    expected = [sum(int(x) for x in column) for column in zip(*(ring.grid.encode(v) for v in vectors), strict=True)]
    assert ring.decode(total).tolist() == [x * ring.grid.step for x in expected]


@given(st.integers(8, 64), st.data())
def test_residues_and_signed_numbers_are_those_of_python(bits, data):
    half = 2 ** (bits - 1)
    numbers = data.draw(st.lists(st.integers(-half, half - 1), min_size=1, max_size=20))
    words = residues(np.array(numbers, dtype=np.int64), bits)
    assert words.tolist() == [number % 2**bits for number in numbers]
    assert signed(words, bits).tolist() == numbers
    above = data.draw(st.integers(0, 2 ** (words.dtype.itemsize * 8 - bits) - 1))  # bits that belong to no residue
    assert signed(words | words.dtype.type(above << bits), bits).tolist() == numbers


def test_words_are_of_the_smallest_type():
    assert {bits: word_type(bits) for bits in (8, 16, 17, 32, 33, 64)} == {
        8: np.uint16, 16: np.uint16, 17: np.uint32, 32: np.uint32, 33: np.uint64, 64: np.uint64
    }  # fmt: skip


def test_a_ring_that_could_wrap_is_refused():
    Ring(32, Grid(20), largest_sum=2047)
    with pytest.raises(ValueError, match="more than 32 bits"):
        Ring(32, Grid(20), largest_sum=2048)
    Ring(64, Grid(20), largest_sum=2048)


def test_what_does_not_fit_is_an_error_and_never_clipped():
    ring = Ring(32, Grid(16), largest_sum=100)
    with pytest.raises(ValueError, match="values reach 101"):
        ring.encode([1.0, 101.0])
    with pytest.raises(ValueError, match="at most 100 was promised"):
        ring.decode(ring.encode([60.0]) + ring.encode([60.0]))
    with pytest.raises(ValueError, match=r"values reach 1e\+20"):
        Grid(10).encode([1e20])
    with pytest.raises(ValueError, match="must be uint32, got uint64"):
        ring.decode(np.zeros(3, dtype=np.uint64))


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf], [-math.inf, 1.0]])
def test_empty_and_non_finite_values_are_refused(values):
    with pytest.raises(ValueError, match=r"empty|NaN or infinite"):
        Grid(10).encode(values)


@pytest.mark.parametrize(
    ("bits", "largest"), [(7, 1.0), (65, 1.0), (32, 0.0), (32, -1.0), (32, math.inf), (32, math.nan)]
)
def test_bad_rings_are_refused(bits, largest):
    with pytest.raises(ValueError, match=r"must be|8 to 64 bits"):
        Ring(bits, Grid(10), largest)


def test_bad_grids_are_refused():
    with pytest.raises(ValueError, match="901"):
        Grid(901)


@given(st.lists(st.integers(-(2**200), 2**200), max_size=10), st.integers(-60, 200))
def test_integers_of_any_length_become_the_nearest_floats(integers, bits):
    decoded = Grid(bits).decode_wide(integers)
    assert decoded.dtype == np.float64
    assert decoded.tolist() == [float(Fraction(integer) / Fraction(2) ** bits) for integer in integers]


def test_an_integer_beyond_the_floats_is_refused():
    with pytest.raises(ValueError, match="an integer has 1101 bits, a float64 holds up to 1024"):
        Grid(10).decode_wide([1, 2**1100])
