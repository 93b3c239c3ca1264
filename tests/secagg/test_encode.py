from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.randomness import seeded_rng
from tacit.secagg.encode import Encoding
from tacit.secagg.settings import Settings
from tests.secagg.federation import Federation

updates = st.lists(
    st.tuples(st.lists(st.floats(-2, 2), min_size=4, max_size=4), st.integers(1, 50)), min_size=1, max_size=6
)


@given(updates)
def test_the_weighted_mean_is_exact_to_the_grid(clients):
    encoding = Encoding(values=4, bound=2.0, clients=len(clients), largest_weight=50)
    total = sum(encoding.encode(np.array(x), w) for x, w in clients)
    decoded = encoding.decode(np.asarray(total), len(clients))
    weight = sum(w for _, w in clients)
    assert decoded.weight == weight
    exact = [math.fsum(x[i] * w for x, w in clients) / weight for i in range(4)]
    assert decoded.mean == pytest.approx(exact, abs=len(clients) * 2**-21)


@given(updates)
def test_the_plain_mean_is_exact_to_the_grid(clients):
    encoding = Encoding(values=4, bound=2.0, clients=len(clients))
    total = np.asarray(sum(encoding.encode(np.array(x)) for x, _ in clients))
    exact = [math.fsum(x[i] for x, _ in clients) / len(clients) for i in range(4)]
    assert encoding.decode(total, len(clients)).mean == pytest.approx(exact, abs=2**-20)


def test_the_smaller_ring_that_cannot_wrap_is_taken():
    assert Encoding(values=1, bound=1.0, clients=2000, fraction_bits=20).ring.modulus_bits == 32
    assert Encoding(values=1, bound=1.0, clients=2048, fraction_bits=20).ring.modulus_bits == 64
    assert Encoding(values=1, bound=1.0, clients=100, fraction_bits=20, largest_weight=50).ring.modulus_bits == 64
    with pytest.raises(ValueError, match=r"could sum to 1e\+12, more than 64 bits hold: lower fraction_bits, bound"):
        Encoding(values=1, bound=1e6, clients=10**6, fraction_bits=40)


@settings(max_examples=50)
@given(st.integers(1, 3000), st.floats(0.01, 100), st.integers(8, 30), st.one_of(st.none(), st.integers(1, 1000)))
def test_everybody_at_the_bound_does_not_wrap(clients, bound, bits, weight):
    encoding = Encoding(values=1, bound=bound, clients=clients, fraction_bits=bits, largest_weight=weight)
    one = encoding.encode(np.array([bound]), weight or 1)
    total = (one.astype(object) * clients) % 2**encoding.ring.modulus_bits
    decoded = encoding.decode(total.astype(one.dtype), clients)
    assert decoded.mean[0] == pytest.approx(bound, abs=2.0**-bits)


def test_stochastic_rounding_is_an_option():
    encoding = Encoding(values=1000, bound=1.0, clients=3, fraction_bits=4)
    x = np.full(1000, 0.3)
    assert len(np.unique(encoding.encode(x, rng=seeded_rng(1)))) == 2
    assert len(np.unique(encoding.encode(x))) == 1


def test_through_the_protocol():
    encoding = Encoding(values=5, bound=1.0, clients=5, largest_weight=100)
    rng = np.random.default_rng(3)
    data = {i: (rng.uniform(-1, 1, 5), int(rng.integers(1, 100))) for i in range(5)}
    config = Settings(5, encoding.columns, modulus_bits=encoding.ring.modulus_bits)
    fed = Federation(config, {i: encoding.encode(x, w) for i, (x, w) in data.items()})
    result = fed.aggregate()
    decoded = encoding.decode(result.words, len(result.survivors))
    assert decoded.mean == pytest.approx(
        np.average([x for x, _ in data.values()], axis=0, weights=[w for _, w in data.values()]), abs=1e-5
    )


def test_what_is_out_of_range_is_an_error_never_clipped():
    encoding = Encoding(values=2, bound=1.0, clients=3, largest_weight=10)
    for values, weight, message in (
        ([1.1, 0.0], 1, "values reach 1.1, the encoding is made for 1: clip them first"),
        ([math.nan, 0.0], 1, "NaN"),
        ([0.0], 1, "vector of 2"),
        ([0.0, 0.0], 0, r"weight must be a whole number in 1 \.\. 10, got 0"),
        ([0.0, 0.0], 11, "got 11"),
        ([0.0, 0.0], 1.9, "got 1.9"),
    ):
        with pytest.raises(ValueError, match=message):
            encoding.encode(values, weight)
    with pytest.raises(ValueError, match="has no weights, got 2"):
        Encoding(values=1, bound=1.0, clients=3).encode([0.5], 2)


def test_an_impossible_sum_is_a_clients_fault():
    encoding = Encoding(values=2, bound=1.0, clients=3, largest_weight=10)
    words = encoding.encode([1.0, 0.5], 5)
    with pytest.raises(PeerError, match="1 weights sum to 11"):
        encoding.decode(words + np.array([0, 0, 6], words.dtype), 1)
    with pytest.raises(PeerError, match="more than it may"):
        encoding.decode(words + np.array([2**30, 0, 0], words.dtype), 1)
    with pytest.raises(PeerError, match="more than it may"):
        encoding.decode(words + np.array([2**22, 0, 0], words.dtype), 1)  # within what three could reach, not one
    with pytest.raises(ValueError, match="words must be 3"):
        encoding.decode(words[:2], 1)
    with pytest.raises(ValueError, match="words must be 3 of uint32"):
        encoding.decode(words.astype(np.uint64), 1)
    for vectors in (0, 4):
        with pytest.raises(ValueError, match=rf"vectors must be in 1 \.\. 3, got {vectors}"):
            encoding.decode(words, vectors)


@pytest.mark.parametrize(
    "keys",
    [{"bound": 0.0}, {"bound": math.inf}, {"values": 0}, {"clients": 0}, {"largest_weight": 0}, {"fraction_bits": 900}],
)
def test_bad_encodings_are_refused(keys):
    with pytest.raises(ValueError, match="must be"):
        Encoding(**({"values": 1, "bound": 1.0, "clients": 3} | keys))


@pytest.mark.parametrize("most", [pytest.param(None, marks=pytest.mark.slow), 9])
def test_a_long_update_is_encoded_in_little_memory_besides_its_words(most):
    update = np.random.default_rng(1).uniform(-1, 1, 1_000_001).astype(np.float32)
    encoding = Encoding(len(update), 1.0, 10, largest_weight=most)
    tracemalloc.start()
    words = encoding.encode(update, most or 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = np.rint(update.astype(np.float64) * (most or 1) * 2**20).astype(np.int64) % 2**encoding.ring.modulus_bits
    assert (words[: len(update)] == expected.astype(words.dtype)).all()
    assert words[len(update) :].tolist() == ([most] if most else [])
    assert peak < words.nbytes + 4_000_000
    assert encoding.decode(words, 1).mean == pytest.approx(update, abs=2**-20)
