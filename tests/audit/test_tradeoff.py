"""Trade-off curves and the test of scores against them: what the prototype promised, and what may go wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import skellam as skellam_noise

from tacit.audit.bounds import corrected
from tacit.audit.separation import clearest, columns_of
from tacit.audit.tradeoff import Curve, claim_curve, gaussian_curve, skellam_curve, test_curve, worst_of
from tacit.dp.accounting import Ledger
from tacit.dp.release import GaussianEvent, PureEvent, SkellamEvent

RATES = np.array([1e-4, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9])
SURE = 1 - 1e-7


def ledger_of(event, count=1):
    ledger = Ledger(event.unit, event.relation)
    ledger.spend(event, count)
    return ledger


def drawn(seed, count, mu=0.0, scale=1.0):
    return mu + scale * np.random.default_rng(seed).standard_normal(count)


def test_the_curve_of_a_gaussian_ledger_is_the_exact_one_or_below():
    """Four releases of noise 2 are one of noise 1."""
    curve = Curve.of(ledger_of(GaussianEvent(2.0, "record", "add-remove"), 4))
    exact = gaussian_curve(1.0)(RATES)
    assert exact == pytest.approx(norm.cdf(norm.isf(RATES) - 1.0))
    assert (curve(RATES) <= exact + 1e-9).all()
    assert curve(RATES) == pytest.approx(exact, abs=2e-3)


def test_the_curve_of_sampled_steps_covers_both_directions():
    """Add and remove have different curves: the ledger's is below both, so that swapping the inputs changes nothing."""
    curve = Curve.of(ledger_of(GaussianEvent(0.8, "record", "add-remove", 0.1)))
    x = np.linspace(-6, 8, 4001)
    sampled = 0.9 * norm.sf(x, 0, 0.8) + 0.1 * norm.sf(x, 1, 0.8)
    for positives, negatives in ((norm.sf(x, 0, 0.8), 1 - sampled), (1 - sampled, norm.sf(x, 0, 0.8))):
        assert (curve(positives) <= negatives + 1e-9).all()


def test_the_curve_of_pure_and_of_renyi_ledgers():
    pure = Curve.of(ledger_of(PureEvent(1.5, "vector", "replace-one")))
    assert pure(RATES) == pytest.approx(claim_curve(1.5, 0.0)(RATES), abs=1e-9)
    event = SkellamEvent(4e4, 200.0, 1600.0, "client", "zero-out", -60.0)
    renyi, near = Curve.of(ledger_of(event), "rdp"), gaussian_curve(1.0)
    assert (renyi(RATES) <= near(RATES) + 1e-6).all()
    assert renyi([0.1])[0] > 0.3
    assert Curve()(RATES).tolist() == [0.0] * 7  # claims nothing


@given(st.floats(0.1, 3), st.floats(0, 1), st.floats(0, 1))
def test_curves_fall_and_are_their_own_inverse(multiplier, one, other):
    curve = gaussian_curve(multiplier)
    low, high = sorted((one, other))
    assert curve(low) >= curve(high)
    assert 0 <= curve(low) <= 1 - low + 1e-12
    assert float(curve(curve(np.array([one])))[0]) <= one + 1e-6


def test_the_curve_of_skellam_noise_is_that_of_its_probabilities():
    variance, shift = 300.0, 20
    curve = skellam_curve(variance, shift)
    places = np.arange(-100, 100)
    noise = skellam_noise(variance / 2, variance / 2)
    positives, negatives = noise.sf(places - 1), noise.cdf(places - 1 - shift)
    assert (curve(positives) <= negatives + 1e-9).all()
    assert curve(positives) == pytest.approx(negatives, abs=2e-3)


