"""Noise of the fast tier: its distribution against scipy's, its tails word by word, and that it never repeats."""

import copy
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from tacit.key_stream import TAG_BYTES
from tacit.training import compiled, noise
from tacit.training.compiled import box_muller
from tacit.training.noise import LARGEST, Gaussian, angles_of, logarithms_of, tail_of
from tacit.training.plan import LOG2_SLACK

KEY = bytes(range(16))
DTYPES = [torch.float32, torch.float64]
CHUNK = noise._TOGETHER * noise._BLOCK  # pairs that torch computes at once
WAYS = [
    pytest.param(lambda: None, id="torch"),
    pytest.param(box_muller, id="compiled", marks=pytest.mark.skipif(box_muller() is None, reason="needs numba")),
]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """The noise by torch, and by compiled code also where it would not be worth it."""
    monkeypatch.setattr(noise, "box_muller", request.param)
    monkeypatch.setattr(noise, "_COMPILED", 1)


def draw(size: int, dtype: torch.dtype = torch.float32, deviation: float = 1.0, key: bytes | None = KEY) -> np.ndarray:
    flat = torch.full((size,), float("nan"), dtype=dtype)  # a number that is left as it was shows
    Gaussian(size, dtype, key=key).normal(flat, deviation)
    return flat.double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_distribution_is_normal(dtype, way):
    values = draw(1 << 20, dtype, deviation=3.0) / 3.0
    assert stats.kstest(values, "norm").pvalue > 0.01
    assert stats.kstest(values[values > 2.5], stats.truncnorm(2.5, np.inf).cdf).pvalue > 0.01
    small = values[np.abs(values) < 0.01]
    assert stats.kstest(small, stats.truncnorm(-0.01, 0.01).cdf).pvalue > 0.01
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        variance = stats.norm.moment(2 * power) - moment**2
        assert abs(np.mean(values**power) - moment) < 4 * math.sqrt(variance / len(values))


def test_numbers_are_independent_of_each_other_and_between_calls(way):
    size = 4 * CHUNK + 1
    source = Gaussian(size, torch.float32, key=KEY)
    calls = [torch.empty(size) for _ in range(3)]
    for flat in calls:
        source.normal(flat, 1.0)
    one, two, three = (flat.double().numpy() for flat in calls)
    half, chunk = CHUNK, 2 * CHUNK
    block = noise._BLOCK
    shifted = [(one, two), (one, three), (one[:-1], one[1:]), (one[:-half], one[half:]), (one[:-chunk], one[chunk:])]
    shifted.append((one[:-block], one[block:]))
    for a, b in shifted:
        for f in (lambda x: x, np.square, np.abs):  # pairs share a radius: squares would show it
            assert abs(np.corrcoef(f(a), f(b))[0, 1]) < 4.5 / math.sqrt(len(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 1000, 2 * noise._BLOCK + 1, 2 * CHUNK + 1, 4 * CHUNK - 1])
def test_every_size_is_filled(size, dtype, way):
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


def planted(monkeypatch, words: dict[int, list[int]], angle: int = 4) -> None:
    """In place of a key's stream: given words on the first pages, and zeros behind them."""

    def fill(page, output):
        size = angle if page % noise._KINDS == 1 else 8
        values = np.zeros((len(output) - TAG_BYTES) // size, dtype=f"<i{size}")
        given = words.get(page, [])
        values[: len(given)] = given
        if page % noise._KINDS == 0:
            values[len(given) :] = 2**62
        output[: len(output) - TAG_BYTES] = values.tobytes()

    monkeypatch.setattr(noise, "pages", lambda key, size: fill)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [4, 2 * noise._BLOCK * 2])
