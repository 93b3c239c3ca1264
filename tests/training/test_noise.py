"""Noise of the fast tier: its distribution against scipy's, its tails word by word, and that it never repeats."""

import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from tacit.training import noise
from tacit.training.noise import LARGEST, Gaussian, angles_of, logarithms_of, tail_of
from tacit.training.plan import LOG2_SLACK

KEY = bytes(range(16))
DTYPES = [torch.float32, torch.float64]


def draw(size: int, dtype: torch.dtype = torch.float32, deviation: float = 1.0, key: bytes | None = KEY) -> np.ndarray:
    flat = torch.empty(size, dtype=dtype)
    Gaussian(size, dtype, key=key).normal(flat, deviation)
    return flat.double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_distribution_is_normal(dtype):
    values = draw(1 << 20, dtype, deviation=3.0) / 3.0
    assert stats.kstest(values, "norm").pvalue > 0.01
    assert stats.kstest(values[values > 2.5], stats.truncnorm(2.5, np.inf).cdf).pvalue > 0.01
    small = values[np.abs(values) < 0.01]
    assert stats.kstest(small, stats.truncnorm(-0.01, 0.01).cdf).pvalue > 0.01
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        variance = stats.norm.moment(2 * power) - moment**2
        assert abs(np.mean(values**power) - moment) < 4 * math.sqrt(variance / len(values))


def test_numbers_are_independent_of_each_other_and_between_calls():
    size = 4 * noise._PAIRS + 1
    source = Gaussian(size, torch.float32, key=KEY)
    calls = [torch.empty(size) for _ in range(3)]
    for flat in calls:
        source.normal(flat, 1.0)
    one, two, three = (flat.double().numpy() for flat in calls)
    half, chunk = noise._PAIRS, 2 * noise._PAIRS
    shifted = [(one, two), (one, three), (one[:-1], one[1:]), (one[:-half], one[half:]), (one[:-chunk], one[chunk:])]
    for a, b in shifted:
        for f in (lambda x: x, np.square, np.abs):  # pairs share a radius: squares would show it
            assert abs(np.corrcoef(f(a), f(b))[0, 1]) < 4.5 / math.sqrt(len(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 1000, 2 * noise._PAIRS + 1, 4 * noise._PAIRS - 1])
def test_every_size_is_filled(size, dtype):
    values = draw(size, dtype, deviation=2.0)
    assert np.all(values != 0)
    assert np.all(np.abs(values) < 2 * LARGEST)
    if size >= 1000:
        assert len(np.unique(values)) > 0.99 * size
        assert abs(values.std() - 2) < 10 / math.sqrt(size)
        assert abs(values[-500:].std() - 2) < 0.3


def test_logarithms_of_extreme_words():
    words = [0, -1, 1, 2**31, 2**62, -(2**63), 2**63 - 1, 2**63 - 2**30]
    found = logarithms_of(torch.tensor(words)).tolist()
    for word, logarithm in zip(words[:5], found[:5], strict=True):
        exact = Fraction(word, 2**63) ** 2 + Fraction(1, 2**128)
        assert logarithm == pytest.approx(math.log(exact.numerator) - math.log(exact.denominator), rel=1e-14)
    assert found[0] == pytest.approx(-128 * math.log(2), rel=1e-15)
    assert found[5] == found[6] == 0  # of radius zero, as all words above are: 2^9 of them
    assert found[7] == pytest.approx(-2 * 2.0**-33, rel=1e-6)  # float32 would have nothing below 1e-7


@pytest.mark.parametrize("word", [0, 1, -1, 2, 3, 1000, -(2**20), 2**39 + 1])
@pytest.mark.parametrize(
    "more", [(0, 0, 0), (1, -(2**63), 5), (-1, 7, 0), (2**62, 1, 1), (0, 0, -1), (0, 2**63 - 1, 0)]
)
def test_the_tail_has_more_bits(word, more):
    """Against exact fractions, from the logarithm of the word alone."""
    found = float(tail_of(logarithms_of(torch.tensor([word])), torch.tensor(more)[:, None]))
    behind = sum(Fraction(each, 2 ** (64 * place)) for place, each in enumerate(more, start=1))
    exact = max(abs(abs(word) + behind), Fraction(1, 2**193)) / 2**63
    assert found == pytest.approx(2 * (math.log(exact.numerator) - math.log(exact.denominator)), rel=1e-13)


