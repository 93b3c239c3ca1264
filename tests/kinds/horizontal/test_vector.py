from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tacit.errors import PeerError
from tacit.kinds.horizontal.sums import Group, Sum
from tacit.kinds.horizontal.vector import Layout, is_finite, largest

MODEL = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([7.0], dtype=np.float32)}


def test_flattening_and_back():
    layout = Layout.of(MODEL)
    flat = layout.flatten(MODEL)
    assert layout.size == 7
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 7]
    back = layout.unflatten(flat)
    assert all((back[name] == MODEL[name]).all() for name in MODEL)


def test_digests_tell_models_apart():
    layout = Layout.of(MODEL)
    flat = layout.flatten(MODEL)
    assert layout.digest(flat) == layout.digest(flat.copy())
    assert layout.digest(flat) != layout.digest(flat + np.float32(1e-6))
    other = Layout(("a", "c"), layout.shapes, layout.dtype)
    assert layout.digest(flat) != other.digest(flat)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"a": MODEL["a"]}, "a model of a, b is due"),
        ({**MODEL, "b": np.zeros(2, np.float32)}, r"b must be \(1,\)"),
        ({**MODEL, "b": np.zeros(1)}, "of float32, got"),
    ],
)
def test_other_models_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        Layout.of(MODEL).flatten(model)


def test_models_without_arrays_or_of_mixed_types_are_refused():
    with pytest.raises(ValueError, match="no arrays"):
        Layout.of({})
    with pytest.raises(ValueError, match="float32, float64"):
        Layout.of({**MODEL, "b": np.zeros(1)})
    with pytest.raises(ValueError, match="int64"):
        Layout.of({"a": np.zeros(2, np.int64)})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sum_takes_models_one_by_one_and_refuses_bad_ones_whole(dtype):
    rng = np.random.default_rng(1)
    base = rng.normal(size=70_000).astype(dtype)
    total = Sum(base, largest_norm=1e4)
    one = rng.normal(size=70_000).astype(dtype)
    total.add_model(base + one, 3)
    total.add_model(base - one, 1)
    for bad, weight, words in (
        (one[:-1], 1, "shape"),
        (one.astype("float16"), 1, "float16"),
        (one * np.nan, 1, "NaN"),
        (one * np.inf, 1, "NaN"),
        (one * 1e3, 1, "norm"),
        (one, 0, "weight"),
        (one, float("nan"), "weight"),
    ):
        with pytest.raises(PeerError, match=words):
            total.add_model(np.asarray(bad), weight)
    late = (base + one).copy()
    late[-1] = np.nan  # found out in the last block, when the others are in
    with pytest.raises(PeerError, match="NaN"):
        total.add_model(late, 5)
    assert total.count == 2
    assert total.mean() == pytest.approx(one.astype(float) / 2, abs=1e-6)


def test_a_sum_of_updates_is_their_mean_and_refuses_long_ones():
    total = Sum(np.zeros(5), largest_norm=10.0)
    for value in range(30):
        total.add_update(np.full(5, value / 10))
    with pytest.raises(PeerError, match="norm above 10, the most"):
        total.add_update(np.full(5, 10.0))
    with pytest.raises(PeerError, match="NaN"):
        total.add_update(np.full(5, np.nan))
    assert total.count == 30
    assert total.mean() == pytest.approx(np.full(5, 1.45))


@pytest.mark.parametrize("group", [1, 7, 64])
def test_groups_that_were_added_up_elsewhere_give_the_same_bits(group):
    rng = np.random.default_rng(2)
    base = rng.normal(size=1000).astype(np.float32)
    models = [base + rng.normal(size=1000).astype(np.float32) for _ in range(100)]
    weights = rng.integers(1, 200, 100).tolist()
    here, parts = Sum(base, 1e4, group), Sum(base, 1e4, group)
    for start in range(0, 100, group):
        elsewhere = Group(base, 1e4)
        for model, weight in zip(models[start : start + group], weights[start : start + group], strict=True):
            here.add_model(model, weight)
            elsewhere.add_model(model, weight)
        parts.add_part(elsewhere.part)
    assert here.count == parts.count == 100
    exact = np.average(np.array(models, dtype=float) - base, axis=0, weights=weights)
    one, other = here.mean(), parts.mean()
    assert (one == other).all()
    assert one == pytest.approx(exact, abs=1e-5)


def added_at_once(base, models, weights, group):
    """Group by group in the model's type, and those in float64: numpy's own sums, of whole vectors."""
    total, whole = np.zeros(len(base)), 0.0
    for start in range(0, len(models), group):
        unit, part, relative = weights[start], np.zeros_like(base), 0.0
        for model, weight in zip(models[start : start + group], weights[start : start + group], strict=True):
            part = part + (model - base) * (weight / unit)
            relative += weight / unit
        total, whole = total + part * unit, whole + unit * relative
    return (total / whole).astype(base.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("group", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 15])
def test_a_mean_has_the_bits_of_sums_of_whole_vectors_wherever_it_lies_in_memory(dtype, group, count):
    rng = np.random.default_rng([group, count])
    base = rng.normal(size=300_001).astype(dtype)  # of several blocks, and of odd length
    models = [base + rng.normal(size=len(base)).astype(dtype) for _ in range(count)]
    weights = [float(weight) for weight in rng.integers(1, 200, count)]
    total = Sum(base, 1e4, group)
    for model, weight in zip(models, weights, strict=True):
        with pytest.raises(PeerError):
            total.add_model(model * np.nan, weight)
        total.add_model(model, weight)
    mean = total.mean()
    assert mean.dtype == base.dtype
    assert mean.shape == base.shape
    assert (mean == added_at_once(base, models, weights, group)).all()


def test_a_part_that_comes_after_a_refused_update_is_not_written_over():
    base = np.zeros(10, np.float32)
    elsewhere, total = Group(base, 1e4), Sum(base, 1e4, 2)
    elsewhere.add_update(np.ones(10, np.float32))
    with pytest.raises(PeerError):
        total.add_update(np.full(10, np.nan, np.float32))
    total.add_part(elsewhere.part)
    total.add_update(np.full(10, 3, np.float32))
    assert total.mean().tolist() == [2.0] * 10


def test_arrays_that_nobody_else_has_are_let_go_one_by_one():
    size, count = 1 << 18, 16
    layout = Layout.of({f"w{place}": np.zeros(size, np.float32) for place in range(count)})
    tracemalloc.start()
    arrays = {f"w{place}": np.full(size, place, np.float32) for place in range(count)}
    before = tracemalloc.get_traced_memory()[0]
    flat = layout.drain(arrays)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert arrays == {}
    assert after < 1.1 * before
    assert (flat == np.repeat(np.arange(count), size)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_looked_at_block_by_block_is_seen_in_each(bad):
    for place in (0, 131_071, 131_072, 299_999):
        numbers = np.ones(300_000, np.float32)
        assert is_finite(numbers)
        assert largest(-2 * numbers) == 2
        numbers[place] = bad
        assert not is_finite(numbers)
        assert not largest(numbers) <= 1e30
