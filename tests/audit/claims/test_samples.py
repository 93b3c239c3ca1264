"""Bounds from outputs: below the true ε of mechanisms whose ε is known, above a claim that is too small."""

import math

import numpy as np
import pytest

from tacit.audit.claims.samples import Effort, drawn, measure
from tacit.dp.gaussian import gaussian_epsilon

FEW = Effort(learn=100, choose=300, judge=600, seconds=1e6)
USUAL = Effort(learn=300, choose=1000, judge=3000, seconds=1e6)


def gaussian(distance, sigma, seed, size=1):
    rng = np.random.default_rng(seed)
    far = np.zeros(size)
    far[0] = distance
    return lambda: sigma * rng.standard_normal(size), lambda: far + sigma * rng.standard_normal(size)


def measured(pair, epsilon, delta=1e-5, *, assumed=True, effort=USUAL):
    return measure(*pair, epsilon=epsilon, delta=delta, gaussian=assumed, confidence=0.95, effort=effort)


@pytest.mark.parametrize("size", [1, 5, 50])
def test_gaussian_bound_is_close_to_the_true_epsilon_and_below(size):
    true = gaussian_epsilon(0.5, 1e-5)
    seen = measured(gaussian(1.0, 0.5, 3, size), true)
    assert all(bound.epsilon < true for bound in seen.bounds)
    assert seen.bounds[1].epsilon > 0.7 * true
    assert seen.sigma == pytest.approx(0.5, rel=0.06)
    assert seen.distance == pytest.approx(1.0, abs=0.1)
    assert not seen.differs_from(0.5)
    assert seen.differs_from(0.6)


def test_bounds_are_above_the_true_epsilon_as_rarely_as_their_confidence_says():
    true = gaussian_epsilon(1.0, 1e-2)
    found = [measured(gaussian(1.0, 1.0, seed), true, 1e-2, effort=FEW) for seed in range(60)]
    assert sum(any(bound.epsilon > true for bound in seen.bounds) for seen in found) <= 6


def test_inputs_that_are_the_same_are_not_told_apart_by_scores_that_were_learned():
    """Directions of 30 coordinates fit 100 outputs by chance: they are judged on fresh outputs only."""
    for seed in range(20):
        seen = measured(gaussian(0.0, 1.0, seed, 30), 1.0, 1e-5, effort=FEW)
        assert all(bound.epsilon == 0 for bound in seen.bounds)


def test_noise_of_a_third_of_what_is_claimed_is_refuted():
    claimed = gaussian_epsilon(1.5, 1e-5)
    seen = measured(gaussian(1.0, 0.5, 4), claimed)
    assert seen.bounds[1].epsilon > claimed


def test_randomized_response_is_measured_without_assuming_gaussian_noise():
    rng = np.random.default_rng(5)
    keeps = math.e**2 / (1 + math.e**2)  # epsilon 2, exactly

    def answer(bit):
        return lambda: [bit if rng.random() < keeps else 1 - bit]

    (bound,) = measured((answer(0), answer(1)), 1.0, 0.0, assumed=False).bounds
    assert 1.6 < bound.epsilon < 2.0
    assert not bound.assumes


def test_unlike_variances_tell_inputs_apart():
    rng = np.random.default_rng(6)
    pair = (lambda: rng.standard_normal(4)), (lambda: 8 * rng.standard_normal(4))
    (bound,) = measured(pair, 1.0, 0.0, assumed=False).bounds
    assert bound.epsilon > 3


def test_more_outputs_are_drawn_if_a_large_claim_can_be_refuted_by_them():
    effort = Effort(learn=100, choose=300, judge=600, most=100_000, seconds=1e6)
    pair = gaussian(1.0, 1e-3, 7)
    (bound,) = measured(pair, 8.0, assumed=False, effort=effort).bounds
    assert bound.epsilon > 8
    assert bound.samples > 600 + math.exp(8)
    (bound,) = measured(pair, 8.0, assumed=False, effort=effort.less()).bounds
    assert bound.epsilon < 8
    assert bound.samples < 1200


def test_slow_code_is_called_less_often():
    (bound,) = measured(gaussian(1.0, 1.0, 8), 1.0, assumed=False, effort=Effort(seconds=1e-9)).bounds
    assert bound.samples == 200


@pytest.mark.parametrize(
    ("output", "words"),
    [([], "0 numbers"), ([1.0] * 5000, "5000 numbers"), ([math.nan], "not finite"), ([math.inf], "not finite")],
)
def test_outputs_that_cannot_be_compared_are_refused(output, words):
    with pytest.raises(ValueError, match=words):
        drawn(lambda: output, 3)


def test_outputs_of_different_sizes_are_refused():
    sizes = iter([2, 3])
    with pytest.raises(ValueError, match="2 and 3 numbers"):
        drawn(lambda: [1.0] * next(sizes), 2)
    with pytest.raises(ValueError, match="tell them apart"):
        measured((lambda: [1.0], lambda: [1.0, 2.0]), 1.0)


def test_too_few_outputs_are_refused():
    with pytest.raises(ValueError, match="at least 100"):
        Effort(judge=10)
