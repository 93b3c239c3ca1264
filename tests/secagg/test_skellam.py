"""Distributed DP: mean and variance under dropouts, epsilon against the formula, the norm that is promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.dp.accounting import Ledger
from tacit.dp.release import SkellamEvent
from tacit.randomness import seeded_rng
from tacit.secagg.messages import Masked
from tacit.secagg.rotation import rotate
from tacit.secagg.skellam import SkellamEncoding
from tests.dp.exact import skellam_masses
from tests.secagg.federation import Federation

ROTATION = bytes(16)


@pytest.mark.parametrize("survivors", [40, 50])
def test_mean_and_variance_of_the_aggregate_under_dropouts(survivors):
    encoding = SkellamEncoding(values=500, clip=1.0, clients=50, fewest=40, noise_multiplier=1.0)
    rng = seeded_rng(4)
    x = np.random.default_rng(2).normal(size=500)
    x *= 0.8 / np.linalg.norm(x)  # below the clip
    rows = []
    for _ in range(20):
        total = sum(encoding.encode(x, ROTATION, rng).astype(np.int64) for _ in range(survivors))
        rows.append(encoding.decode(np.asarray(total).astype(np.uint32), survivors, ROTATION) - x)
    errors = np.array(rows)
    rounding = survivors / 4  # at most a quarter of a squared step each
    low = math.sqrt(encoding.share_variance * survivors) / (encoding.scale * survivors)
    high = math.sqrt(encoding.share_variance * survivors + rounding) / (encoding.scale * survivors)
    assert low * 0.97 < errors.std() < high * 1.03
    assert abs(errors.mean()) < 5 * high / math.sqrt(errors.size)
    # The noise of the fewest survivors is that of the claim.
    assert encoding.share_variance * encoding.fewest == pytest.approx(encoding.central_variance)


def test_colluders_noise_is_not_counted_on():
    plain = SkellamEncoding(values=10, clip=1.0, clients=50, fewest=40, noise_multiplier=1.0)
    wary = SkellamEncoding(values=10, clip=1.0, clients=50, fewest=40, noise_multiplier=1.0, colluders=10)
    assert wary.share_variance * 30 == pytest.approx(plain.share_variance * 40)
    assert wary.event().variance == plain.event().variance


@settings(max_examples=60)
@given(st.integers(1, 300), st.floats(0.01, 100), st.integers(0, 2**30), st.sampled_from([None, 5, 8]))
def test_every_rounded_vector_keeps_the_promised_norm(values, clip, seed, bits):
    encoding = SkellamEncoding(values=values, clip=clip, clients=3, fewest=3, noise_multiplier=0.5, bits=bits)
    x = np.random.default_rng(seed).normal(size=values)
    clipped = np.r_[x / max(np.linalg.norm(x), 1e-9) * clip, np.zeros(encoding.columns - values)]
    scaled = rotate(clipped, ROTATION) * encoding.scale
    rounded = encoding._round(scaled, seeded_rng(seed))
    assert math.sqrt(sum(int(v) ** 2 for v in rounded)) <= encoding.l2_sensitivity
    assert sum(abs(int(v)) for v in rounded) <= encoding.event().l1_sensitivity * (1 + 1e-12)
    assert bits is not None or encoding.l2_sensitivity <= encoding.scale * clip * 1.2


def formula(alpha: int, event: SkellamEvent) -> float:
    d2, d1, mu = event.l2_sensitivity, event.l1_sensitivity, event.variance
    return alpha * d2**2 / (2 * mu) + min(((2 * alpha - 1) * d2**2 + 6 * d1) / (4 * mu**2), 3 * d1 / (2 * mu))


def test_epsilon_is_that_of_the_formula_at_whole_orders():
    event = SkellamEvent(400.0, 10.0, 40.0, "client", "zero-out")
    ledger = Ledger("client", "zero-out")
    ledger.spend(event, 5)
    orders = [*range(2, 65), 128, 256, 512, 1024]
    curve = [5 * formula(alpha, event) for alpha in orders]
    expected = rdp_privacy_accountant.compute_epsilon(orders, curve, 1e-5)[0]
    assert ledger.epsilon(1e-5, "rdp") <= expected
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(expected, rel=0.02)
    for method in ("pld", "zcdp"):
        with pytest.raises(ValueError, match="use method='rdp'"):
            ledger.epsilon(1e-5, method)


@pytest.mark.parametrize(("variance", "shift"), [(4.0, 1), (50.0, 3), (400.0, 10)])
def test_the_exact_divergence_is_within_the_bound(variance, shift):
    reach = int(14 * math.sqrt(variance)) + 2 * shift + 20
    masses = skellam_masses(variance, reach)
    event = SkellamEvent(variance, shift, shift, "client", "zero-out")
    one, other = masses[shift:], masses[:-shift]
    kept = (one > 0) & (other > 0)
    for alpha in (2, 3, 6):
        exact = math.log(math.fsum(one[kept] ** alpha * other[kept] ** (1 - alpha))) / (alpha - 1)
        assert exact <= formula(alpha, event) * (1 + 1e-9)
        assert exact >= 0.8 * alpha * shift**2 / (2 * variance)


def test_a_budget_is_met_and_not_wasted():
    encoding = SkellamEncoding.for_budget(
        values=1000, clip=1.0, clients=100, fewest=80, colluders=5, epsilon=8.0, delta=1e-5, rounds=10
    )
    ledger = Ledger("client", "zero-out")
    ledger.spend(encoding.event(), 10)
    assert 7.99 < ledger.epsilon(1e-5, "rdp") <= 8.0


def test_the_wrap_probability_is_stated_and_part_of_the_slack():
    encoding = SkellamEncoding(values=1000, clip=1.0, clients=100, fewest=80, noise_multiplier=1.0)
    assert encoding.log2_wrap_probability < -60
    assert encoding.event().log2_slack >= encoding.log2_wrap_probability
    assert encoding.event().log2_slack < -200
    wide = SkellamEncoding(values=2**20, clip=1.0, clients=200_000, fewest=100_000, noise_multiplier=1.0)
    assert wide.modulus_bits == 64


def test_too_few_survivors_are_not_decoded():
    encoding = SkellamEncoding(values=10, clip=1.0, clients=5, fewest=4, noise_multiplier=1.0)
    words = encoding.encode(np.zeros(10), ROTATION)
    with pytest.raises(ValueError, match="3 survivors, the noise is sized for 4 or more"):
        encoding.decode(words, 3, ROTATION)


def test_through_the_protocol_with_the_minimum_enforced():
    encoding = SkellamEncoding(values=20, clip=1.0, clients=6, fewest=5, noise_multiplier=0.01)
    config = encoding.settings(share_secrets_ratio=1.0)
    rng = np.random.default_rng(1)
    data = {i: rng.normal(size=20) for i in range(6)}
    words = {i: encoding.encode(x, ROTATION) for i, x in data.items()}
    fed = Federation(config, words, vanish_before={0: Masked})
    result = fed.aggregate()
    clipped = [x / max(1.0, float(np.linalg.norm(x))) for i, x in data.items() if i]
    assert encoding.decode(result.words, 5, ROTATION) == pytest.approx(np.mean(clipped, axis=0), abs=0.05)
    few = Federation(config, words, vanish_before={0: Masked, 1: Masked})
    few.run()
    assert "4 clients uploaded, 5 are needed" in few.server.reason


@pytest.mark.parametrize(
    "keys",
    [
        {"clip": 0.0}, {"noise_multiplier": 0.0}, {"noise_multiplier": math.nan}, {"values": 0}, {"fewest": 6},
        {"colluders": 4}, {"colluders": -1},
    ],
)  # fmt: skip
def test_bad_encodings_are_refused(keys):
    base = {"values": 10, "clip": 1.0, "clients": 5, "fewest": 4, "noise_multiplier": 1.0}
    with pytest.raises(ValueError, match=r"must be|need"):
        SkellamEncoding(**(base | keys))


def test_other_bad_input_is_refused():
    encoding = SkellamEncoding(values=10, clip=1.0, clients=5, fewest=4, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="vector of 10"):
        encoding.encode(np.zeros(9), ROTATION)
    with pytest.raises(ValueError, match="16 bytes or more"):
        encoding.encode(np.zeros(10), b"short")
    with pytest.raises(ValueError, match="NaN"):
        encoding.encode(np.full(10, math.nan), ROTATION)
    with pytest.raises(ValueError, match="words must be 16 of 32 bits"):
        encoding.decode(np.zeros(16, np.uint64), 5, ROTATION)
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        SkellamEncoding.for_budget(values=1, clip=1.0, clients=3, fewest=3, epsilon=1.0, delta=1e-5, rounds=0)


SMALL = {"values": 650, "clip": 1.0, "clients": 100, "fewest": 80, "colluders": 5}


def test_an_exact_ring_is_as_wide_as_the_sums_need():
    usual = SkellamEncoding(**SMALL, noise_multiplier=1.0)
    exact = SkellamEncoding(**SMALL, noise_multiplier=1.0, bits="exact")
    assert usual.modulus_bits == 32
    assert exact.modulus_bits < 32
    assert exact.log2_wrap_probability < -60
    assert exact._log2_wrap(exact.modulus_bits - 1) >= -60
    assert exact.scale == usual.scale
    assert exact.event().variance == usual.event().variance
    assert exact.event().l2_sensitivity == usual.event().l2_sensitivity


@pytest.mark.parametrize("bits", [7, 8, 10, 16])
def test_with_bits_rounding_is_as_fine_as_the_ring_allows(bits):
    encoding = SkellamEncoding.for_budget(**SMALL, epsilon=8.0, delta=1e-5, rounds=10, bits=bits)
    assert encoding.modulus_bits == bits + 7
    assert encoding.log2_wrap_probability <= -60
    assert 0.5 <= encoding.fineness <= 16
    assert encoding.columns == 672  # and not the next power of two
    assert encoding.scale == pytest.approx(encoding.fineness * math.sqrt(672))
    ledger = Ledger("client", "zero-out")
    ledger.spend(encoding.event(), 10)
    assert 7.99 < ledger.epsilon(1e-5, "rdp") <= 8.0
    # Rounding to steps of 1 / fineness adds a quarter of their squares to the norm, and little more.
    norm = encoding.l2_sensitivity / encoding.scale
    assert math.sqrt(1 + 1 / (4 * encoding.fineness**2)) <= norm < 1.02 * math.sqrt(1 + 1 / (4 * encoding.fineness**2))


def test_eight_bits_add_next_to_nothing_to_the_noise_of_a_small_model():
    usual = SkellamEncoding.for_budget(**SMALL, epsilon=8.0, delta=1e-5, rounds=10)
    few = SkellamEncoding.for_budget(**SMALL, epsilon=8.0, delta=1e-5, rounds=10, bits=8)
    noise = [math.sqrt(each.share_variance) / each.scale for each in (usual, few)]
    assert noise[0] <= noise[1] < 1.01 * noise[0]
    assert few.settings(mode="semi_honest").vector_bytes * 8 == 15 * few.columns


@pytest.mark.parametrize("bits", ["exact", 8, 10])
@pytest.mark.parametrize("values", [650, 7850])
def test_the_epsilon_of_few_bits_is_that_of_the_formula(values, bits):
    """Everything but the multiplier and the fineness is computed again, from the papers, in plain Python."""
    rounds, delta = 10, 1e-5
    encoding = SkellamEncoding.for_budget(
        **SMALL | {"values": values}, epsilon=8.0, delta=delta, rounds=rounds, bits=bits
    )
    d, norm = encoding.columns, encoding.scale * encoding.clip
    # Kairouz, Liu, Steinke 2021, Proposition 22 with beta = e^-0.5
    squares = min(norm**2 + d / 4 + norm + math.sqrt(d) / 2, (norm + math.sqrt(d)) ** 2)
    variance = encoding.share_variance * (80 - 5)  # of the noise of the honest among the fewest survivors
    assert math.sqrt(variance / squares) == pytest.approx(encoding.noise_multiplier)
    event = SkellamEvent(variance, math.sqrt(squares), min(squares, math.sqrt(d * squares)), "client", "zero-out")
    orders = [*range(2, 65), 128, 256, 512, 1024]
    curve = [rounds * formula(order, event) for order in orders]
    least = rdp_privacy_accountant.compute_epsilon(orders, curve, delta * (1 - 1e-9))[0]
    assert 7.99 < least <= 8.0 * (1 + 1e-9)


@pytest.mark.parametrize(("bits", "epsilon"), [(7, 0.5), (8, 0.5), (8, 8.0), ("exact", 2.0)])
def test_the_exact_delta_of_one_column_is_within_the_claim(bits, epsilon):
    """The divergence of the sum itself, modulo the ring, for every vector that rounding may give; half of the variance
    does not keep the claim."""
    encoding = SkellamEncoding.for_budget(
        values=1, clip=1.0, clients=20, fewest=16, colluders=3, epsilon=epsilon, delta=1e-5, bits=bits
    )
    steps = math.floor(encoding.l2_sensitivity)

    def delta(variance: float) -> float:
        reach = int(14 * math.sqrt(variance)) + steps + 20
        places, without = np.arange(-reach, reach + 1), np.zeros(2**encoding.modulus_bits)
        np.add.at(without, places % len(without), stats.skellam.pmf(places, variance / 2, variance / 2))
        shifted = [np.roll(without, steps), np.roll(without, -steps), np.roll(without, steps // 2)]
        return max(float(np.maximum(one - math.exp(epsilon) * without, 0).sum()) for one in shifted)

    assert delta(encoding.share_variance * (16 - 3)) <= 1e-5
    assert delta(encoding.share_variance * (16 - 3) / 2) > 1e-5


@pytest.mark.parametrize("bits", ["exact", 8])
def test_mean_and_variance_of_the_aggregate_at_few_bits(bits):
    encoding = SkellamEncoding(values=500, clip=1.0, clients=50, fewest=40, noise_multiplier=1.0, bits=bits)
    rng = seeded_rng(4)
    x = np.random.default_rng(2).normal(size=500)
    x *= 0.8 / np.linalg.norm(x)
    rows = []
    for _ in range(20):
        total = encoding.encode(x, ROTATION, rng)
        for _ in range(49):
            total += encoding.encode(x, ROTATION, rng)
        rows.append(encoding.decode(total, 50, ROTATION))
    errors = np.array(rows) - x
    rounding = 50 / 4 / encoding.scale**2 / 50**2  # at most
    noise = 50 * encoding.share_variance / encoding.scale**2 / 50**2
    deviation = 6 * math.sqrt(2 / errors.size)  # seeded
    assert noise * (1 - deviation) < errors.var() < (noise + rounding) * (1 + deviation)
    assert abs(errors.mean()) < 6 * math.sqrt((noise + rounding) / errors.size)


def test_a_ring_that_is_too_small_for_the_noise_is_refused():
    with pytest.raises(ValueError, match=r"leaves a ring of 11 bits, however coarsely updates are rounded: take more"):
        SkellamEncoding.for_budget(**SMALL, epsilon=8.0, delta=1e-5, rounds=10, bits=4)


def test_clients_that_all_point_the_same_way_do_not_leave_a_ring_of_few_bits():
    """The rotation spreads what they have in common: no column comes near the end of the ring."""
    encoding = SkellamEncoding(values=500, clip=1.0, clients=50, fewest=40, noise_multiplier=0.1, bits=8)
    assert encoding.clients * encoding.scale * encoding.clip > 2 ** (encoding.modulus_bits - 1)  # all in one column
    one = np.zeros(500)
    one[3] = 1.0
    rotation = bytes(range(16))
    total = sum((encoding.encode(one, rotation) for _ in range(49)), start=encoding.encode(one, rotation))
    assert encoding.decode(total, 50, rotation) == pytest.approx(one, abs=0.1)
