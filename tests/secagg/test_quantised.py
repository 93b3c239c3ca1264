"""Updates of a few bits: rounding without bias, sums against Python integers, clips, weights, bytes."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.randomness import seeded_rng
from tacit.secagg.messages import Masked
from tacit.secagg.quantised import QuantisedEncoding
from tests.secagg.federation import Federation


@given(
    bits=st.integers(4, 32),
    clients=st.integers(1, 10**6),
    clip=st.floats(1e-6, 1e6),
    weight=st.none() | st.integers(1, 10**9),
)
def test_the_largest_sum_fits_the_ring_and_no_smaller_one_would(bits, clients, clip, weight):
    encoding = QuantisedEncoding(1, clip, clients, bits, weight)
    largest = clients * (2 ** (bits - 1) - 1)
    assert largest <= 2 ** (encoding.modulus_bits - 1) - 1
    assert encoding.modulus_bits == 8 or largest > 2 ** (encoding.modulus_bits - 2) - 1
    assert encoding.modulus_bits <= max(8, bits + math.ceil(math.log2(clients)))
    one = encoding.encode([clip], weight or 1)
    total = [int(word) * clients % 2**encoding.modulus_bits for word in one]
    decoded = encoding.decode(np.array(total, dtype=one.dtype), clients)
    assert decoded.mean == pytest.approx([clip])
    assert decoded.weight == clients * (weight or 1)


@settings(max_examples=50)
@given(data=st.data(), bits=st.integers(4, 20), clients=st.integers(1, 9), most=st.none() | st.integers(1, 5000))
def test_a_sum_is_that_of_the_rounded_numbers(data, bits, clients, most):
    encoding = QuantisedEncoding(4, 0.5, clients, bits, most)
    numbers = st.lists(st.floats(-2, 2), min_size=4, max_size=4)
    updates = data.draw(st.lists(numbers, min_size=clients, max_size=clients))
    weights = data.draw(st.lists(st.integers(1, most or 1), min_size=clients, max_size=clients))
    words = [
        encoding.encode(update, weight, seeded_rng(i))
        for i, (update, weight) in enumerate(zip(updates, weights, strict=True))
    ]
    ring = 2**encoding.modulus_bits
    total = [sum(int(word) for word in column) % ring for column in zip(*words, strict=True)]
    decoded = encoding.decode(np.array(total, dtype=words[0].dtype), clients)
    assert decoded.weight == sum(weights)
    levels = 2 ** (bits - 1) - 1
    for column in range(4):
        sent = [int(word[column]) for word in words]
        signed = [word - ring if word >= ring // 2 else word for word in sent]
        for number, update, weight in zip(signed, updates, weights, strict=True):
            wanted = min(0.5, max(-0.5, update[column])) / 0.5 * levels * weight / (most or 1)
            assert abs(number - wanted) < 1 + 1e-9 * levels
            assert abs(number) <= levels
        mean = Fraction(sum(signed)) * (most or 1) / sum(weights) * Fraction(0.5) / levels
        assert decoded.mean[column] == pytest.approx(float(mean), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("value", "weight"), [(0.0371, 20), (-0.0371, 20), (0.09, 7), (-0.0001, 1)])
def test_rounding_is_right_on_average(value, weight):
    count = 400_000
    encoding = QuantisedEncoding(count, 0.1, 10, 8, 20)
    words = encoding.encode(np.full(count, value), weight, seeded_rng(5))
    numbers = encoding.signed(words)
    wanted = value / 0.1 * 127 * weight / 20
    assert set(np.unique(numbers)) == {math.floor(wanted), math.floor(wanted) + 1}
    # Seven standard deviations of the mean of numbers that lie within one step: seeded, and at most once in 10^11.
    assert numbers.mean() == pytest.approx(wanted, abs=7 * 0.5 / math.sqrt(count))


def test_numbers_beyond_the_clip_are_clipped_and_counted():
    encoding = QuantisedEncoding(5, 0.5, 3, 8)
    update = [0.6, -7.0, 0.5, -0.5, 0.1]
    assert encoding.beyond(update) == 2
    assert encoding.signed(encoding.encode(update)).tolist()[:4] == [127, -127, 127, -127]


def test_a_long_update_is_rounded_in_little_memory_besides_its_words():
    levels = np.random.default_rng(1).integers(-127, 128, 1_000_001)
    encoding = QuantisedEncoding(len(levels), 0.5, 100, 8, 20)
    update = (levels * 0.5 / 127).astype(np.float64)
    tracemalloc.start()
    words = encoding.encode(update, 20, seeded_rng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (encoding.signed(words) == levels).all()
    assert encoding.weight(words, 1) == 20
    assert peak < words.nbytes + 4_000_000


def test_a_hundred_clients_send_less_than_two_bytes_a_parameter_at_eight_bits():
    encoding = QuantisedEncoding(100_000, 0.1, 100, 8, 600)
    assert encoding.modulus_bits == 15
    assert encoding.settings(mode="semi_honest").vector_bytes / 100_000 == pytest.approx(1.875, abs=0.001)


def test_a_weighted_mean_through_the_protocol_with_dropouts():
    encoding = QuantisedEncoding(50, 1.0, 7, 12, 300)
    rng = np.random.default_rng(3)
    data = {i: (rng.uniform(-1, 1, 50), int(rng.integers(1, 301))) for i in range(7)}
    words = {i: encoding.encode(update, weight, seeded_rng(i)) for i, (update, weight) in data.items()}
    fed = Federation(encoding.settings(share_secrets_ratio=0.8), words, vanish_before={2: Masked})
    result = fed.aggregate()
    decoded = encoding.decode(result.words, len(result.survivors))
    kept = {i: each for i, each in data.items() if i != 2}
    total = sum(weight for _, weight in kept.values())
    expected = sum(update * weight for update, weight in kept.values()) / total
    assert decoded.weight == total
    assert decoded.mean == pytest.approx(expected, abs=6 * 300 / total * encoding.step)  # a step of each survivor


def test_a_sum_that_honest_clients_cannot_reach_is_a_clients_fault():
    encoding = QuantisedEncoding(2, 1.0, 3, 8, 10)
    honest = encoding.encode([0.0, 0.0], 10)
    with pytest.raises(PeerError, match="a client sent more than it may: the sum reaches 128 levels of 127"):
        encoding.decode(honest + np.array([128, 0, 0], honest.dtype), 1)
    with pytest.raises(PeerError, match="1 weights sum to 11, at most 10 can be"):
        encoding.decode(honest + np.array([0, 0, 1], honest.dtype), 1)
    with pytest.raises(PeerError, match="2 weights sum to -"):
        encoding.decode(honest - np.array([0, 0, 40], honest.dtype), 2)


@pytest.mark.parametrize(
    "keys", [{"clip": 0.0}, {"clip": math.inf}, {"bits": 3}, {"bits": 33}, {"values": 0}, {"clients": 0},
             {"largest_weight": 0}],
)  # fmt: skip
def test_bad_encodings_are_refused(keys):
    with pytest.raises(ValueError, match=r"must be"):
        QuantisedEncoding(**({"values": 3, "clip": 1.0, "clients": 3, "bits": 8} | keys))


@pytest.mark.parametrize(
    ("values", "weight"), [([1.0], 1), ([1.0, math.nan], 1), ([1.0, 0.0], 0), ([1.0, 0.0], 6), ([1.0, 0.0], 1.5)]
)
def test_bad_updates_are_refused(values, weight):
    with pytest.raises(ValueError, match=r"must be|NaN"):
        QuantisedEncoding(2, 1.0, 3, 8, 5).encode(values, weight)
