"""The audit from one run, against the paper's theorem in exact fractions, and against simulated attackers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tacit.audit.attacks.one_run import epsilon_of_guesses, expected_limit, one_run_bound, p_value


def exact_p_value(records: int, guesses: int, right: int, odds: Fraction, delta: Fraction) -> Fraction:
    """Theorem 3.1 as printed, with e^epsilon = `odds`, term by term."""
    a, b = odds.numerator, odds.denominator
    mass = [math.comb(guesses, k) * a**k * b ** (guesses - k) for k in range(guesses + 1)]  # over (a + b)^guesses

    def at_least(v: int) -> Fraction:
        return Fraction(sum(mass[max(v, 0) :]), (a + b) ** guesses)

    beta = at_least(right)
    alpha = max((at_least(right - i) - beta) / i for i in range(1, records + 1))
    return min(Fraction(1), beta + 2 * records * delta * alpha)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_p_value_is_that_of_the_theorem(data):
    records = data.draw(st.integers(1, 40))
    guesses = data.draw(st.integers(1, records))
    right = data.draw(st.integers(0, guesses))
    odds = data.draw(st.fractions(1, 50, max_denominator=20))
    delta = data.draw(st.sampled_from([Fraction(0), Fraction(1, 100_000), Fraction(1, 100)]))
    expected = float(exact_p_value(records, guesses, right, odds, delta))
    found = p_value(records, guesses, right, math.log(odds), float(delta))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("records", "guesses", "right"), [(120, 100, 95), (100, 100, 100), (80, 40, 34)])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_bound_is_where_the_exact_p_value_crosses(records, guesses, right, delta):
    found = epsilon_of_guesses(records, guesses, right, delta=delta, confidence=0.95)
    assert found > 0.5

    def exact(epsilon: float) -> float:
        odds = Fraction(math.exp(epsilon)).limit_denominator(10**9)
        return float(exact_p_value(records, guesses, right, odds, Fraction(str(delta))))

    assert exact(found - 1e-6) < 0.05 < exact(found + 1e-6)


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_attackers_who_see_randomized_response_succeed_no_more_often_than_the_p_value(delta):
    """An (epsilon, delta)-DP mechanism tells each coin with probability delta, else by randomized response."""
    records, epsilon = 60, 1.0
    rng = np.random.default_rng(5)
    told = rng.random((100_000, records)) < delta
    truthful = rng.random((100_000, records)) < 1 / (1 + math.exp(-epsilon))
    right = (told | truthful).sum(axis=1)
    for v in range(records + 1):
        seen, allowed = int((right >= v).sum()), p_value(records, records, v, epsilon, delta)
        assert binom.sf(seen - 1, len(right), allowed) > 1e-6
    if delta == 0:  # the theorem is tight here
        for v in range(38, 52):
            assert np.mean(right >= v) == pytest.approx(p_value(records, records, v, epsilon, 0.0), abs=0.01)


def test_without_delta_the_theorem_would_be_broken():
    """The term with delta is needed: the attacker above exceeds the binomial tail alone."""
    rng = np.random.default_rng(6)
    records, epsilon, delta = 60, 1.0, 0.05
    right = ((rng.random((100_000, records)) < delta) | (rng.random((100_000, records)) < 1 / (1 + math.exp(-1)))).sum(
        1
    )
    seen = int((right >= 52).sum())
    assert binom.sf(seen - 1, len(right), p_value(records, records, 52, epsilon, 0.0)) < 1e-6
    assert binom.sf(seen - 1, len(right), p_value(records, records, 52, epsilon, delta)) > 1e-6


def scores_of(epsilon: float, records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    coins = rng.random(records) < 0.5
    answers = coins ^ (rng.random(records) < 1 / (1 + math.exp(epsilon)))
    return answers + 0.01 * rng.random(records), coins


def test_a_correct_mechanism_passes_and_a_false_claim_is_found():
    for seed in range(8):
        found = one_run_bound(*scores_of(2.0, 2000, seed), delta=0.0, confidence=0.99)
        assert 1.5 < found.epsilon <= 2.0
    assert one_run_bound(*scores_of(4.0, 2000, 0), delta=1e-5, confidence=0.99).epsilon > 2.0


def test_scores_without_information_bound_nothing():
    rng = np.random.default_rng(0)
    found = [
        one_run_bound(rng.random(300), rng.random(300) < 0.5, delta=1e-5, confidence=0.9).epsilon for _ in range(200)
    ]
    assert np.mean(np.array(found) > 0) <= 0.1


def test_what_one_run_can_show_at_most():
    coins = np.random.default_rng(0).random(200) < 0.5
    found = one_run_bound(coins.astype(float), coins, delta=0.0, confidence=0.95)
    assert found.epsilon <= expected_limit(200, delta=0.0, confidence=0.95)
    q = 0.05 ** (1 / 200)
    assert expected_limit(200, delta=0.0, confidence=0.95) == pytest.approx(math.log(q / (1 - q)))


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="right"):
        p_value(10, 5, 6, 1.0, 0.0)
    with pytest.raises(ValueError, match="guesses"):
        one_run_bound(np.zeros(10), np.zeros(10, bool), delta=0.0, confidence=0.9, guesses=[12])
    with pytest.raises(ValueError, match="one number"):
        one_run_bound(np.zeros(10), np.zeros(9, bool), delta=0.0, confidence=0.9)
