from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.dp.schedules import ClipAdaptation, NoiseDecay


@given(st.sampled_from(["Time", "Step", "Exp"]), st.floats(0.1, 10), st.floats(0, 0.1), st.integers(1, 50))
def test_the_closed_form_is_the_step_by_step_rule(kind, initial, rate, steps):
    sigma = initial
    for _ in range(steps):
        sigma = {
            "Time": lambda s: initial / (initial / s + rate),
            "Step": lambda s: (1 - rate) * s,
            "Exp": lambda s: s / math.exp(rate),
        }[kind](sigma)
    assert NoiseDecay(initial, kind, rate).at(steps) == pytest.approx(sigma, rel=1e-9)
    assert NoiseDecay(initial, kind, rate).at(0) == initial


def test_clip_adaptation_follows_the_rule_within_its_range():
    linear = ClipAdaptation("Linear", quantile=0.9, rate=0.2)
    assert linear.next(1.0, 0.5) == pytest.approx(1.08)
    geometric = ClipAdaptation("Geometric", quantile=0.9, rate=0.2)
    assert geometric.next(1.0, 1.0) == pytest.approx(math.exp(-0.02))
    narrow = ClipAdaptation("Linear", quantile=0.5, rate=10.0, smallest=0.1, largest=2.0)
    assert narrow.next(1.0, 1.0) == 0.1
    assert narrow.next(1.0, 0.0) == 2.0
    assert ClipAdaptation("Geometric", 0.5, 1.0).next(1.0, -1e9) == 1e6


@given(st.sampled_from(["Linear", "Geometric"]), st.floats(0.05, 0.95))
def test_clip_adaptation_finds_the_quantile(kind, quantile):
    rule = ClipAdaptation(kind, quantile, rate=0.2)
    norm = 1.0
    for _ in range(2000):
        norm = rule.next(norm, min(1.0, norm / 3))  # norms spread evenly over [0, 3]
    assert norm == pytest.approx(3 * quantile, rel=0.01)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NoiseDecay(0.0, "Time", 0.1),
        lambda: NoiseDecay(1.0, "Linear", 0.1),
        lambda: NoiseDecay(1.0, "Step", 1.0),
        lambda: NoiseDecay(1.0, "Exp", -0.1),
        lambda: NoiseDecay(1.0, "Exp", math.nan),
        lambda: NoiseDecay(1.0, "Exp", 0.1).at(-1),
        lambda: ClipAdaptation("Time", 0.5, 0.1),
        lambda: ClipAdaptation("Linear", 1.0, 0.1),
        lambda: ClipAdaptation("Linear", 0.5, 0.0),
        lambda: ClipAdaptation("Linear", 0.5, 0.1, smallest=1.0, largest=0.5),
        lambda: ClipAdaptation("Linear", 0.5, 0.1).next(0.0, 0.5),
        lambda: ClipAdaptation("Linear", 0.5, 0.1).next(1.0, math.nan),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()


def test_noise_that_decayed_to_nothing_is_refused():
    with pytest.raises(ValueError, match="decayed to 0 at step 2000"):
        NoiseDecay(1.0, "Exp", 1.0).at(2000)
