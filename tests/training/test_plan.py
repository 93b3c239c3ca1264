"""What a plan costs is what dp-accounting says for the same events, asked independently."""

import json
import math
import subprocess
import sys

import dp_accounting
import pytest
from dp_accounting import pld, rdp
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.dp import losses, pricing
from tacit.dp.schedules import ClipAdaptation, NoiseDecay
from tacit.training.plan import Plan

SMALL = {"records": 1000, "batch": 100, "epochs": 3, "delta": 1e-5}


def by_pld(*events: tuple[dp_accounting.DpEvent, int], interval: float = 1e-4) -> float:
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=interval
    )
    for event, count in events:
        accountant.compose(event, count)
    return accountant.get_epsilon(1e-5)


def by_rdp(*events: tuple[dp_accounting.DpEvent, int]) -> float:
    accountant = rdp.RdpAccountant()
    for event, count in events:
        accountant.compose(event, count)
    return accountant.get_epsilon(1e-5)


def sampled(multiplier: float, probability: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(multiplier))


def test_gaussian_noise_on_poisson_samples():
    plan = Plan(**SMALL, noise_multiplier=1.1)
    assert plan.steps == 30
    assert plan.epsilon_after(17) == pytest.approx(by_pld((sampled(1.1, 0.1), 17)), rel=1e-3)
    assert plan.epsilon_after(17, "rdp") == pytest.approx(by_rdp((sampled(1.1, 0.1), 17)), rel=1e-3)
    assert plan.epsilon_after(0) == 0
    assert plan.epsilon_after(17) < plan.epsilon_after(18)


def test_a_target_is_met_and_not_by_far():
    plan = Plan(**SMALL, epsilon=2.0)
    exact = by_pld((sampled(plan.initial_noise, 0.1), plan.steps))
    assert 2.0 * 0.998 < exact <= 2.0 * (1 + 1e-4)
    assert plan.epsilon_after(plan.steps) <= 2.0 * (1 + 1e-9)


def test_shuffled_batches_claim_no_amplification():
    plan = Plan(**SMALL, noise_multiplier=4.0, sampling="shuffled")
    gaussian = dp_accounting.GaussianDpEvent(4.0)
    assert plan.epsilon_after(30) == pytest.approx(by_pld((gaussian, 3)), rel=1e-3)
    assert plan.epsilon_after(11) == pytest.approx(by_pld((gaussian, 2)), rel=1e-3)  # the second epoch has begun
    assert plan.epsilon_after(1) == plan.epsilon_after(10)
    assert plan.relation == "zero-out"
    assert plan.epsilon_after(30, "zcdp") == pytest.approx(by_rdp((gaussian, 3)), rel=0.05)


def test_the_secure_tier_costs_the_same_but_for_its_slack():
    fast, secure = (Plan(**SMALL, noise_multiplier=1.1, tier=tier) for tier in ("fast", "secure"))
    assert fast.epsilon_after(30) <= secure.epsilon_after(30) <= fast.epsilon_after(30) * (1 + 1e-6)
    assert secure.event(0).log2_slack is not None


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        pytest.param("Time", 0.05, marks=pytest.mark.slow),
        ("Step", 0.03),
        pytest.param("Exp", 0.04, marks=pytest.mark.slow),
    ],
)
def test_a_decaying_noise_is_accounted_level_by_level(kind, rate):
    plan = Plan(**SMALL, noise_multiplier=3.0, decay=kind, rate=rate)
    formula = NoiseDecay(3.0, kind, rate)
    levels = [plan.noise_of(step) for step in range(plan.steps)]
    # What is drawn is what is paid for, never less than the seed's formula, and not much more.
    assert levels == [plan.event(step).noise_multiplier for step in range(plan.steps)]
    assert all(formula.at(step) * (1 - 1e-9) <= level < formula.at(step) * 1.1 for step, level in enumerate(levels))
    assert levels == sorted(levels, reverse=True)
    assert len(set(levels)) > 3
    counted = [(sampled(level, 0.1), levels.count(level)) for level in sorted(set(levels), reverse=True)]
    assert plan.epsilon_after(plan.steps) == pytest.approx(by_pld(*counted, interval=1e-3), rel=1e-3)
    assert plan.epsilon_after(plan.steps) < 0.95 * plan.epsilon_after(plan.steps, "rdp")
    lines = dict(plan.ledger(plan.steps).lines)
    assert {event.noise_multiplier: count for event, count in lines.items()} == {
        level: levels.count(level) for level in levels
    }


@pytest.mark.parametrize("kind", ["Time", "Step", "Exp"])
def test_the_formulas_of_the_seed_step_by_step(kind):
    initial, rate, sigma = 2.0, 0.1, 2.0
    for step in range(5):
        assert NoiseDecay(initial, kind, rate).at(step) == pytest.approx(sigma, rel=1e-12)
        sigma = {"Time": initial / (initial / sigma + rate), "Step": (1 - rate) * sigma, "Exp": sigma / math.e**rate}[
            kind
        ]


def test_a_decaying_noise_is_calibrated():
    plan = Plan(records=1000, batch=250, epochs=10, delta=1e-5, epsilon=4.0, decay="Exp", rate=0.02)
    assert 4.0 * 0.9998 < plan.epsilon_after(plan.steps) <= 4.0
    levels = [plan.noise_of(step) for step in range(plan.steps)]
    counted = [(sampled(level, 0.25), levels.count(level)) for level in sorted(set(levels), reverse=True)]
    assert 4.0 * 0.998 < by_pld(*counted, interval=1e-3) <= 4.0 * (1 + 1e-3)