def test_halved_noise_bare_coordinates_and_an_honest_run():
    """As few samples as the auditor of a step takes: the claim is of noise 1, the vectors have four numbers."""
    curve, apart = gaussian_curve(1.0), np.array([1.0, 1.0, 1.0, 1.0]) / 2

    def tested(confidence, scales):
        rng = np.random.default_rng(5)
        rows = [rng.standard_normal((3000, 4)) * scales + where for where in (0.0, apart)]
        return test_curve(*columns_of(rows[0], rows[1], apart), curve, confidence=confidence)

    honest = tested(SURE, 1.0)
    assert not honest.refuted
    assert honest.false_negatives > honest.needed > 0
    halved = tested(0.999, 0.5)
    assert halved.refuted
    assert halved.false_negatives < halved.needed - 0.1
    assert tested(0.999, np.array([1.0, 0.0, 1.0, 0.0])).refuted
    assert "below the" in str(halved)


@pytest.mark.parametrize(("mu", "samples"), [(1.0, 100_000), (4.0, 20_000)])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_tail_cut_at_three_deviations_is_found(mu, samples, side):
    """In either tail alone: outputs beyond are impossible for one of the two inputs."""
    noise = [drawn(seed, 3 * samples) for seed in (1, 2)]
    one, other = (each[side * each < 3][:samples] for each in noise)
    assert test_curve(one, mu + other, gaussian_curve(1 / mu), confidence=0.999).refuted
    whole = [each[:samples] for each in noise]
    assert not test_curve(whole[0], mu + whole[1], gaussian_curve(1 / mu), confidence=SURE).refuted


def test_either_direction_of_a_score_and_any_column_is_looked_at():
    one, other = drawn(3, 4000), drawn(4, 4000, mu=3.0)
    nothing = drawn(5, 8000).reshape(2, -1)
    curve = gaussian_curve(1.0)
    assert test_curve(-one, -other, curve, confidence=0.99).refuted
    columns = [np.stack([nothing[i], each], axis=1) for i, each in enumerate((one, other))]
    assert test_curve(columns[0], columns[1], curve, confidence=0.99).refuted
    assert np.array_equal(clearest(*columns)[1], other)


def test_a_false_refutation_is_as_rare_as_the_confidence_says():
    """Of 200 honest tests each may fail once in ten; they fail less often, as Clopper and Pearson's bounds do."""
    curve = gaussian_curve(1.0)
    rows = np.random.default_rng(7).standard_normal((200, 2, 200))
    refuted = sum(test_curve(one, other + 1.0, curve, confidence=0.9).refuted for one, other in rows)
    assert refuted <= 20


def test_what_chooses_does_not_judge():
    """Scores learned from the first half separate it perfectly, and the second one not at all."""
    one, other = drawn(8, 400), drawn(9, 400)
    one[:200], other[:200] = 0.0, 1.0
    assert not test_curve(one, other, claim_curve(0.0, 0.0), confidence=SURE).refuted


def test_of_many_tests_the_worst_is_told_at_the_confidence_of_all():
    curve = gaussian_curve(1.0)
    each = corrected(0.99, 3)
    tests = [
        test_curve(drawn(seed, 2000), drawn(seed + 10, 2000, mu=mu), curve, confidence=each)
        for seed, mu in ((1, 0.2), (2, 3.0), (3, 1.0))
    ]
    place, worst = worst_of(tests, 0.99)
    assert (place, worst.refuted, worst.confidence, worst.samples) == (1, True, 0.99, 12_000)
    with pytest.raises(ValueError, match="each of 3 tests"):
        worst_of(tests, 0.999)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: test_curve(np.zeros(10), np.zeros(100), Curve(), confidence=0.9), "at least 20"),
        (lambda: test_curve(np.full(30, math.nan), np.zeros(30), Curve(), confidence=0.9), "NaN"),
        (lambda: test_curve(np.zeros((30, 2)), np.zeros(30), Curve(), confidence=0.9), "give as many"),
        (lambda: test_curve(np.zeros(30), np.zeros(30), Curve(), confidence=1.0), "confidence"),
        (lambda: gaussian_curve(0.0), "multiplier"),
        (lambda: Curve(((-1.0, 0.0),)), "lines"),
    ],
)
def test_what_cannot_be_tested_is_refused(made, words):
    with pytest.raises(ValueError, match=words):
        made()