def test_the_tail_ends_where_it_is_said_to():
    ends = -float(tail_of(logarithms_of(torch.tensor([0])), torch.zeros(3, 1, dtype=torch.int64)))
    assert math.sqrt(ends) == pytest.approx(LARGEST, rel=1e-15)
    pairs = 2**46 // 2
    assert math.log2(pairs) + 1 - LARGEST**2 / 2 / math.log(2) <= LOG2_SLACK["fast"]


class Words:
    """In place of the cipher: given words instead of random ones."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def encrypt_into(self, nonce, data, associated, output) -> None:
        size = 8 if len(data) % 8 == 0 else 4
        values = [self.left.pop(0) for _ in range(len(data) // size)]
        output[: len(data)] = np.array(values, dtype=f"<i{size}").tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_radius_in_the_tail_is_drawn_again_in_part(dtype):
    """Two words for the radii, two for the angles (both 0: cosine 1, sine 0), three for the radius in the tail."""
    source = Gaussian(4, dtype, key=KEY)
    radii = [2**19, 2**50]
    words = source._cipher = Words(*radii, 0, *([0] if dtype == torch.float64 else []), 2**62, 0, 0)
    flat = torch.empty(4, dtype=dtype)
    source.normal(flat, 1.0)
    exact = [math.sqrt(-2 * math.log((2**19 + 0.25) / 2**63)), math.sqrt(-2 * math.log(2**50 / 2**63))]
    assert flat[:2].tolist() == pytest.approx(exact, rel=4 * torch.finfo(dtype).eps)
    assert flat[2:].tolist() == [0, 0]
    assert words.left == []


def test_logarithms_are_made_in_the_memory_of_the_words():
    """Torch converts in place, which its documentation does not promise: word by word against numpy."""
    words = torch.from_numpy(np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 200_003))
    expected = np.log(np.square(np.ldexp(words.numpy().astype(np.float64), -63)) + 2.0**-128)
    found = logarithms_of(words)
    assert found.data_ptr() == words.data_ptr()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_angles_go_once_around(dtype):
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    words = torch.tensor([least, 0, 1, most, *range(0, most, most // 100_000)], dtype=dtype)
    expected = words.numpy().astype(np.float64) * (2 * math.pi / (most - least + 1))
    angles = angles_of(words)
    assert angles.data_ptr() == words.data_ptr()
    rounding = 2 * torch.finfo(angles.dtype).eps
    np.testing.assert_allclose(angles.numpy(), expected, rtol=rounding)
    assert float(angles[0]) == pytest.approx(-math.pi, rel=rounding)
    assert float(angles[1]) == 0


def test_deviations_far_from_one():
    for deviation in (1e-30, 1e30):
        values = draw(10_000, deviation=deviation) / deviation
        assert abs(values.std() - 1) < 0.05


def test_a_key_repeats_and_the_system_does_not():
    assert np.array_equal(draw(1000), draw(1000))
    assert not np.array_equal(draw(1000), draw(1000, key=bytes(16)))
    assert not np.array_equal(draw(1000, key=None), draw(1000, key=None))


def test_a_forked_child_draws_other_noise():
    source, flat = Gaussian(8, torch.float64), torch.empty(8, dtype=torch.float64)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        source.normal(flat, 1.0)
        os.write(writing, flat.numpy().tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reading, 64))
    os.close(reading)
    os.close(writing)
    source.normal(flat, 1.0)
    assert not np.array_equal(theirs, flat.numpy())


def test_a_source_is_not_copied():
    source = Gaussian(4, torch.float32)
    with pytest.raises(TypeError, match="same noise"):
        pickle.dumps(source)
    with pytest.raises(TypeError, match="same noise"):
        copy.deepcopy(source)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="size is 0"):
        Gaussian(0, torch.float32)
    with pytest.raises(ValueError, match="float16"):
        Gaussian(4, torch.float16)
    with pytest.raises(ValueError, match="16 bytes"):
        Gaussian(4, torch.float32, key=b"short")
    source = Gaussian(4, torch.float32)
    for flat in (torch.empty(5), torch.empty(4, dtype=torch.float64)):
        with pytest.raises(ValueError, match="this source is for 4 numbers"):
            source.normal(flat, 1.0)
    for deviation in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive and finite"):
            source.normal(torch.empty(4), deviation)
