"""The oblivious store: chosen keys find their values, all others find noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import key_value
from tacit.randomness import seeded_rng


def drawn(rng, count):
    words = rng.integers(0, 2**32, size=(count, key_value.PLACES), dtype=np.uint32)
    return key_value.places(words, count), rng.integers(0, 2**64, size=(count, 2), dtype=np.uint64)


@given(st.integers(1, 3000), st.integers(0, 2**32))
@settings(max_examples=25)
def test_each_key_finds_its_value(count, seed):
    rng = seeded_rng(seed)
    places, values = drawn(rng, count)
    slots = key_value.encode(places, values, rng)
    assert slots.shape == (key_value.slot_count(count), 2)
    for row in range(0, count, 1 + count // 50):  # plain integers are the oracle
        found = [0, 0]
        for place in places[row].tolist():
            found = [have ^ slot for have, slot in zip(found, slots[place].tolist(), strict=True)]
        assert found == values[row].tolist()
    assert np.array_equal(key_value.decode(places, slots), values)


@pytest.mark.parametrize("count", [1, 13_653, 60_000])  # the middle one is where failure is likeliest
def test_peeling_succeeds_and_other_keys_find_noise(count):
    rng = seeded_rng(count)
    places, values = drawn(rng, count)
    values[:] = 0
    slots = key_value.encode(places, values, rng)
    assert not key_value.decode(places, slots).any()
    words = rng.integers(0, 2**32, size=(2000, key_value.PLACES), dtype=np.uint32)
    others = key_value.decode(key_value.places(words, count), slots)
    assert others.any(axis=1).all()


def test_slots_are_uniform_where_the_values_are():
    rng = seeded_rng(1)
    places, values = drawn(rng, 20_000)
    bits = np.unpackbits(key_value.encode(places, values, rng).view(np.uint8), axis=1).astype(float)
    deviations = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(bits))  # standard normal, for each of 128 bits
    assert np.abs(deviations).max() < 5


def test_the_same_keys_twice_make_different_slots():
    rng = seeded_rng(2)
    places, values = drawn(rng, 10)
    assert not np.array_equal(key_value.encode(places, values, rng), key_value.encode(places, values, rng))


def test_every_place_of_a_key_lies_in_its_own_fifth():
    places, _ = drawn(seeded_rng(3), 1000)
    fifth = key_value.slot_count(1000) // 5
    assert np.array_equal(places // fifth, np.broadcast_to(np.arange(5), places.shape))


def test_a_key_that_comes_twice_cannot_be_stored():
    rng = seeded_rng(4)
    places, values = drawn(rng, 5)
    places[3] = places[1]
    with pytest.raises(RuntimeError, match="one came twice"):
        key_value.encode(places, values, rng)
