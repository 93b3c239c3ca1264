import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_trees.protocol.rounding import most_rows, pack, unpack

halves = st.tuples(st.integers(-(2**15), 2**15), st.integers(0, 2**16 - 1))


@given(st.lists(halves, max_size=50))
def test_sums_of_words_are_sums_of_both_halves(pairs):
    words = np.array([(g << 32) + h for g, h in pairs], dtype=np.int64)
    g, h = unpack(words.sum())
    assert (int(g), int(h)) == (sum(g for g, _ in pairs), sum(h for _, h in pairs))


@given(st.integers(-(2**30), 2**30), st.integers(-(2**31), 2**31 - 1))
def test_sums_of_h_below_zero_are_read_with_their_sign(g, h):
    assert [int(part) for part in unpack(np.array((g << 32) + h))] == [g, h]


@pytest.mark.parametrize("bits", [2, 8, 16])
@pytest.mark.parametrize("sign", [-1, 1])
def test_as_many_rows_as_allowed_do_not_overflow(bits, sign):
    rows = most_rows(bits)
    g, h = sign * (2 ** (bits - 1) - 1), 2**bits - 1
    total = np.array(rows * ((g << 32) + h)).astype(np.int64)
    assert [int(part) for part in unpack(total)] == [rows * g, rows * h]


@given(st.integers(2, 16), st.integers(0, 2**32))
def test_each_value_is_rounded_to_a_neighbour(bits, seed):
    rng = np.random.default_rng(seed)
    g, h = rng.normal(size=30), rng.uniform(size=30)
    packed = pack(g, h, bits, rng)
    for found, exact, unit, most in zip(
        unpack(packed.words), (g, h), (packed.gradient_unit, packed.hessian_unit), (bits - 1, bits), strict=True
    ):
        assert (np.abs(found * unit - exact) <= unit * (1 + 1e-9)).all()
        assert np.abs(found).max() == 2**most - 1


def test_rounding_has_the_value_as_its_mean():
    rng = np.random.default_rng(1)
    g = np.append(np.full(200_000, 0.3), 1.0)
    packed = pack(g, np.append(np.full(200_000, 0.55), 1.0), 2, rng)
    means = [part[:-1].mean() for part in unpack(packed.words)]
    # 0.3 of 1 level, 0.55 of 3: the standard deviation of a mean is at most 0.0012
    assert means == pytest.approx([0.3, 1.65], abs=0.01)


def test_zeros_stay_zeros():
    assert not pack(np.zeros(3), np.zeros(3), 8, np.random.default_rng(0)).words.any()


def test_what_cannot_be_packed_is_refused(monkeypatch):
    rng = np.random.default_rng(0)
    for bits in (1, 17):
        with pytest.raises(ValueError, match=f"bits: {bits} is not possible"):
            pack(np.ones(2), np.ones(2), bits, rng)
    with pytest.raises(ValueError, match="negative"):
        pack(np.ones(2), -np.ones(2), 8, rng)
    rows = most_rows(16) + 1
    with pytest.raises(ValueError, match=f"{rows} rows at 16 bits may overflow"):
        pack(np.ones(rows), np.ones(rows), 16, rng)
