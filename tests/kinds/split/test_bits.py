"""Packed bits and packed flips, against one flip at a time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.dp.noise import Probability, response_change
from tacit.kinds.split import bits
from tacit.kinds.split.bits import pack, packed_bernoulli, packed_size, unpack
from tacit.randomness import secure_rng, seeded_rng


@given(st.lists(st.sampled_from([-1.0, -0.0, 0.0, 1e-30, 2.0, float("nan"), float("inf")]), min_size=1, max_size=70))
def test_eight_bits_a_byte_and_back(values):
    packed = pack(np.array(values, dtype=np.float32))
    assert packed.nbytes == packed_size(len(values)) == (len(values) + 7) // 8
    assert unpack(packed, len(values)).tolist() == [1 if value > 0 else 0 for value in values]


def test_many_values_are_packed_like_few():
    values = np.random.default_rng(0).standard_normal((3, 2 * bits._VALUES // 3 + 5)).astype(np.float32)
    assert (unpack(pack(values), values.size) == (values > 0).reshape(-1)).all()


def test_a_length_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="9 bits are 2 bytes, got 1"):
        unpack(np.zeros(1, np.uint8), 9)


def test_the_rest_of_the_last_byte_is_zero():
    for count in range(1, 65):
        packed = packed_bernoulli(response_change(0.0), count, secure_rng())
        assert packed.size == packed_size(count)
        assert int(packed[-1]) >> (count - 8 * (packed.size - 1)) == 0


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 2.5, 40.0, 60.0, 1000.0, 1e100])
def test_the_digits_are_those_of_the_probability_rounded_up(epsilon):
    probability = response_change(epsilon)
    digits = bits._digits(probability)
    value = Fraction(sum(digit << place for place, digit in enumerate(digits)), 2 ** len(digits))
    exact = Fraction(probability.floor_bits(2000), 2**2000)  # rounded down
    assert exact <= value <= exact + Fraction(1, 2**bits.DIGITS)
    assert Fraction(1, 2**bits.DIGITS) <= value <= Fraction(1, 2)


def test_a_uniform_number_is_compared_digit_by_digit(monkeypatch):
    """Every combination of three random digits against p = 3/8: the oracle is the comparison of integers."""

    def all_numbers(buffer, key):
        buffer[:] = [0b10101010, 0b11001100, 0b11110000]  # the third, second and first digit of the numbers 0 to 7

    monkeypatch.setattr(bits, "add_mask", all_numbers)
    flips = np.zeros(1, dtype=np.uint64)
    bits._draw(flips, [True, True, False], secure_rng())  # 3/8 is 0.011, the last digit first
    below = [7 - number < 3 for number in range(8)]  # the complement of a uniform number is uniform
    assert [bool(int(flips[0]) >> number & 1) for number in range(8)] == below


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.5, 5.0])
def test_frequencies_are_those_of_the_probability(epsilon):
    probability = response_change(epsilon)
    count = 1 << 21
    ones = int(unpack(packed_bernoulli(probability, count, seeded_rng(4)), count).sum())
    assert stats.binomtest(ones, count, float(probability)).pvalue > 1e-4


def test_flips_of_one_word_and_of_neighbouring_words_are_independent():
    probability = response_change(1.0)
    q = float(probability)
    flips = unpack(packed_bernoulli(probability, 1 << 20, seeded_rng(5)), 1 << 20).astype(np.float64) - q
    for distance in (1, 2, 7, 8, 63, 64, 65, 4096, 262144):
        correlation = float((flips[:-distance] * flips[distance:]).sum()) / (q * (1 - q))
        assert abs(correlation) / np.sqrt(flips.size - distance) < 4.5, distance


def test_a_probability_that_rounds_to_one_is_refused():
    with pytest.raises(ValueError, match="below 1"):
        bits._digits(Probability(Fraction(0), Fraction(0)))
