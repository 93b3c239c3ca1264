"""Each mechanism's claim against the exact privacy of its mass function. Well-known wrong variants exceed theirs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.dp import mechanisms, noise
from tacit.dp.accounting import Ledger
from tacit.dp.gaussian import gaussian_delta, gaussian_sigma
from tacit.dp.release import ConcentratedEvent, GaussianEvent, PureEvent
from tacit.fixedpoint import Grid
from tacit.randomness import seeded_rng
from tests.dp.exact import delta_of_shift, gaussian_masses, laplace_masses


def test_discrete_laplace_meets_its_epsilon_exactly():
    epsilon, sensitivity = 1.3, 4
    masses = laplace_masses(epsilon / sensitivity, 400)
    ratios = np.abs(np.log(masses[sensitivity:] / masses[:-sensitivity]))
    event = mechanisms.discrete_laplace(np.zeros(1, int), l1_sensitivity=sensitivity, epsilon=epsilon).event
    assert event == PureEvent(epsilon, "vector", "replace-one")
    assert ratios.max() == pytest.approx(event.epsilon, rel=1e-12)


@pytest.mark.parametrize(("sigma", "shift"), [(1.0, 1), (2.5, 1), (3.0, 4), (40.0, 10)])
def test_a_discrete_gaussian_of_few_steps_is_priced_by_zcdp(sigma, shift):
    event = mechanisms.discrete_gaussian(np.zeros(1, int), l2_sensitivity=shift, sigma=sigma).event
    assert isinstance(event, ConcentratedEvent)
    ledger = Ledger("vector", "replace-one")
    ledger.spend(event)
    masses = gaussian_masses(sigma, math.ceil(15 * sigma) + shift)
    for epsilon in (0.1, 0.5, 1.0, 3.0):
        exact = delta_of_shift(masses, shift, epsilon)
        assert exact <= ledger.delta(epsilon, "zcdp")
        assert exact <= ledger.delta(epsilon, "rdp")
    # Renyi divergence of the shift, at every order, is at most rho times the order.
    one, other = masses[shift:], masses[:-shift]
    inside = (one > 0) & (other > 0)
    for order in (1.5, 2.0, 5.0):
        divergence = math.log(math.fsum(one[inside] ** order * other[inside] ** (1 - order))) / (order - 1)
        assert divergence <= event.rho * order * (1 + 1e-9)


def test_a_discrete_gaussian_of_one_step_is_not_within_the_gaussian_claim():
    masses = gaussian_masses(1.0, 40)
    excess = max(delta_of_shift(masses, 1, e) / gaussian_delta(1.0, e) for e in np.linspace(0.1, 6, 591))
    assert excess == pytest.approx(2.14, abs=0.01)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0])
def test_a_fine_discrete_gaussian_is_within_the_gaussian_claim(multiplier):
    sensitivity = 2000
    sigma = multiplier * sensitivity
    event = mechanisms.discrete_gaussian(np.zeros(1, int), l2_sensitivity=sensitivity, sigma=sigma).event
    assert isinstance(event, GaussianEvent)
    masses = gaussian_masses(sigma, math.ceil(12 * sigma) + sensitivity)
    for epsilon in (0.01, 0.5, 1.0, 4.0):
        exact = delta_of_shift(masses, sensitivity, epsilon)
        claim = gaussian_delta(event.noise_multiplier, epsilon)
        assert exact <= claim * (1 + 1e-9) + 1e-15
        assert exact >= claim * 0.98 - 1e-15  # tight


def test_two_coordinates_compose_within_the_claim():
    sigma, shift = 2.0, (1, 2)
    event = mechanisms.discrete_gaussian(np.zeros(2, int), l2_sensitivity=math.hypot(*shift), sigma=sigma).event
    ledger = Ledger("vector", "replace-one")
    ledger.spend(event)
    reach = 30
    line = gaussian_masses(sigma, reach)
    one = np.outer(line, line)
    other = np.zeros_like(one)
    other[shift[0] :, shift[1] :] = one[: -shift[0], : -shift[1]]
    for epsilon in (0.5, 1.5):
        assert np.maximum(0, one - math.exp(epsilon) * other).sum() <= ledger.delta(epsilon, "rdp")


def test_free_bits_cost_epsilon_each():
    epsilon = 0.7
    keep = 1 - float(noise.response_change(epsilon))
    event = mechanisms.randomized_response(np.zeros((5, 3), bool), epsilon_per_bit=epsilon).event
    worst = max(
        sum(
            math.log((keep if a == o else 1 - keep) / (keep if b == o else 1 - keep))
            for a, b, o in zip(x, y, out, strict=True)
        )
        for x in itertools.product((0, 1), repeat=3)
        for y in itertools.product((0, 1), repeat=3)
        for out in itertools.product((0, 1), repeat=3)
    )
    assert worst == pytest.approx(event.epsilon, rel=1e-12)
    assert event.epsilon == pytest.approx(3 * epsilon)


@pytest.mark.parametrize("k", [2, 4])
def test_one_hot_vectors_cost_epsilon_in_all(k):
    epsilon = 1.9
    keep = 1 - float(noise.response_change(epsilon / 2))
    event = mechanisms.unary_randomized_response(np.eye(k, dtype=int), epsilon=epsilon).event
    rows = np.eye(k, dtype=int).tolist()
    worst = max(
        sum(
            math.log((keep if a == o else 1 - keep) / (keep if b == o else 1 - keep))
            for a, b, o in zip(x, y, out, strict=True)
        )
        for x in rows
        for y in rows
        for out in itertools.product((0, 1), repeat=k)
    )
    assert worst == pytest.approx(event.epsilon, rel=1e-12)


@pytest.mark.parametrize("k", [2, 10])
def test_labels_cost_epsilon(k):
    epsilon = 1.1
    change = float(noise.response_change(epsilon, k))
    event = mechanisms.k_ary_randomized_response(np.arange(k), k=k, epsilon=epsilon).event
    assert math.log((1 - change) / (change / (k - 1))) == pytest.approx(event.epsilon, rel=1e-12)
    assert event.unit == "label"


def test_responses_have_the_right_frequencies():
    n, rng = 200_000, seeded_rng(5)
    bits = mechanisms.randomized_response(np.ones((n, 1), bool), epsilon_per_bit=1.0, rng=rng).value
    assert abs(bits.mean() - math.e / (1 + math.e)) < 0.006
    coins = mechanisms.randomized_response(np.ones((n, 1), np.uint8), epsilon_per_bit=0.0, rng=rng)
    assert coins.event.epsilon == 0
    assert abs(coins.value.mean() - 0.5) < 0.006
    labels = mechanisms.k_ary_randomized_response(np.full(n, 3), k=5, epsilon=1.0, rng=rng).value
    expected = np.full(5, 1 / (math.e + 4))
    expected[3] = math.e / (math.e + 4)
    assert np.abs(np.bincount(labels, minlength=5) / n - expected).max() < 0.006
    vectors = mechanisms.unary_randomized_response(np.tile([0, 1, 0], (n, 1)), epsilon=2.0, rng=rng).value
    assert np.abs(vectors.mean(axis=0) - [1 / (1 + math.e), math.e / (1 + math.e), 1 / (1 + math.e)]).max() < 0.006


vectors = hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-1, 1))


@given(vectors, st.integers(2, 12), st.randoms(use_true_random=False))
def test_rounding_two_vectors_stays_within_what_the_noise_is_sized_for(x, bits, random):
    grid = Grid(bits)
    y = np.array([random.uniform(-1, 1) for _ in x])
    l1, l2 = float(np.abs(x - y).sum()), float(np.linalg.norm(x - y))
    assume(l1 > 0)
    difference = (grid.encode(x) - grid.encode(y)).astype(object)
    assert sum(abs(d) for d in difference) <= math.floor(Fraction(l1) / Fraction(grid.step)) + len(x)
    assert math.sqrt(sum(d * d for d in difference)) <= (l2 / grid.step + math.sqrt(len(x))) * (1 + 1e-12)


def test_float_laplace_has_the_scale_and_stays_on_the_grid():
    released = mechanisms.laplace(np.full((2000, 10), 0.1), sensitivity=2.0, epsilon=4.0, rng=seeded_rng(1))
    deviation = np.abs(released.value - 0.1).mean()
    assert deviation == pytest.approx(0.5, rel=0.03)
    assert released.event == PureEvent(4.0, "vector", "replace-one")
    grid = Grid(10)
    coarse = mechanisms.laplace(np.full(4, 0.123), sensitivity=2.0, epsilon=4.0, grid=grid).value
    assert (coarse == grid.decode(grid.encode(coarse))).all()


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 230260.0])
def test_float_laplace_sizes_its_noise_for_the_rounded_vectors(epsilon, monkeypatch: pytest.MonkeyPatch):
    rates = []
    monkeypatch.setattr(noise, "discrete_laplace", lambda rate, shape, rng: rates.append(rate) or np.zeros(shape, int))
    grid = Grid(30)
    mechanisms.laplace(np.zeros(10), sensitivity=2.0, epsilon=epsilon, grid=grid)
    assert rates == [Fraction(epsilon) / (2**31 + 10)]


def test_float_gaussian_has_the_multiplier_it_was_asked_for():
    released = mechanisms.gaussian(np.zeros(100_000), sensitivity=3.0, noise_multiplier=0.7, rng=seeded_rng(2))
    assert released.value.std() == pytest.approx(2.1, rel=0.02)
    assert released.event == mechanisms.gaussian_event(100_000, 0.7)


@settings(max_examples=15)
@given(st.floats(9.5, 46))
def test_the_certified_distance_holds_for_every_sigma(log2_sigma):
    drawn = noise.discrete_gaussian_log2_distance(2**log2_sigma)
    smoothing = 1 + noise.log2_smoothing_gap(noise.SMOOTH_VARIANCE)
    assert np.logaddexp2(drawn, smoothing) < mechanisms._CERTIFIED_LOG2_DISTANCE
    assert mechanisms.gaussian_event(1, 1.0).log2_slack == mechanisms._CERTIFIED_LOG2_DISTANCE


@settings(max_examples=15)
@given(st.floats(0.05, 50), st.sampled_from([1, 10, 1000, 100_000]), st.floats(1e-3, 1e3))
def test_float_gaussian_never_draws_less_than_the_claim_needs(multiplier, d, sensitivity):
    drawn: list[float] = []

    def record(sigma, shape, rng):
        drawn.append(sigma)
        return np.zeros(shape, dtype=np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "discrete_gaussian", record)
        encoded: list[Grid] = []
        encode = Grid.encode
        patch.setattr(Grid, "encode", lambda self, values: encoded.append(self) or encode(self, values))
        mechanisms.gaussian(np.zeros(d), sensitivity=sensitivity, noise_multiplier=multiplier)
    steps = sensitivity / encoded[0].step + math.sqrt(d)
    assert math.sqrt(drawn[0] ** 2 - noise.SMOOTH_VARIANCE) / steps >= multiplier
    assert drawn[0] * encoded[0].step <= multiplier * sensitivity * 1.001  # and little more


# --- the well-known wrong variants


def test_sensitivity_one_on_the_simplex_is_not_epsilon():
    claimed = 1.0
    rate = claimed / 1000  # a grid of 1/1000, sensitivity taken as 1
    log_mass = np.log(laplace_masses(rate, 5000))
    corner = lambda value, out: log_mass[out - value + 5000]  # noqa: E731
    true = corner(1000, 1000) + corner(0, 0) - corner(0, 1000) - corner(1000, 0)  # (1,0) against (0,1), output (1,0)
    assert true == pytest.approx(2 * claimed, rel=1e-9)
    assert true >= 1.97 > claimed


def test_noise_for_c_does_not_cover_two_vectors_clipped_to_c():
    epsilon, delta, clip = 1.0, 1e-5, 1.0
    sigma = gaussian_sigma(epsilon, delta, clip)
    assert gaussian_delta(sigma, epsilon, clip) <= delta
    assert gaussian_delta(sigma, epsilon, 2 * clip) > 100 * delta


def test_half_epsilon_a_bit_is_not_epsilon_for_free_bits():
    claimed = 5.0
    event = mechanisms.randomized_response(np.zeros(4, bool), epsilon_per_bit=claimed / 2).event
    assert event.epsilon == 10.0 > claimed


def test_a_float_sampler_gives_itself_away():
    """Laplace noise by logarithms of 24-bit uniform numbers: most outputs for one input are impossible for another."""
    u = (np.arange(1, 2**24, dtype=np.float32) / np.float32(2**24)).astype(np.float32)
    scale = np.float32(1.0)
    magnitudes = -scale * np.log(u)
    reachable_from_0 = np.unique(np.concatenate([magnitudes, -magnitudes]))
    rng = np.random.default_rng(1)
    from_1 = np.float32(1.0) + rng.choice(magnitudes, 2000) * rng.choice(np.float32([-1, 1]), 2000)
    place = np.minimum(np.searchsorted(reachable_from_0, from_1), len(reachable_from_0) - 1)
    impossible = (reachable_from_0[place] != from_1).mean()
    assert impossible > 0.3  # epsilon = 1 would allow none
    # On a grid every output is possible for every input.
    ours = mechanisms.laplace(np.ones(2000), sensitivity=1.0, epsilon=1.0, grid=Grid(20), rng=seeded_rng(1)).value
    assert (ours * 2**20 == np.rint(ours * 2**20)).all()


# --- bad input


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be"):
        mechanisms.laplace([0.5, 0.5], sensitivity=2.0, epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon must be"):
        mechanisms.discrete_laplace(np.zeros(3, int), l1_sensitivity=1, epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_bad_response_epsilons_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be"):
        mechanisms.randomized_response(np.zeros(3, bool), epsilon_per_bit=epsilon)
    with pytest.raises(ValueError, match="epsilon must be"):
        mechanisms.unary_randomized_response(np.eye(3, dtype=int), epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon must be"):
        mechanisms.k_ary_randomized_response(np.arange(3), k=3, epsilon=epsilon)


@pytest.mark.parametrize("values", [[], [math.nan, 1.0], [math.inf], 3.0])
def test_bad_vectors_are_refused(values):
    with pytest.raises(ValueError, match=r"empty|NaN|wrap it"):
        mechanisms.laplace(values, sensitivity=1.0, epsilon=1.0)
    with pytest.raises(ValueError, match=r"empty|NaN|wrap it"):
        mechanisms.gaussian(values, sensitivity=1.0, noise_multiplier=1.0)


@pytest.mark.parametrize("bad", [0.0, -2.0, math.nan, math.inf])
def test_bad_sensitivities_and_multipliers_are_refused(bad):
    with pytest.raises(ValueError, match="sensitivity must be a finite number above 0"):
        mechanisms.laplace([1.0], sensitivity=bad, epsilon=1.0)
    with pytest.raises(ValueError, match="sensitivity must be a finite number above 0"):
        mechanisms.gaussian([1.0], sensitivity=bad, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="noise_multiplier must be a finite number above 0"):
        mechanisms.gaussian([1.0], sensitivity=1.0, noise_multiplier=bad)


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match="integer vector"):
        mechanisms.discrete_laplace(np.zeros(3), l1_sensitivity=1, epsilon=1.0)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        mechanisms.discrete_laplace(np.zeros(3, int), l1_sensitivity=0, epsilon=1.0)
    with pytest.raises(ValueError, match=r"2\^62"):
        mechanisms.discrete_gaussian(np.array([2**63 - 1]), l2_sensitivity=1.0, sigma=1.0)
    with pytest.raises(ValueError, match="more fraction bits"):
        mechanisms.gaussian([1.0], sensitivity=1.0, noise_multiplier=1.0, grid=Grid(2))
    with pytest.raises(ValueError, match="1 of 2 are not"):
        mechanisms.unary_randomized_response(np.array([[0, 1], [1, 1]]), epsilon=1.0)
    with pytest.raises(ValueError, match="0 or 1, got values from 0 to 2"):
        mechanisms.randomized_response(np.array([0, 2]), epsilon_per_bit=1.0)
    with pytest.raises(ValueError, match=r"0 \.\. 2, got 0 \.\. 3"):
        mechanisms.k_ary_randomized_response(np.array([0, 3]), k=3, epsilon=1.0)
    with pytest.raises(ValueError, match="unit must be one of"):
        mechanisms.laplace([1.0], sensitivity=1.0, epsilon=1.0, unit="person")


# --- what each part of a claim is made of


def test_the_events_of_discrete_gaussian_noise_count_smoothing_draws_and_gaps():
    sigma, d = 1000.0, 4096
    event = mechanisms.discrete_gaussian(np.zeros(d, int), l2_sensitivity=1.0, sigma=sigma).event
    assert event.noise_multiplier == math.sqrt(sigma**2 - noise.SMOOTH_VARIANCE) < sigma
    gap = 1 + noise.log2_smoothing_gap(noise.SMOOTH_VARIANCE)
    alone = float(np.logaddexp2(noise.discrete_gaussian_log2_distance(sigma), gap))
    assert event.log2_slack == pytest.approx(alone + 12)
    levels = noise._gaussian_levels(Fraction(sigma) ** 2)
    tables = float(np.logaddexp2.reduce([table.log2_distance for _, table in levels]))
    assert noise.discrete_gaussian_log2_distance(sigma) == pytest.approx(float(np.logaddexp2(tables, gap)), abs=1e-9)


def test_skellam_distances_count_every_part():
    parts, part = noise._skellam_parts(5e7)
    measured = math.log2(parts) + noise._skellam_table(part).log2_distance
    assert measured <= noise.skellam_log2_distance(5e7) < measured + 1


@pytest.mark.parametrize("epsilon", [50.0, 56.0, 300.0])
def test_probabilities_keep_their_precision_when_they_are_tiny(epsilon):
    assert float(noise.response_change(epsilon)) == pytest.approx(math.exp(-epsilon), rel=1e-12)


def test_numbers_of_other_types_are_taken_or_refused_by_name():
    rng = seeded_rng(np.int64(7))
    assert noise.discrete_gaussian(np.int64(2), 3, rng).shape == (3,)
    assert noise.skellam(np.float32(2), 3, rng).shape == (3,)
    assert mechanisms.k_ary_randomized_response(np.arange(3), k=np.int64(3), epsilon=np.int64(1)).event.epsilon == 1.0
    assert mechanisms.discrete_laplace(np.zeros(2, int), l1_sensitivity=2.0, epsilon=np.float32(1)).event.epsilon == 1.0
    for call in (
        lambda: mechanisms.discrete_laplace(np.zeros(2, int), l1_sensitivity=1.5, epsilon=1.0),
        lambda: mechanisms.discrete_laplace(np.zeros(2, int), l1_sensitivity=None, epsilon=1.0),
        lambda: mechanisms.laplace([1.0], sensitivity="2", epsilon=1.0),
        lambda: mechanisms.laplace([1.0], sensitivity=1e-320, epsilon=1.0),
        lambda: mechanisms.gaussian([1.0], sensitivity=1.0, noise_multiplier=1e200),
        lambda: mechanisms.laplace(np.array([1 + 2j]), sensitivity=1.0, epsilon=1.0),
        lambda: mechanisms.laplace(["1.0"], sensitivity=1.0, epsilon=1.0),
        lambda: mechanisms.laplace(np.array([2**53 + 5]), sensitivity=6.0, epsilon=1.0),
        lambda: mechanisms.discrete_gaussian(np.zeros(1, int), l2_sensitivity=1.0, sigma=1e-200),
        lambda: mechanisms.discrete_laplace(np.array([-(2**63)] * 6), l1_sensitivity=1, epsilon=0.5),
        lambda: mechanisms.k_ary_randomized_response(np.full(5, 5, np.uint8), k=300, epsilon=1.0),
        lambda: noise.skellam(1e-320, 1),
    ):
        with pytest.raises(ValueError, match=r"must be|2\^53|cannot hold"):
            call()
