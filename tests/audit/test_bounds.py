"""Lower bounds on epsilon from samples, against truths that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tacit.audit import bounds
from tacit.audit.finding import LowerBound
from tacit.dp.gaussian import gaussian_epsilon, gaussian_sigma

DELTA = 1e-5


@given(st.integers(1, 400), st.data())
@settings(max_examples=50, deadline=None)
def test_an_upper_rate_is_where_so_few_successes_become_unlikely(trials, data):
    successes = data.draw(st.integers(0, trials))
    rate = bounds.upper_rate(successes, trials, 0.01)
    if successes == trials:
        assert rate == 1
    else:
        exact = math.fsum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes + 1))
        assert exact == pytest.approx(0.01, rel=1e-6)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    found = [bounds.clopper_pearson(int(k), 50, 0.9) for k in rng.binomial(50, 0.3, 2000)]
    assert np.mean([low <= 0.3 <= high for low, high in found]) >= 0.9


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_mu_of_the_error_rates_of_a_gaussian_test_is_mu(mu):
    thresholds = np.linspace(-2, 4, 13)
    found = bounds.mu_of_errors(norm.sf(thresholds), norm.cdf(thresholds - mu))
    assert found == pytest.approx(np.full(13, mu), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_epsilon_of_the_error_rates_of_randomized_response_is_epsilon(epsilon):
    wrong = np.array([1 / (1 + math.exp(epsilon))])
    assert bounds.epsilon_of_errors(wrong, wrong, 0.0) == pytest.approx([epsilon])
    assert bounds.epsilon_of_errors(np.array([1.0]), np.array([1.0]), 0.0) == [0.0]


def gaussian_scores(epsilon, seed, samples):
    sigma = gaussian_sigma(epsilon, DELTA)
    rng = np.random.default_rng(seed)
    return rng.normal(0, sigma, samples // 2), rng.normal(1, sigma, samples // 2)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_the_gaussian_bound_is_close_and_below(epsilon):
    for seed in range(2):
        scores = gaussian_scores(epsilon, seed, 1_000_000)
        found = bounds.gaussian_bound(*scores, delta=DELTA, confidence=0.999).epsilon
        assert 0.85 * epsilon <= found <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_bounds_hold_at_the_confidence_that_they_state(epsilon):
    """At 60% confidence a bound may fail, in 40% of the repeats at most: sharper than never failing at 99.9%."""
    failures = {"pure": 0, "gaussian": 0}
    for seed in range(200):
        one, other = gaussian_scores(epsilon, seed, 2000)
        failures["gaussian"] += bounds.gaussian_bound(one, other, delta=DELTA, confidence=0.6).epsilon > epsilon
        failures["pure"] += bounds.pure_bound(one, other, delta=DELTA, confidence=0.6).epsilon > epsilon
    assert binom.sf(max(failures.values()) - 1, 200, 0.4) > 1e-4


def test_the_half_that_chooses_the_threshold_is_not_counted():
    """Scores that are told apart in the first half only: nothing is found in the second."""
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=2000), rng.normal(size=2000)
    other[:1000] += 10
    assert bounds.gaussian_mu(one, other, confidence=0.99) == 0
    assert bounds.pure_bound(one, other, confidence=0.99).epsilon == 0
    assert bounds.gaussian_mu(one[:1000], other[:1000], confidence=0.99) > 4


def test_equal_scores_that_rounding_parts_count_as_equal():
    """The largest score of Laplace noise is an atom, and floats reach it with errors in the last bits."""
    rng = np.random.default_rng(3)
    rounding = 1e-16 * rng.integers(-3, 4, size=(2, 50_000))
    one = np.where(rng.random(50_000) < 0.25 * math.exp(-2), 2.0, 0.0) + rounding[0]
    other = np.where(rng.random(50_000) < 0.25, 2.0, 0.0) + rounding[1]
    assert bounds.pure_bound(one, other, confidence=0.999).epsilon > 1.7


def test_many_tests_are_corrected_for():
    assert bounds.corrected(0.99, 10) == pytest.approx(0.999)
    tried = [LowerBound(float(k), 0.0, 0.999, "a test", 10) for k in range(10)]
    best = bounds.strongest(tried, 0.99)
    assert (best.epsilon, best.confidence, best.samples) == (9.0, 0.99, 100)
    with pytest.raises(ValueError, match="each of 10 tests"):
        bounds.strongest(tried, 0.999)


@pytest.mark.parametrize("scores", [np.zeros(3), np.zeros((30, 2)), np.array([math.nan] * 30)])
def test_scores_that_cannot_be_used_are_refused(scores):
    with pytest.raises(ValueError, match="scores"):
        bounds.pure_bound(scores, scores, confidence=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_twenty_repeats_are_close_and_below(epsilon):
    found = [
        bounds.gaussian_bound(*gaussian_scores(epsilon, seed, 1_000_000), delta=DELTA, confidence=0.999).epsilon
        for seed in range(20)
    ]
    assert max(found) <= gaussian_epsilon(gaussian_sigma(epsilon, DELTA), DELTA)
    assert min(found) >= 0.85 * epsilon
