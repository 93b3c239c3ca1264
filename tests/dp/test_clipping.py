from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.dp.clipping import clip_l1, clip_l2


def squared_l2(arrays) -> Fraction:
    return sum((Fraction(float(x)) ** 2 for a in arrays for x in np.asarray(a).ravel()), Fraction(0))


def l1(arrays) -> Fraction:
    return sum((abs(Fraction(float(x))) for a in arrays for x in np.asarray(a).ravel()), Fraction(0))


def arrays_of(dtype):
    width = 32 if dtype == np.float32 else 64
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
    return st.lists(hnp.arrays(dtype, st.integers(1, 12), elements=finite), min_size=1, max_size=3)


vectors = st.one_of(arrays_of(np.float32), arrays_of(np.float64))
bounds = st.one_of(st.floats(1e-20, 1e20), st.floats(0.01, 100))


@given(vectors, bounds)
def test_the_exact_l2_norm_never_exceeds_the_bound(arrays, bound):
    clip_l2(arrays, bound)
    assert squared_l2(arrays) <= Fraction(bound) ** 2


@given(vectors, bounds)
def test_the_exact_l1_norm_never_exceeds_the_bound(arrays, bound):
    clip_l1(arrays, bound)
    assert l1(arrays) <= Fraction(bound)


@given(hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e3, 1e3)), st.floats(1e-3, 1e3))
def test_clipping_scales_and_loses_little(vector, bound):
    before = vector.copy()
    norm = float(np.linalg.norm(before))
    found = clip_l2(vector, bound)
    assert found.norm == pytest.approx(norm, rel=1e-12)
    if norm < bound * (1 - 1e-9):
        assert (vector == before).all()
        assert found.factor == 1
    elif norm > bound:
        assert vector == pytest.approx(before * (bound / norm), rel=1e-10, abs=1e-300)


@given(vectors, bounds)
def test_clipping_twice_changes_nothing_more(arrays, bound):
    clip_l2(arrays, bound)
    once = [a.copy() for a in arrays]
    assert clip_l2(arrays, bound).factor == 1
    assert all((a == b).all() for a, b in zip(arrays, once, strict=True))


def test_a_list_is_one_vector():
    parts = [np.full(3, 2.0), np.full((2, 2), 2.0, dtype=np.float32)]
    clip_l2(parts, 1.0)
    assert math.sqrt(squared_l2(parts)) == pytest.approx(1.0, rel=1e-6)
    assert parts[0][0] == pytest.approx(parts[1][0, 0], rel=1e-6)


def test_any_layout_is_clipped_in_place():
    matrix = np.ones((6, 8))
    view = matrix[::2, 1::3]
    clip_l2(view, 0.5)
    assert math.sqrt(squared_l2([view])) == pytest.approx(0.5, rel=1e-9)
    assert matrix[1, 0] == 1
    turned = np.asfortranarray(np.ones((5, 4), dtype=np.float32)).T
    clip_l1(turned, 1.0)
    assert float(l1([turned])) == pytest.approx(1.0, rel=1e-5)


def test_no_copy_is_made():
    vector = np.ones(4_000_000, dtype=np.float32)
    tracemalloc.start()
    clip_l2(vector, 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < vector.nbytes / 50


@pytest.mark.parametrize(
    ("vector", "bound", "message"),
    [
        (np.array([]), 1.0, "empty"),
        ([], 1.0, "empty"),
        (np.array([1.0, math.nan]), 1.0, "NaN or infinite"),
        (np.array([1.0, math.inf]), 1.0, "NaN or infinite"),
        (np.array([math.inf, -math.inf], dtype=np.float32), 1.0, "NaN or infinite"),
        (np.ones(3), 0.0, "bound must be a finite number above 0, got 0.0"),
        (np.ones(3), -1.0, "bound must be"),
        (np.ones(3), math.nan, "bound must be"),
        (np.ones(3), math.inf, "bound must be"),
        (np.ones(3, dtype=np.float32), 1e-40, "at least 8"),
        (np.ones(3, dtype=int), 1.0, "float32 and float64"),
    ],
)
def test_bad_input_is_refused_and_left_alone(vector, bound, message):
    for clip in (clip_l1, clip_l2):
        with pytest.raises(ValueError, match=message):
            clip(vector, bound)


def test_a_read_only_array_is_refused():
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="pass a copy"):
        clip_l2(frozen, 1.0)


def test_zero_stays_zero():
    assert clip_l2(np.zeros(3), 1.0).norm == 0


@pytest.mark.parametrize(
    ("value", "bound"), [(1.1e47, 1e-90), (2e54, 4.7e-99), (1e287, 1e-36), (1.7e308, 1e-100), (1e300, 1e-5)]
)
def test_factors_smaller_than_any_float(value, bound):
    for clip, norm in ((clip_l2, lambda v: squared_l2([v])), (clip_l1, lambda v: l1([v]) ** 2)):
        vector = np.array([value, -value / 3])
        clip(vector, bound)
        assert norm(vector) <= Fraction(bound) ** 2
        assert norm(vector) >= (Fraction(bound) * Fraction(999, 1000)) ** 2


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int64])
def test_a_numpy_bound_is_as_good_as_a_python_one(kind):
    rng = np.random.default_rng(1)
    for _ in range(200):
        vector = rng.normal(size=5) * 10
        bound = kind(rng.integers(1, 5))
        clip_l2(vector, bound)
        assert squared_l2([vector]) <= Fraction(float(bound)) ** 2


def test_a_sum_that_overflows_is_clipped_too():
    parts = [np.array([1e308]), np.array([1e308])]
    clip_l1(parts, 1.0)
    assert l1(parts) <= 1


def test_plain_lists_are_refused():
    with pytest.raises(ValueError, match="pass a numpy array"):
        clip_l2([3.0, 4.0], 1.0)


def test_long_vectors_keep_the_bound():
    """Where the error of the summed squares matters more than that of the products."""
    vector = np.full(3_000_000, 1 / 3)
    clip_l2(vector, 1.0)
    value = Fraction(float(vector[0]))
    assert (vector == vector[0]).all()
    assert value**2 * len(vector) <= 1
