from __future__ import annotations

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.dp import calibration
from tacit.dp.accounting import Ledger
from tacit.dp.calibration import gaussian_delta, gaussian_epsilon, gaussian_sigma
from tacit.dp.release import GaussianEvent


def exact_delta(sigma: float, epsilon: float) -> float:
    with mpmath.workdps(400):
        s, e = 1 / mpmath.mpf(sigma), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(s / 2 - e / s) - mpmath.exp(e) * mpmath.ncdf(-s / 2 - e / s))


@pytest.mark.parametrize("sigma", [1e-3, 0.05, 0.2, 1.0, 3.0, 30.0, 1e4, 1e7])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1e-3, 0.1, 1.0, 10.0, 50.0, 500.0])
def test_delta_is_the_analytic_formula_to_a_billionth(sigma, epsilon):
    exact = exact_delta(sigma, epsilon)
    if exact > 1e-280:
        assert gaussian_delta(sigma, epsilon) == pytest.approx(exact, rel=1e-9)
    else:
        assert gaussian_delta(sigma, epsilon) <= 1e-275


@given(st.floats(1e-4, 300), st.floats(1e-12, 0.9))
def test_sigma_meets_delta_and_hardly_more(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert exact_delta(sigma, epsilon) <= delta
    assert exact_delta(sigma * (1 - 1e-6), epsilon) > delta * (1 - 1e-7)


@given(st.floats(1e-3, 300), st.floats(1e-12, 0.5), st.floats(1e-3, 1e3))
def test_epsilon_inverts_sigma(epsilon, delta, sensitivity):
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    back = gaussian_epsilon(sigma, delta, sensitivity)
    assert back <= epsilon * (1 + 1e-15)
    assert back == pytest.approx(epsilon, rel=1e-5, abs=1e-7)


@given(st.floats(0.1, 20), st.floats(1.01, 3), st.floats(1e-9, 1e-2))
def test_epsilon_falls_as_sigma_grows(sigma, factor, delta):
    assert gaussian_epsilon(sigma * factor, delta) <= gaussian_epsilon(sigma, delta)


def test_dp_accounting_agrees():
    for epsilon, delta in [(0.5, 1e-5), (1.0, 1e-6), (8.0, 1e-5)]:
        assert gaussian_sigma(epsilon, delta) == pytest.approx(
            dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-6
        )


def test_the_classical_formula_fails_for_large_epsilon():
    epsilon, delta = 10.0, 1e-5
    classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert exact_delta(classical, epsilon) > delta  # below epsilon = 1 it only wastes noise
    assert gaussian_sigma(0.5, delta) < math.sqrt(2 * math.log(1.25 / delta)) / 0.5


def test_a_delta_that_needs_no_epsilon():
    assert gaussian_epsilon(1e6, 1e-3) == 0.0


def test_the_epsilon_for_a_magnitude_of_noise():
    # Noise below 1e-5 with 90%: scale 1e-5 / ln 10.
    assert calibration.laplace_epsilon_for_magnitude(1e-5, 0.9, 1.0) == pytest.approx(230_258.5, abs=0.1)
    assert calibration.laplace_epsilon_for_magnitude(1e-5, 0.9, 2.0) == pytest.approx(460_517.0, abs=0.1)
    scale = calibration.laplace_scale(calibration.laplace_epsilon_for_magnitude(1e-5, 0.9, 2.0), 2.0)
    assert 1 - math.exp(-1e-5 / scale) == pytest.approx(0.9)
    # What 230260 keeps below 1e-5: 90% at sensitivity 1, 68% at the true 2.
    assert 1 - math.exp(-1e-5 * 230260 / 1) == pytest.approx(0.90, abs=0.001)
    assert 1 - math.exp(-1e-5 * 230260 / 2) == pytest.approx(0.68, abs=0.005)


def test_response_probabilities():
    keep, other = calibration.randomized_response_probabilities(math.log(3), 2)
    assert (keep, other) == pytest.approx((0.75, 0.25))
    keep, other = calibration.randomized_response_probabilities(1.0, 10)
    assert keep + 9 * other == pytest.approx(1.0)
    assert keep / other == pytest.approx(math.e)
    assert calibration.randomized_response_probabilities(0.0, 2) == (0.5, 0.5)


@pytest.mark.parametrize("method", ["pld", "rdp"])
def test_the_multiplier_meets_its_target_over_subsampled_steps(method):
    q, steps, delta = 0.02, 500, 1e-5
    multiplier = calibration.noise_multiplier(2.0, delta, steps=steps, sampling_probability=q, method=method)

    def cost(value: float) -> float:
        ledger = Ledger("record", "add-remove")
        ledger.spend(GaussianEvent(value, "record", "add-remove", q), steps)
        return ledger.epsilon(delta, method)

    assert cost(multiplier) <= 2.0 < cost(multiplier * 0.999)


def test_the_multiplier_over_whole_steps_is_analytic():
    multiplier = calibration.noise_multiplier(1.0, 1e-6, steps=64)
    assert multiplier == pytest.approx(8 * gaussian_sigma(1.0, 1e-6))
    ledger = Ledger("record", "add-remove")
    ledger.spend(GaussianEvent(multiplier, "record", "add-remove"), 64)
    assert ledger.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1"])
def test_bad_epsilons_are_refused(epsilon):
    for call in (
        lambda: gaussian_sigma(epsilon, 1e-5),
        lambda: calibration.laplace_scale(epsilon, 1.0),
        lambda: calibration.noise_multiplier(epsilon, 1e-5, steps=1),
    ):
        with pytest.raises(ValueError, match="epsilon must be a finite number above 0"):
            call()


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_bad_deltas_are_refused(delta):
    for call in (
        lambda: gaussian_sigma(1.0, delta),
        lambda: gaussian_epsilon(1.0, delta),
        lambda: calibration.noise_multiplier(1.0, delta, steps=1),
    ):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got"):
            call()


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"steps must be a whole number of at least 1 .* got 0"):
        calibration.noise_multiplier(1.0, 1e-5, steps=0)
    with pytest.raises(ValueError, match=r"sampling_probability must be in \(0, 1\], got 1.5"):
        calibration.noise_multiplier(1.0, 1e-5, steps=1, sampling_probability=1.5)
    with pytest.raises(ValueError, match=r"probability must be in \(0, 1\), got 1.0"):
        calibration.laplace_epsilon_for_magnitude(1e-5, 1.0, 1.0)
    with pytest.raises(ValueError, match="sigma must be"):
        gaussian_delta(-1.0, 1.0)
    with pytest.raises(ValueError, match="epsilon must be finite"):
        gaussian_delta(1.0, np.nan)


def test_extremes_are_refused_infinite_or_sound():
    with pytest.raises(ValueError, match="epsilon must be at most 1e"):
        gaussian_delta(1.0, 1e13)
    assert gaussian_epsilon(1e-12, 1e-5) == math.inf
    sigma = gaussian_sigma(1e11, 1e-5)
    assert exact_delta(sigma, 1e11) <= 1e-5


def test_a_delta_above_the_sampling_needs_next_to_no_noise():
    assert calibration.noise_multiplier(1.0, 1e-5, steps=1, sampling_probability=1e-6) < 0.15


def test_what_cannot_be_accounted_for_is_refused_before_the_search():
    with pytest.raises(ValueError, match="unit must be one of"):
        calibration.noise_multiplier(1.0, 1e-5, steps=1, unit="person")
    with pytest.raises(ValueError, match="not for replace-one"):
        calibration.noise_multiplier(1.0, 1e-5, steps=1, sampling_probability=0.1, relation="replace-one")
    with pytest.raises(ValueError, match="steps must be a whole number"):
        calibration.noise_multiplier(1.0, 1e-5, steps=float("nan"))