def test_calibration_prices_a_plan_a_few_times_only(monkeypatch):
    asked = []
    one = losses.compose
    monkeypatch.setattr(losses, "compose", lambda lines: asked.append(len(lines)) or one(lines))
    for change in ({}, {"decay": "Exp", "rate": 0.03}, {"noise": "laplace"}):
        asked.clear()
        pricing._composed.cache_clear()
        pricing.epsilon_of.cache_clear()
        plan = Plan(**SMALL, epsilon=1.3, **change)
        assert 1.3 * 0.9998 < plan.epsilon_after(plan.steps) <= 1.3
        plan.ledger(plan.steps).reading()
        assert len(asked) <= 10


def test_laplace_on_poisson_samples_is_amplified():
    plan = Plan(**SMALL, noise="laplace", noise_multiplier=2.0)
    amplified = math.log(1 + 0.1 * (math.exp(0.5) - 1))
    assert amplified <= plan.event(0).epsilon == pytest.approx(amplified, rel=1e-6)
    assert plan.ledger(30).pure_epsilon() == pytest.approx(30 * amplified)
    laplace = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(2.0))
    assert plan.epsilon_after(30) == pytest.approx(by_pld((laplace, 30)), rel=1e-3)
    shuffled = Plan(**SMALL, noise="laplace", noise_multiplier=2.0, sampling="shuffled")
    assert shuffled.ledger(30).pure_epsilon() == pytest.approx(1.5)
    assert Plan(**SMALL, noise="laplace", epsilon=2.0).epsilon_after(30) == pytest.approx(2.0, rel=1e-3)
    assert plan.drawn == "secure"


def test_what_the_noisy_count_takes():
    adapt = ClipAdaptation("Geometric", 0.5, 0.2)
    plan = Plan(**SMALL, noise_multiplier=1.5, adapt=adapt, count_noise=0.05)
    count = 0.05 * 100
    # Both releases of a step together: sensitivities 1 and 1/2 over their noise.
    assert 1 / plan.noise_of(3) ** 2 + 1 / (2 * count) ** 2 == pytest.approx(1 / 1.5**2)
    assert plan.event(3).noise_multiplier == 1.5
    with pytest.raises(ValueError, match=r"raise count_noise above 0\.0075"):
        Plan(**SMALL, noise_multiplier=1.5, adapt=adapt, count_noise=0.007).noise_of(0)


@given(records=st.integers(1, 10**9), data=st.data())
@settings(max_examples=50)
def test_the_probability_is_drawn_as_what_is_accounted(records, data):
    batch = data.draw(st.integers(1, records))
    plan = Plan(records=records, batch=batch, epochs=1, noise_multiplier=1.0)
    assert float(plan.probability * 2**53).is_integer()
    assert plan.probability <= batch / records
    assert plan.probability == pytest.approx(batch / records, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 2000}, "only 1000 records"),
        ({"epsilon": 1.0}, "either epsilon"),
        ({"noise_multiplier": None}, "either epsilon"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be"),
        ({"epochs": 0}, "epochs must be"),
        ({"batch": 1.5}, "batch must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"clip": -1.0}, "clip must be"),
        ({"noise": "normal"}, "noise must be one of"),
        ({"tier": "slow"}, "tier must be one of"),
        ({"sampling": "random"}, "sampling must be one of"),
        ({"rate": 0.1}, "without a decay"),
        ({"decay": "Exp", "rate": 5.0}, "take a (lower rate|rate below)"),
        ({"decay": "Step", "rate": 1.0}, "rate must be"),
        ({"noise": "laplace", "adapt": ClipAdaptation("Linear", 0.5, 0.2)}, "adapt is for gaussian"),
        ({"physical": 0}, "physical must be"),
    ],
)
def test_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Plan(**{**SMALL, "noise_multiplier": 1.1, **change})


def test_a_summary_is_plain_data():
    plan = Plan(**SMALL, noise_multiplier=1.1, tier="secure", adapt=ClipAdaptation("Linear", 0.5, 0.2))
    summary = json.loads(json.dumps(plan.summary()))
    assert summary["tier"] == "secure"
    assert summary["steps"] == 30
    assert summary["epsilon"] == plan.epsilon_after(30)


def test_a_plan_needs_no_torch_and_says_nothing():
    code = (
        "import sys, tacit; assert 'numpy' not in sys.modules\n"
        "plan = tacit.Plan(records=1000, batch=50, epochs=1, noise_multiplier=0.6)\n"
        "assert plan.epsilon_after(20, 'rdp') > 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert tacit.Plan is Plan
    with pytest.raises(AttributeError):
        tacit.Nothing  # noqa: B018


def test_adapt_must_be_an_adaptation():
    with pytest.raises(ValueError, match="ClipAdaptation"):
        Plan(records=100, batch=10, epochs=1, noise_multiplier=1.0, adapt="Linear")


@pytest.mark.parametrize("steps", [1, 7, 10, 25, 30])
def test_falling_noise_over_shuffled_batches_costs_the_least_noise_of_each_epoch(steps):
    falling = Plan(
        records=100, batch=10, epochs=3, noise_multiplier=4.0, decay="Exp", rate=0.05, sampling="shuffled"
    )  # fmt: skip
    epochs = [range(start, min(start + 10, steps)) for start in range(0, steps, 10)]
    least = [min(falling.noise_of(step) for step in epoch) for epoch in epochs]
    assert falling.noise_of(0) > falling.noise_of(9)
    paid = [event.noise_multiplier for event, count in falling.ledger(steps).lines for _ in range(count)]
    assert sorted(paid) == sorted(least)
