"""Samplers against exact mass functions: the tables themselves digit by digit, the draws by chi-squared."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln, ndtr

from tacit.dp import alias, noise
from tacit.randomness import seeded_rng
from tests.dp.exact import chi_squared_p, gaussian_masses, laplace_masses, skellam_masses

LEAST_P = 1e-6


def masses_of_table(table: alias.AliasTable) -> dict[int, int]:
    """The integer weights that a table really draws from, out of 2^weight_bits."""
    capacity = 1 << table.threshold_bits
    masses: dict[int, int] = {}
    for column, threshold in enumerate(table.threshold):
        below, above = (int(value) for value in table.outcome[2 * column : 2 * column + 2])
        masses[below] = masses.get(below, 0) + threshold
        masses[above] = masses.get(above, 0) + capacity - threshold
    return masses


def log2_distance(table: alias.AliasTable, true_mass) -> float:
    """log2 of the statistical distance of a table from `true_mass(k)`, apart from the tails it leaves out."""
    masses = masses_of_table(table)
    whole = mpmath.mpf(2) ** (table.threshold_bits + table.index_bits)
    assert sum(masses.values()) == 1 << (table.threshold_bits + table.index_bits)
    return float(mpmath.log(mpmath.fsum(abs(m / whole - true_mass(k)) for k, m in masses.items()) / 2, 2))


@pytest.mark.parametrize("sigma", [0.1, 1.0, 2.5, 10.0])
def test_a_gaussian_table_is_as_close_as_it_says(sigma):
    with mpmath.workprec(2400):
        table = noise._gaussian_table(Fraction(sigma) ** 2)
        variance = mpmath.mpf(sigma) ** 2
        total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * variance)) for k in range(-700, 701))
        found = log2_distance(table, lambda k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * variance)) / total)
    assert found <= table.log2_distance < -2000


@pytest.mark.parametrize("variance", [0.01, 1.0, 30.0])
def test_a_skellam_table_is_as_close_as_it_says(variance):
    with mpmath.workprec(500):
        table = noise._skellam_table(Fraction(variance))
        found = log2_distance(table, lambda k: mpmath.besseli(abs(k), variance) * mpmath.exp(-mpmath.mpf(variance)))
    assert found <= table.log2_distance <= noise.skellam_log2_distance(variance) < -230


@pytest.mark.parametrize("sigma", [256.5, 600.0, 5000.0])
def test_convolved_levels_make_one_gaussian(sigma):
    levels = noise._gaussian_levels(Fraction(sigma) ** 2)
    assert len(levels) > 1
    masses = np.ones(1)
    for stride, table in levels:
        weights = masses_of_table(table)
        reach = max(weights)
        part = np.zeros(2 * reach * stride + 1)
        for k, weight in weights.items():
            part[(k + reach) * stride] = weight / (1 << (table.threshold_bits + table.index_bits))
        masses = np.convolve(masses, part) if len(part) < 20_000 else _fft_convolve(masses, part)
    middle, reach = len(masses) // 2, int(6 * sigma)
    found = masses[middle - reach : middle + reach + 1]
    assert found == pytest.approx(
        gaussian_masses(sigma, int(20 * sigma))[int(14 * sigma) :][: 2 * reach + 1], abs=1e-13
    )
    assert noise.discrete_gaussian_log2_distance(sigma) < -2000


def _fft_convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = len(a) + len(b) - 1
    return np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)


def test_a_tie_with_the_first_word_is_decided_by_the_next_words(monkeypatch: pytest.MonkeyPatch):
    table = noise._gaussian_table(Fraction(4))
    column = next(c for c, t in enumerate(table.threshold) if 0 < t < (1 << table.threshold_bits) - 1)
    below, above = table.outcome[2 * column : 2 * column + 2]
    rest = table.threshold[column] & ((1 << (table.threshold_bits - 64 + table.index_bits)) - 1)

    def draw(rest_of_word: int) -> int:
        answers = [np.array([table.first_word[column]], dtype=np.uint64)]
        left = table.threshold_bits - 64 + table.index_bits
        size = -(-left // 64)
        answers.append(np.frombuffer((rest_of_word << (-left % 64)).to_bytes(8 * size, "little"), dtype=np.uint64))
        monkeypatch.setattr(alias, "random_words", lambda rng, count: answers.pop(0))
        return int(table.draw(1, seeded_rng(0))[0])

    assert draw(rest - 1) == below != above
    assert draw(rest) == above


@given(
    st.fractions(-30, 30, max_denominator=1000),
    st.fractions(Fraction(1, 100), 100, max_denominator=100),
    st.integers(1, 300),
)
def test_probabilities_are_known_to_every_bit(exponent, weight, bits):
    with mpmath.workprec(1200):
        exact = 1 / (
            1
            + mpmath.mpf(weight.numerator)
            / weight.denominator
            * mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        )
        expected = int(mpmath.floor(exact * mpmath.mpf(2) ** bits))
    assert noise.Probability(weight, exponent).floor_bits(bits) == expected


def test_bernoulli_resolves_ties_exactly(monkeypatch: pytest.MonkeyPatch):
    third = noise.Probability(Fraction(2), Fraction(0))  # 0.010101...
    prefix = third.floor_bits(16)
    digits = third.floor_bits(80) & (2**64 - 1)

    def draw(*after: int) -> bool:
        answers = [np.full(1, prefix * 0x1000100010001, dtype=np.uint64)] + [
            np.array([w], dtype=np.uint64) for w in after
        ]
        monkeypatch.setattr(noise, "random_words", lambda rng, count: answers.pop(0))
        return bool(noise.bernoulli(third, 1, seeded_rng(0))[0])

    assert draw(digits - 1)
    assert not draw(digits + 1)
    assert draw(digits, 0)
    assert not draw(digits, 2**64 - 1)


def test_digits_of_a_geometric_variable_are_independent():
    rate = Fraction(1, 3)
    digits = [float(noise.Probability(Fraction(1), rate * 2**i)) for i in range(8)]
    for g in range(256):
        product = math.prod(p if g >> i & 1 else 1 - p for i, p in enumerate(digits))
        above = 1 - math.exp(-float(rate) * 256)
        assert product * above == pytest.approx((1 - math.exp(-1 / 3)) * math.exp(-g / 3), rel=1e-12)


@pytest.mark.parametrize("p", [0.5, 0.01, 0.999])
def test_bernoulli_frequency(p):
    drawn = noise.bernoulli(noise.Probability(1 / Fraction(p), Fraction(0), offset=0), 400_000, seeded_rng(3))
    assert abs(drawn.mean() - p) < 5 * math.sqrt(p * (1 - p) / drawn.size)


def test_certain_and_impossible_events():
    assert noise.bernoulli(noise.Probability(Fraction(1), Fraction(0), offset=0), 10, seeded_rng(1)).all()
    assert not noise.bernoulli(noise.response_change(1e5), 10_000, seeded_rng(1)).any()
    assert noise.response_change(0).floor_bits(10) == 512


@pytest.mark.parametrize("rate", [Fraction(3), Fraction(1), Fraction(1, 10), Fraction(0.37)])
def test_discrete_laplace_chi_squared(rate):
    samples = noise.discrete_laplace(rate, 300_000, seeded_rng(11))
    reach = math.ceil(20 / rate)
    assert chi_squared_p(samples, laplace_masses(float(rate), reach), reach) > LEAST_P


@pytest.mark.parametrize("scale", [1000, 2**40])
def test_wide_discrete_laplace_chi_squared(scale):
    samples = noise.discrete_laplace(Fraction(1, scale), 200_000, seeded_rng(12))
    uniform = np.where(samples < 0, np.exp(samples / scale) / 2, 1 - np.exp(-samples / scale) / 2)
    assert (
        chi_squared_p(np.floor(uniform * 200).astype(int), np.r_[np.zeros(200), np.full(200, 1 / 200), 0], 200)
        > LEAST_P
    )


@pytest.mark.parametrize("sigma", [0.5, 1.0, 7.3, 100.0, 300.0, 1200.0])
def test_discrete_gaussian_chi_squared(sigma):
    samples = noise.discrete_gaussian(sigma, 400_000, seeded_rng(13))
    reach = math.ceil(7 * sigma)
    assert chi_squared_p(samples, gaussian_masses(sigma, reach), reach) > LEAST_P


@pytest.mark.parametrize("sigma", [10_000.0, 2.0**31, 2.0**45])
def test_wide_discrete_gaussian_chi_squared(sigma):
    samples = noise.discrete_gaussian(sigma, 200_000, seeded_rng(14))
    cells = np.floor(ndtr((samples + 0.5) / sigma) * 100).astype(int)
    assert chi_squared_p(cells, np.r_[np.zeros(100), np.full(100, 1 / 100), 0], 100) > LEAST_P
    low_bits = samples & 63
    assert chi_squared_p(low_bits, np.r_[np.zeros(64), np.full(64, 1 / 64), 0], 64) > LEAST_P


@pytest.mark.parametrize("variance", [0.05, 1.0, 50.0])
def test_skellam_chi_squared(variance):
    samples = noise.skellam(variance, 300_000, seeded_rng(15))
    reach = math.ceil(7 * math.sqrt(variance)) + 8
    assert chi_squared_p(samples, skellam_masses(variance, reach), reach) > LEAST_P


def test_skellam_is_the_difference_of_two_poissons():
    mean, reach = 2.0, 30
    log_poisson = [-mean + k * math.log(mean) - gammaln(k + 1) for k in range(100)]
    difference = [sum(math.exp(log_poisson[j + k] + log_poisson[j]) for j in range(60 - k)) for k in range(reach + 1)]
    assert skellam_masses(2 * mean, reach)[reach:] == pytest.approx(difference, rel=1e-9)


def test_wide_skellam_is_a_sum_of_tables():
    variance = 5e7
    parts, _ = noise._skellam_parts(variance)
    assert parts == 3
    samples = noise.skellam(variance, 200_000, seeded_rng(16))
    cells = np.floor(ndtr((samples + 0.5) / math.sqrt(variance)) * 100).astype(int)
    assert chi_squared_p(cells, np.r_[np.zeros(100), np.full(100, 1 / 100), 0], 100) > LEAST_P


def test_chi_squared_notices_a_wrong_sampler():
    samples = noise.discrete_gaussian(10.2, 400_000, seeded_rng(17))
    assert chi_squared_p(samples, gaussian_masses(10.0, 70), 70) < LEAST_P
    assert chi_squared_p(samples + 1, gaussian_masses(10.2, 70), 70) < LEAST_P


def test_shapes_and_default_generator():
    assert noise.discrete_gaussian(3.0, (2, 3)).shape == (2, 3)
    assert noise.discrete_laplace(Fraction(1), (4, 0)).shape == (4, 0)
    assert noise.skellam(3.0, 5).dtype == np.int64
    assert (noise.discrete_gaussian(1e6, 50) != noise.discrete_gaussian(1e6, 50)).any()


def test_overflow_raises_rather_than_wraps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(noise, "_bernoulli_into", lambda part, probability, rng: part.fill(True))
    with pytest.raises(OverflowError, match="64-bit"):
        noise.discrete_laplace(Fraction(1), 1, seeded_rng(1))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**47])
def test_bad_sigmas_are_refused(sigma):
    with pytest.raises(ValueError, match="sigma must be in"):
        noise.discrete_gaussian(sigma, 1)


@pytest.mark.parametrize("variance", [0.0, -1.0, math.nan, math.inf])
def test_bad_variances_are_refused(variance):
    with pytest.raises(ValueError, match="variance must be in"):
        noise.skellam(variance, 1)


def test_bad_rates_and_answers_are_refused():
    with pytest.raises(ValueError, match=r"above 0, got -1\.0"):
        noise.discrete_laplace(Fraction(-1), 1)
    with pytest.raises(ValueError, match="coarser grid"):
        noise.discrete_laplace(Fraction(1, 2**50), 1)
    for epsilon in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon must be"):
            noise.response_change(epsilon)
    with pytest.raises(ValueError, match="got 1"):
        noise.response_change(1.0, 1)