def test_a_radius_in_the_tail_is_drawn_again_in_part(dtype, size, way, monkeypatch):
    """Radii in the tail of the first block and of the last; all angles are 0: cosine 1, sine 0."""
    last = (size // 2 - 1) // noise._BLOCK * noise._KINDS
    words = {0: [2**19, 2**50], 2: [2**62, 0, 0]}
    if last:
        words |= {last: [2**50, 7, 2**19], last + 2: [2**62, -(2**62), 0, 0, 5, 5]}
    planted(monkeypatch, words, angle=dtype.itemsize)
    flat = torch.empty(size, dtype=dtype)
    Gaussian(size, dtype, key=KEY).normal(flat, 1.0)

    def exact(*words: float) -> list[float]:
        return [math.sqrt(-2 * math.log(each / 2**63)) for each in words]

    rounding = 4 * torch.finfo(dtype).eps
    assert flat[:2].tolist() == pytest.approx(exact(2**19 + 0.25, 2**50), rel=rounding)
    assert flat[size // 2 :].tolist() == [0] * (size // 2)
    if last:
        found = flat[noise._BLOCK : noise._BLOCK + 4].tolist()
        assert found == pytest.approx(exact(2**50, 7.25, 2**19 - 0.25, 2**62), rel=rounding)


def test_both_ways_give_the_same_numbers(monkeypatch):
    """From one key, each within 5e-7 of its pair's radius of the real number, so within 1e-6 of each other; in the
    first pairs of a block are the words where rounding is worst. On several threads as on one."""
    if box_muller() is None:
        pytest.skip("needs numba")
    size = 2 * CHUNK + 2 * noise._BLOCK + 1001
    monkeypatch.setattr(noise, "_BLOCKS_A_THREAD", 1)
    found = draw(size)
    monkeypatch.setattr(noise, "box_muller", lambda: None)
    by_torch = draw(size)
    chunks = [slice(start, min(start + 2 * CHUNK, size)) for start in range(0, size, 2 * CHUNK)]
    for each in chunks:
        one, other = found[each], by_torch[each]
        pairs = (len(one) + 1) // 2
        sines = np.append(other[pairs:], [0] * (2 * pairs - len(one)))
        radii = np.hypot(other[:pairs], sines)
        assert np.all(np.abs(one[:pairs] - other[:pairs]) <= 1e-6 * radii)
        assert np.all(np.abs(one[pairs:] - other[pairs:]) <= 1e-6 * radii[: len(one) - pairs])


def edges(bits: int, drawn: np.ndarray) -> np.ndarray:
    """The words at which something changes: around all powers of two and eighths of a turn, and random ones."""
    powers = [sign * (2**power + near) for power in range(bits - 1) for near in (-1, 0, 1) for sign in (1, -1)]
    eighths = [part * 2 ** (bits - 3) + near for part in range(-4, 4) for near in (-1, 0, 1)]
    kept = [each for each in (*powers, *eighths) if -(2 ** (bits - 1)) <= each < 2 ** (bits - 1)]
    return np.concatenate([np.array(kept, dtype=drawn.dtype), drawn])


@pytest.mark.skipif(box_muller() is None, reason="needs numba")
def test_compiled_numbers_are_within_their_rounding():
    """Against float64 of numpy and, where that has no accuracy, fractions."""
    rng = np.random.default_rng(7)
    radii = edges(64, rng.integers(-(2**63), 2**63 - 1, 40_000))
    angles = edges(32, rng.integers(-(2**31), 2**31 - 1, 40_000).astype(np.int32))
    count = max(len(radii), len(angles))
    radii, angles = np.resize(radii, count), np.resize(angles, count)
    exact = -np.log(np.square(np.ldexp(radii.astype(np.float64), -63)) + 2.0**-128)
    near = np.abs(radii.astype(np.float64)) > 2.0**62.9  # log1p of what is missing to 1
    missing = np.array([Fraction(2**63 - abs(int(word)), 2**63) for word in radii[near]], dtype=np.float64)
    exact[near] = -2 * np.log1p(-missing)
    turn = angles.astype(np.float64) * math.pi * 2.0**-31
    first, second = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.float32)
    tails = box_muller()(radii, angles, first, second, np.float32(1))
    assert tails == np.count_nonzero(exact > compiled.FAR)
    grid = 2.0**-26  # of radii near 0: a word is rounded to 53 bits of u
    for values, wave in ((first, np.cos(turn)), (second, np.sin(turn))):
        assert np.all(np.abs(values - np.sqrt(exact) * wave) <= 5e-7 * np.sqrt(exact) + grid * near)


@pytest.mark.skipif(box_muller() is None, reason="needs numba")
def test_compiled_code_computes_what_its_source_says():
    rng = np.random.default_rng(8)
    radii, angles = rng.integers(-(2**63), 2**63 - 1, 500), rng.integers(-(2**31), 2**31 - 1, 500).astype(np.int32)
    made = [np.empty(500, dtype=np.float32) for _ in range(4)]
    box_muller()(radii, angles, made[0], made[1], np.float32(2))
    with np.errstate(over="ignore"):
        compiled.transform(radii, angles, made[2], made[3], np.float32(2))
    np.testing.assert_allclose(made[0], made[2], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(made[1], made[3], rtol=1e-6, atol=1e-6)


def test_without_numba_torch_computes_the_noise():
    """In a process in which numba cannot be imported."""
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import torch\n"
        "from tacit.training.noise import Gaussian\n"
        "flat = torch.empty(100_000)\n"
        "source = Gaussian(100_000, torch.float32, key=bytes(range(16)))\n"
        "source.normal(flat, 1.0)\n"
        "print(source._kernel, flat.double().std(correction=0).item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kernel, deviation = done.stdout.split()
    assert kernel == "None"
    assert float(deviation) == pytest.approx(draw(100_000).std(), rel=1e-6)


@pytest.mark.parametrize(
    "error", [RuntimeError("cannot cache function: no locator available"), OSError(28, "No space left on device")]
)
def test_where_numba_cannot_keep_what_it_compiled(error, monkeypatch):
    numba = pytest.importorskip("numba")
    asked = []

    def njit(signature, cache=False, **options):
        asked.append(cache)
        if cache:
            raise error
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled.box_muller.__wrapped__() is compiled.transform
    assert asked == [True, False]


COMPILE = "from tacit.training.compiled import box_muller as b; print(b() is not None and b().__name__)"


def compiled_in(folder, **environment: str) -> str:
    """What a process of its own compiles to, that keeps the result in a folder."""
    given = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(box_muller() is None, reason="needs numba")
@pytest.mark.parametrize("kind", [pytest.param("nbi", marks=pytest.mark.slow), "nbc"])
def test_what_numba_keeps_may_be_cut_off(kind, tmp_path):
    assert compiled_in(tmp_path) == "transform"
    (kept,) = tmp_path.rglob(f"*.{kind}")
    kept.write_bytes(kept.read_bytes()[:20])
    assert compiled_in(tmp_path) == "transform"


@pytest.mark.skipif(box_muller() is None, reason="needs numba")
def test_torch_computes_the_noise_where_numba_is_not_to_compile(tmp_path):
    assert compiled_in(tmp_path, NUMBA_DISABLE_JIT="1") == "False"


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


def test_a_forked_child_draws_other_noise_on_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(noise, "_BLOCKS_A_THREAD", 1)
    size = max(noise._COMPILED, 4 * noise._BLOCK)
    source, flat = Gaussian(size, torch.float32), torch.empty(size)
    source.normal(flat, 1.0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        source.normal(flat, 1.0)
        os.write(writing, flat[:16].numpy().tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reading, 64), dtype=np.float32)
    os.close(reading)
    os.close(writing)
    source.normal(flat, 1.0)
    assert len(theirs) == 16
    assert not np.array_equal(theirs, flat[:16].numpy())


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
