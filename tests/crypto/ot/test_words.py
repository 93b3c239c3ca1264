"""Words modulo 2^64 and 2^128: plain integers are the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.ot.words import add, cut, low_bytes, negative, of_low_bytes, shifted, subtract, times, total

EDGES = st.sampled_from([0, 1, 2**63, 2**64 - 1, 2**64, 2**127, 2**128 - 2**64, 2**128 - 1])
NUMBERS = EDGES | st.integers(0, 2**128 - 1)


def array(values, bits):
    if bits == 64:
        return np.array([value % 2**64 for value in values], dtype=np.uint64)
    return np.array([[value % 2**64, value >> 64] for value in values], dtype=np.uint64).reshape(-1, 2)


def ints(words, bits):
    if bits == 64:
        return [int(word) for word in words]
    return [int(low) | int(high) << 64 for low, high in words]


@pytest.mark.parametrize("bits", [64, 128])
@given(data=st.data())
def test_arithmetic_is_that_of_integers(bits, data):
    pairs = data.draw(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    a, b = array(first, bits), array(second, bits)
    assert ints(add(a, b, bits), bits) == [(x + y) % 2**bits for x, y in pairs]
    assert ints(subtract(a, b, bits), bits) == [(x - y) % 2**bits for x, y in pairs]
    assert ints(negative(a, bits), bits) == [-x % 2**bits for x in first]
    assert ints(total(np.stack([a, b, b], axis=1), bits), bits) == [(x + 2 * y) % 2**bits for x, y in pairs]
    assert ints(total(np.stack([a, b, b]), bits, axis=0), bits) == [(x + 2 * y) % 2**bits for x, y in pairs]
    places = data.draw(st.integers(0, 63))
    assert ints(shifted(a, places, bits), bits) == [(x << places) % 2**bits for x in first]
    factors = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(pairs), max_size=len(pairs)))
    expected = [x * factor % 2**bits for x, factor in zip(first, factors, strict=True)]
    assert ints(times(a, np.array(factors, dtype=np.uint64), bits), bits) == expected
    assert ints(a, bits) == [x % 2**bits for x in first]


@pytest.mark.parametrize("bits", [64, 128])
def test_products_carry_from_half_to_half(bits):
    draw = np.random.default_rng(1)
    values = [int.from_bytes(draw.bytes(16), "little") for _ in range(500)]
    factors = draw.integers(0, 2**32, 500, dtype=np.uint64)
    expected = [value * int(factor) % 2**bits for value, factor in zip(values, factors, strict=True)]
    assert ints(times(array(values, bits), factors, bits), bits) == expected


def test_a_block_is_cut_to_its_low_word():
    blocks = np.arange(6, dtype=np.uint64).reshape(3, 2)
    assert cut(blocks, 64).tolist() == [0, 2, 4]
    assert cut(blocks, 128) is blocks


def test_another_width_is_refused():
    with pytest.raises(ValueError, match="0 to 63 bits, got 64"):
        shifted(np.zeros(1, np.uint64), 64, 64)
    with pytest.raises(ValueError, match="64 or 128 bits, got 32"):
        add(np.zeros(1, np.uint64), np.zeros(1, np.uint64), 32)
    with pytest.raises(ValueError, match="1 to 8 bytes"):
        low_bytes(np.zeros(1, np.uint64), 9)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 8))
def test_low_bytes_are_the_words_modulo_a_power_of_256(values, width):
    words = np.array(values, dtype=np.uint64)
    data = low_bytes(words, width)
    assert data == b"".join((value % 256**width).to_bytes(width, "little") for value in values)
    assert of_low_bytes(data, width).tolist() == [value % 256**width for value in values]
