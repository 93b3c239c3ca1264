"""The ε of shuffled batches at the least: exact for one batch, and never above the ε without amplification."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.audit.claims.shuffling import fixed_mu, shuffled_at_least
from tacit.dp.gaussian import gaussian_epsilon


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_one_batch_is_the_gaussian_mechanism(mu, delta):
    exact = gaussian_epsilon(1 / mu, delta)
    assert exact - 0.01 * exact - 0.02 < shuffled_at_least(mu, 1, delta) <= exact + 1e-9


@given(mu=st.floats(0.05, 5), steps=st.integers(1, 2000), exponent=st.integers(2, 9))
def test_no_bound_is_above_the_epsilon_without_amplification(mu, steps, exponent):
    delta = 10.0**-exponent
    assert 0 <= shuffled_at_least(mu, steps, delta) <= gaussian_epsilon(1 / mu, delta) + 1e-9


def test_bound_is_one_that_samples_of_shuffled_batches_reach():
    """By simulation: all others pull by -1, the record by +1 or not at all; the largest step is above a threshold."""
    rng = np.random.default_rng(0)
    mu, steps, trials, delta = 1.5, 20, 400_000, 0.01
    largest = []
    for shift in (2 * mu, mu):
        sums = rng.standard_normal((trials, steps))
        sums[:, 0] += shift  # which batch it is does not matter for the largest
        largest.append(sums.max(axis=1))
    seen = max(math.log(((largest[0] > at).mean() - delta) / (largest[1] > at).mean()) for at in np.linspace(2, 5, 31))
    assert shuffled_at_least(mu, steps, delta) == pytest.approx(seen, rel=0.04)


def test_nothing_follows_from_nothing():
    assert shuffled_at_least(0.0, 10, 1e-5) == 0.0


def test_fixed_batches_add_up_over_epochs():
    assert fixed_mu(0.5, 16) == pytest.approx(2.0)
