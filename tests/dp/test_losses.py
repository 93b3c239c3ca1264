"""Privacy loss distributions: never below the truth, and close to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as theirs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.dp.gaussian import gaussian_delta
from tacit.dp.losses import compose, gaussian_pair, laplace_pair, out_of_reach, response_pair
from tacit.dp.mechanisms import laplace_event

EPSILONS = np.array([0.0, 0.01, 0.1, 0.37, 1.0, 2.5, 6.0])


def removed(delta_of_mixture, q: float, epsilon: float) -> float:
    """sup of (1 - q) N + q M - e^epsilon N over events: q (M - x N) with x = 1 + (e^epsilon - 1) / q."""
    return q * delta_of_mixture(math.log1p(math.expm1(epsilon) / q))


def added(delta_of_mixture, q: float, epsilon: float) -> float:
    """sup of N - e^epsilon ((1 - q) N + q M): with y = e^epsilon q / (1 - e^epsilon (1 - q)), if that is above 0."""
    rest = 1 - math.exp(epsilon) * (1 - q)
    return rest * delta_of_mixture(math.log(math.exp(epsilon) * q / rest)) if rest > 0 else 0.0


def of_gaussian(multiplier: float):
    mu = 1 / multiplier
    return lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)


def of_laplace(multiplier: float):
    return lambda e: max(0.0, 1 - math.exp((e - 1 / multiplier) / 2))


@pytest.mark.parametrize("q", [0.003, 0.2, 0.95])
@pytest.mark.parametrize(
    ("pair", "exact", "multiplier"),
    [(gaussian_pair, of_gaussian, 0.6), (gaussian_pair, of_gaussian, 3.0), (laplace_pair, of_laplace, 0.7)],
)
def test_one_sampled_release_is_the_closed_formula_from_above(pair, exact, multiplier, q):
    found = compose([(pair(multiplier, q), 1)])
    for epsilon in EPSILONS:
        each = [direction(exact(multiplier), q, epsilon) for direction in (removed, added)]
        for truth, curve in zip(each, found.curves, strict=True):
            assert truth - 1e-15 <= curve.delta(epsilon) <= truth * (1 + 1e-3) + 2e-6 * q + 2e-12
        assert found.delta(epsilon) >= max(each)


@pytest.mark.parametrize(("multiplier", "steps"), [(1.0, 1), (5.0, 10), (100.0, 10_000), (1000.0, 10**6)])
def test_unsampled_gaussians_are_the_analytic_ones_from_above(multiplier, steps):
    found = compose([(gaussian_pair(multiplier), steps)])
    for epsilon in EPSILONS:
        truth = gaussian_delta(multiplier / math.sqrt(steps), epsilon)
        assert truth <= found.delta(epsilon) <= truth * (1 + 1e-3) + 3e-10


def composed_by_them(lines, interval: float, **more):
    total = None
    for make, multiplier, q, count in lines:
        made = {gaussian_pair: theirs.from_gaussian_mechanism, laplace_pair: theirs.from_laplace_mechanism}[make]
        one = made(multiplier, value_discretization_interval=interval, sampling_prob=q, **more).self_compose(count)
        total = one if total is None else total.compose(one)
    return total


LINES = {
    "nine levels": [(gaussian_pair, 3 * 2 ** (-level / 8), 0.1, 30) for level in range(9)],
    "rare samples": [(gaussian_pair, 0.8, 0.003, 400)],
    "Laplace": [(laplace_pair, 2.0, 0.1, 30)],
    "a mixture": [(laplace_pair, 1.5, 0.3, 5), (gaussian_pair, 2.0, 0.3, 10), (gaussian_pair, 4.0, 1.0, 2)],
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_dp_accounting_agrees_from_both_sides(lines):
    """Its optimistic estimate is below the truth; its pessimistic one, on another grid, is within 0.1% of ours."""
    found = compose([(make(multiplier, q), count) for make, multiplier, q, count in lines])
    below = composed_by_them(lines, 1e-3, pessimistic_estimate=False, use_connect_dots=False)
    near = composed_by_them(lines, 5e-4)
    for epsilon in EPSILONS[1:]:
        assert found.delta(epsilon) >= below.get_delta_for_epsilon(epsilon)
    for delta in (1e-3, 1e-5, 1e-8):
        assert found.epsilon(delta) == pytest.approx(near.get_epsilon_for_delta(delta), rel=1e-3)


def test_the_nine_levels_of_the_documentation():
    lines = [(gaussian_pair(multiplier, q), count) for _, multiplier, q, count in LINES["nine levels"]]
    assert compose(lines).epsilon(1e-5) == pytest.approx(4.018, abs=1e-3)


@settings(max_examples=25)
@example(multiplier=0.5, q=1.0, steps=300, delta=1e-3)  # losses beyond what floats hold
@given(st.floats(0.5, 5), st.floats(1e-3, 1), st.integers(1, 300), st.floats(1e-7, 0.1))
def test_epsilon_and_delta_are_inverse(multiplier, q, steps, delta):
    lines = [(gaussian_pair(multiplier, q), steps)]
    found = compose(lines)
    epsilon = found.epsilon(delta)
    assert found.delta(epsilon) <= delta * (1 + 1e-9)
    if epsilon > 1e-9 and not out_of_reach(lines):
        assert found.delta(epsilon * (1 - 1e-6) - 1e-9) >= delta * (1 - 1e-4)


def test_losses_that_need_no_epsilon_and_losses_that_none_covers():
    assert compose([(gaussian_pair(50.0, 0.01), 1)]).epsilon(0.1) == 0
    assert compose([(gaussian_pair(1.0), 3)]).epsilon(1e-13) == math.inf
    assert compose([(response_pair(1.0), 3)]).delta(4.0) < 1e-11


# --- Laplace noise on vectors


def discrete(rate: float, shift: int, reach: int) -> np.ndarray:
    masses = np.exp(-rate * np.abs(np.arange(-reach, reach + 1) - shift))
    return masses * (1 - math.exp(-rate)) / (1 + math.exp(-rate))


@pytest.mark.parametrize("split", [(30, 10), (20, 20), (39, 1)])
def test_a_shift_in_several_coordinates_is_dominated_by_one_in_a_single_one(split):
    """All outcomes of two integers are summed up: nothing of the proof is used."""
    rate, reach = 0.05, 500
    one = np.multiply.outer(discrete(rate, 0, reach), discrete(rate, 0, reach))
    other = np.multiply.outer(discrete(rate, split[0], reach), discrete(rate, split[1], reach))
    alone, shifted = discrete(rate, 0, reach), discrete(rate, sum(split), reach)
    for epsilon in np.linspace(0, rate * sum(split), 9):
        vector = np.maximum(0, other - math.exp(epsilon) * one).sum()
        assert vector <= np.maximum(0, shifted - math.exp(epsilon) * alone).sum() + 1e-9


def test_discrete_noise_is_dominated_by_continuous_noise_with_a_little_less_of_it():
    steps, reach = 1024, 40_000
    for multiplier in (1.0, 0.25):
        rate, shift = 1 / steps, round(steps / multiplier)  # the coarsest grid that `sums.Laplace` chooses
        alone, shifted = discrete(rate, 0, reach), discrete(rate, shift, reach)
        continuous = of_laplace(laplace_event(multiplier, unit="record", relation="add-remove").noise_multiplier)
        plain = of_laplace(multiplier)
        for epsilon in np.linspace(0.01, 0.99, 7) / multiplier:
            found = np.maximum(0, shifted - math.exp(epsilon) * alone).sum()
            assert found <= continuous(epsilon) * (1 + 1e-12)
            assert found == pytest.approx(plain(epsilon), rel=1e-4)


def test_vectors_gain_over_what_any_pure_mechanism_would_cost():
    event = laplace_event(2.0, 0.1, unit="record", relation="add-remove")
    exact = compose([(laplace_pair(2.0, 0.1), 30)]).epsilon(1e-5)
    pure = compose([(response_pair(event.epsilon), 30)]).epsilon(1e-5)
    assert exact == pytest.approx(0.9725, abs=1e-3)
    assert pure > 1.15 * exact
