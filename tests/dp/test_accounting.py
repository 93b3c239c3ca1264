from __future__ import annotations

import json
import math
import threading

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tacit.dp import losses, mechanisms, pricing
from tacit.dp.accounting import Budget, Ledger, reading
from tacit.dp.calibration import gaussian_delta, gaussian_epsilon, gaussian_sigma
from tacit.dp.release import ConcentratedEvent, GaussianEvent, LaplaceEvent, PureEvent, Released
from tacit.errors import BudgetError


def ledger_of(*lines, unit="record", relation="add-remove", budget=None) -> Ledger:
    ledger = Ledger(unit, relation, budget)
    for event, count in lines:
        ledger.spend(event, count)
    return ledger


def gaussian(multiplier: float, q: float = 1.0, **more) -> GaussianEvent:
    return GaussianEvent(multiplier, "record", "add-remove", q, **more)


def pure(epsilon: float) -> PureEvent:
    return PureEvent(epsilon, "record", "add-remove")


# --- known figures


def test_a_long_private_training():
    ledger = ledger_of((gaussian(1.1, 256 / 60000), 14_062))
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(2.5966, abs=1e-4)
    assert ledger.epsilon(1e-5, "pld") == pytest.approx(2.38, abs=0.01)
    with pytest.raises(ValueError, match="not amplified by subsampling"):
        ledger.epsilon(1e-5, "zcdp")


def test_a_hundred_full_batches():
    ledger = ledger_of((gaussian(20.0), 100))
    assert ledger.epsilon(1e-5, "pld") == pytest.approx(1.9931, abs=1e-4)
    assert ledger.epsilon(1e-5, "zcdp") == pytest.approx(2.1657, abs=1e-4)
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(2.1657, abs=1e-3)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove", "zero-out"])
def test_a_multiplier_is_relative_to_the_sensitivity_of_its_relation(relation):
    """dp-accounting's PLD doubles the sensitivity for replace-one, its RDP does not; an event's is doubled already."""
    ledger = ledger_of((GaussianEvent(1.0, "client", relation), 1), unit="client", relation=relation)
    exact = gaussian_epsilon(1.0, 1e-5)
    assert exact == pytest.approx(4.377, abs=1e-3)
    assert ledger.epsilon(1e-5) == exact
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(4.7285, abs=1e-3)


def test_dp_accounting_doubles_the_sensitivity_itself():
    doubling = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3)
    doubling.compose(dp_accounting.GaussianDpEvent(1.0))
    assert doubling.get_epsilon(1e-5) == pytest.approx(9.997, abs=1e-2)


# --- independent oracles


@pytest.mark.parametrize(("multiplier", "q", "steps"), [(0.8, 0.01, 300), (2.0, 0.1, 100), (1.0, 0.5, 20)])
def test_dp_accounting_agrees_on_sampled_steps(multiplier, q, steps):
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(multiplier))
    ledger = ledger_of((gaussian(multiplier, q), steps))
    theirs = pld.PLDAccountant(value_discretization_interval=4e-4).compose(event, steps)
    assert ledger.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-3)
    assert ledger.delta(1.0) == pytest.approx(theirs.get_delta(1.0), rel=1e-3)
    renyi = rdp.RdpAccountant().compose(event, steps)
    assert ledger.epsilon(1e-6, "rdp") == pytest.approx(renyi.get_epsilon(1e-6), rel=1e-9)


def exact_delta(multiplier, q, epsilon):
    """Of one Gaussian step on a Poisson sample, from the densities: where one is above e^epsilon times the other."""

    def both(x):
        """The tails above x of the noise alone, and of the noise with the record."""
        alone = norm.sf(x / multiplier)
        return alone, (1 - q) * alone + q * norm.sf((x - 1) / multiplier)

    def crossing(ratio):
        return multiplier**2 * math.log((ratio - 1 + q) / q) + 0.5

    alone, there = both(crossing(math.exp(epsilon)))
    removed, added = there - math.exp(epsilon) * alone, 0.0
    if math.exp(-epsilon) > 1 - q:
        alone, there = both(crossing(math.exp(-epsilon)))
        added = (1 - alone) - math.exp(epsilon) * (1 - there)
    return max(removed, added)


@pytest.mark.parametrize(("multiplier", "q"), [(1.0, 0.1), (0.7, 0.01), (3.0, 0.5)])
def test_a_sampled_step_is_never_priced_below_what_it_costs(multiplier, q):
    ledger = ledger_of((gaussian(multiplier, q), 1))
    for epsilon in (0.05, 0.1, 0.3, 0.7, 1.5):
        exact = exact_delta(multiplier, q, epsilon)
        assert exact - 1e-15 <= ledger.delta(epsilon) <= exact * 1.01 + 1e-10


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_pure_events_compose_like_randomized_response(epsilon):
    """Exactly: n binary responses against the flipped ones, a sum over binomial outcomes."""
    n = 20
    keep = 1 / (1 + math.exp(-epsilon))
    k = np.arange(n + 1)
    one, other = binom.pmf(k, n, keep), binom.pmf(k, n, 1 - keep)
    ledger = ledger_of((pure(epsilon), n))
    for total in (0.3, 1.0, 2.0, 5.0):
        exact = float(np.maximum(0, one - math.exp(total) * other).sum())
        assert ledger.delta(total) == pytest.approx(exact, rel=5e-3, abs=1e-12)
        assert ledger.delta(total) >= exact * (1 - 1e-9) - 1e-14
        assert ledger.delta(total, "rdp") >= exact - 1e-15
        assert ledger.delta(total, "zcdp") >= exact - 1e-15
    assert ledger.pure_epsilon() == pytest.approx(n * epsilon)
    assert ledger.epsilon(1e-280) <= n * epsilon
    assert ledger.delta(n * epsilon + 1e-9) == 0


def test_unlike_gaussians_add_up_analytically():
    ledger = ledger_of((gaussian(2.0), 3), (gaussian(5.0), 7))
    multiplier = (3 / 4 + 7 / 25) ** -0.5
    assert ledger.epsilon(1e-5) == pytest.approx(gaussian_epsilon(multiplier, 1e-5), rel=1e-12)
    assert ledger.delta(1.0) == pytest.approx(gaussian_delta(multiplier, 1.0), rel=1e-12)


def test_a_mixture_of_kinds_is_between_its_parts_and_their_sum():
    parts = [(gaussian(3.0), 4), (gaussian(1.0, 0.01), 100), (pure(0.2), 5)]
    ledger = ledger_of(*parts)
    each = [ledger_of(part).epsilon(1e-6) for part in parts]
    for method in ("pld", "rdp"):
        assert max(each) < ledger.epsilon(1e-6, method) < sum(each) * 1.2
    assert ledger.epsilon(1e-6) < ledger.epsilon(1e-6, "rdp")


def test_large_pure_epsilons_add():
    ledger = ledger_of((pure(230_260.0), 30), (pure(1.0), 1))
    assert ledger.epsilon(1e-5) == pytest.approx(30 * 230_260 + 1, rel=1e-6)
    assert ledger.delta(1000.0) == 1.0


def test_sampled_laplace_noise_costs_less_than_any_pure_mechanism_may():
    event = LaplaceEvent(2.0, "record", "add-remove", 0.1)
    amplified = math.log1p(0.1 * math.expm1(0.5))
    ledger = ledger_of((event, 30))
    theirs = pld.PLDAccountant().compose(
        dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(2.0)), 30
    )
    assert ledger.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
    assert ledger.epsilon(1e-5) < 0.87 * ledger_of((pure(amplified), 30)).epsilon(1e-5)
    assert ledger.pure_epsilon() == pytest.approx(30 * amplified)
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(ledger_of((pure(amplified), 30)).epsilon(1e-5, "rdp"))
    assert ledger_of((LaplaceEvent(1e-3, "record", "add-remove", 0.1), 2)).epsilon(1e-5) == pytest.approx(
        1995.4, abs=0.1
    )


def test_zcdp_events_have_no_loss_distribution():
    ledger = ledger_of((ConcentratedEvent(0.125, "record", "add-remove"), 1))
    assert ledger.epsilon(1e-5, "zcdp") == pytest.approx(2.1657, abs=1e-4)
    with pytest.raises(ValueError, match="method='rdp', or a finer grid"):
        ledger.epsilon(1e-5)


# --- laws

events = st.one_of(
    st.builds(gaussian, st.floats(0.5, 20)),
    st.builds(gaussian, st.floats(0.5, 5), st.floats(0.01, 0.9)),
    st.builds(pure, st.floats(0.01, 3)),
    st.builds(lambda z, q: LaplaceEvent(z, "record", "add-remove", q), st.floats(0.5, 5), st.floats(0.01, 1)),
)


@settings(max_examples=15)
@given(st.lists(st.tuples(events, st.integers(1, 50)), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_composition_is_free_of_order(lines, random):
    shuffled = list(lines)
    random.shuffle(shuffled)
    ours, other = ledger_of(*lines), ledger_of(*shuffled)
    assert ours.epsilon(1e-5, "rdp") == pytest.approx(other.epsilon(1e-5, "rdp"), rel=1e-9)


def test_pld_composition_is_free_of_order():
    lines = [(gaussian(1.0, 0.02), 50), (pure(0.3), 3), (gaussian(4.0), 2), (gaussian(2.0, 0.3), 5)]
    forward, backward = ledger_of(*lines), ledger_of(*lines[::-1])
    assert forward.epsilon(1e-5) == pytest.approx(backward.epsilon(1e-5), rel=1e-6)


@pytest.mark.parametrize("method", ["pld", pytest.param("rdp", marks=pytest.mark.slow)])
@settings(max_examples=12)
@given(st.floats(0.5, 10), st.floats(1.05, 3), st.floats(0.01, 1), st.integers(1, 300))
def test_epsilon_falls_as_noise_grows(method, multiplier, factor, q, steps):
    less, more = ledger_of((gaussian(multiplier, q), steps)), ledger_of((gaussian(multiplier * factor, q), steps))
    assert more.epsilon(1e-5, method) <= less.epsilon(1e-5, method)
    assert less.epsilon(1e-5) <= less.epsilon(1e-5, "rdp") * (1 + 1e-3)


@given(st.floats(0.3, 10), st.integers(1, 300), st.sampled_from(["pld", "rdp", "zcdp"]))
def test_epsilon_and_delta_are_inverse(multiplier, steps, method):
    ledger = ledger_of((gaussian(multiplier), steps))
    epsilon = ledger.epsilon(1e-5, method)
    if epsilon > 0:
        assert ledger.delta(epsilon, method) == pytest.approx(1e-5, rel=1e-3)


def test_equal_events_are_one_line():
    ledger = ledger_of((gaussian(2.0), 3), (pure(0.1), 1), (gaussian(2.0), 4))
    assert ledger.lines == ((gaussian(2.0), 7), (pure(0.1), 1))
    assert Ledger("record", "add-remove").epsilon(1e-5) == 0


# --- slack of the samplers


def test_slack_raises_delta_and_in_the_end_voids_the_claim():
    clean, slack = gaussian(1.0), gaussian(1.0, log2_slack=-20.0)
    epsilon = 2.0
    expected = gaussian_delta(1.0, epsilon) + (1 + math.exp(epsilon)) * 2.0**-20
    assert ledger_of((slack, 1)).delta(epsilon) == pytest.approx(expected)
    assert ledger_of((slack, 1)).epsilon(1e-2) > ledger_of((clean, 1)).epsilon(1e-2)
    assert ledger_of((slack, 1)).epsilon(1e-9) == math.inf
    assert ledger_of((slack, 2)).delta(epsilon) > ledger_of((slack, 1)).delta(epsilon)


def test_our_samplers_certify_large_epsilons():
    event = mechanisms.gaussian(np.zeros(1000), sensitivity=2.0, noise_multiplier=gaussian_sigma(50.0, 1e-3)).event
    ledger = Ledger("client", "replace-one")
    ledger.spend(event, 30)
    assert ledger.epsilon(1e-3) == pytest.approx(959, abs=2)
    ledger.spend(event, 50)  # beyond what the noise's precision certifies at once: parts add up
    assert 2300 < gaussian_epsilon(event.noise_multiplier / math.sqrt(80), 1e-3) < ledger.epsilon(1e-3) < 2800


# --- budgets


def test_a_budget_admits_exactly_what_it_was_calibrated_for():
    multiplier = gaussian_sigma(3.0, 1e-5) * math.sqrt(10)
    released = mechanisms.gaussian(np.zeros(5), sensitivity=1.0, noise_multiplier=multiplier * (1 + 1e-9))
    ledger = Ledger("client", "replace-one", Budget(3.0, 1e-5))
    for _ in range(10):
        ledger.release(released)
    assert not ledger.affords(released.event)
    before = ledger.lines
    with pytest.raises(BudgetError, match=r"epsilon to 3\.\d+ at delta 1e-05, the budget is 3"):
        ledger.release(released)
    assert ledger.lines == before
    assert ledger.epsilon(1e-5) <= 3.0


def test_without_a_budget_everything_is_affordable():
    ledger = Ledger("record", "add-remove")
    assert ledger.affords(gaussian(1e-3), 10**6)
    assert ledger.release(Released("value", gaussian(1.0))) == "value"


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(1.0, "client", "add-remove"),
        PureEvent(1.0, "record", "replace-one"),
        PureEvent(1.0, "label", "zero-out"),
    ],
)
def test_mixtures_are_refused(event):
    ledger = ledger_of((gaussian(1.0), 1))
    with pytest.raises(ValueError, match="keep one ledger for each"):
        ledger.spend(event)
    assert ledger.lines == ((gaussian(1.0), 1),)


# --- storage


@settings(max_examples=30)
@given(st.lists(st.tuples(events, st.integers(1, 50)), max_size=5))
def test_json_round_trip(lines):
    ledger = ledger_of(*lines, (gaussian(1.5, log2_slack=-2000.5), 2), budget=Budget(1e9, 1e-5, "rdp"))
    ledger.spend(ConcentratedEvent(0.5, "record", "add-remove"))
    back = Ledger.from_json(json.loads(json.dumps(ledger.to_json(), allow_nan=False)))
    assert back.lines == ledger.lines
    assert (back.unit, back.relation, back.budget) == (ledger.unit, ledger.relation, ledger.budget)


def test_a_stored_ledger_over_its_budget_still_loads():
    data = ledger_of((gaussian(0.5), 9)).to_json() | {"budget": {"epsilon": 1.0, "delta": 1e-5, "method": "pld"}}
    ledger = Ledger.from_json(data)
    with pytest.raises(BudgetError):
        ledger.spend(gaussian(100.0))


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"unit": "person"},
        {"lines": [{"kind": "secret", "count": 1}]},
        {"lines": [{"kind": "pure", "count": 1, "epsilon": -1.0}]},
        {"lines": [{"kind": "pure", "count": 0, "epsilon": 1.0}]},
        {"lines": [{"kind": "pure", "count": 1, "epsilon": 1.0, "extra": 1}]},
        {"lines": [{"kind": "pure", "epsilon": 1.0}]},
        {"budget": {"epsilon": 0.0, "delta": 0.1}},
    ],
)
def test_damaged_ledgers_are_refused(damage):
    with pytest.raises(ValueError, match=r"."):
        Ledger.from_json(Ledger("record", "add-remove").to_json() | damage)


# --- what an epsilon means


def test_reading_of_pure_epsilon():
    found = reading(math.log(3))
    assert found.posterior == pytest.approx(0.75)
    assert found.accuracy == pytest.approx(0.75)
    assert found.true_positives_at_1_percent == pytest.approx(0.03)
    assert "right one at most 75%" in str(found)
    assert reading(0.0).posterior == 0.5
    assert reading(230_260.0).true_positives_at_1_percent == 1.0
    assert reading(math.inf).posterior == 1.0
    assert reading(0.0, 0.1).true_positives_at_1_percent == pytest.approx(0.11)


def test_the_trade_off_of_a_gaussian_is_the_normal_curve():
    rates = np.array([0.001, 0.01, 0.1, 0.5])
    found = ledger_of((gaussian(0.8), 1)).trade_off(rates)
    exact = norm.cdf(norm.isf(rates) - 1 / 0.8)
    assert found == pytest.approx(exact, abs=2e-3)
    assert (found <= exact + 1e-9).all()


def test_the_trade_off_of_randomized_response():
    found = ledger_of((pure(1.0), 1)).trade_off([0.0, 0.01, 1.0])
    assert found == pytest.approx([1.0, 1 - 0.01 * math.e, 0.0], abs=2e-3)
    assert ledger_of((gaussian(1.0, log2_slack=-2.0), 1)).trade_off([0.1]).tolist() == [0.0]


# --- work that is not done twice


@pytest.mark.slow  # 4 s
def test_sixty_noise_levels_by_rdp():
    ledger = ledger_of(*((gaussian(1.1 - 0.005 * i, 256 / 60000), 234) for i in range(60)))
    assert ledger.epsilon(1e-5, "rdp") == pytest.approx(3.5976, abs=1e-3)


@pytest.fixture
def composed(monkeypatch):
    """How many lines were composed, each time that some were: what the time goes into."""
    pricing._composed.cache_clear()
    pricing.epsilon_of.cache_clear()
    found = []
    one = losses.compose

    def counted(lines):
        found.append(len(lines))
        return one(lines)

    monkeypatch.setattr(losses, "compose", counted)
    return found


def test_sixty_noise_levels_by_pld_are_composed_once(composed):
    ledger = ledger_of(*((gaussian(1.1 - 0.005 * i, 256 / 60000), 234) for i in range(60)))
    assert ledger.epsilon(1e-5) == pytest.approx(3.2635, abs=5e-3)
    assert ledger.epsilon(1e-6) < ledger.epsilon(1e-7)
    ledger.reading()
    assert composed == [60]


# --- bad input


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_bad_deltas_are_refused(delta):
    for call in (lambda: ledger_of((pure(1.0), 1)).epsilon(delta), lambda: Budget(1.0, delta)):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got"):
            call()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Ledger("person", "add-remove"),
            "unit must be one of record, owner, client, vector, label, got 'person'",
        ),
        (lambda: Ledger("record", "swap"), "relation must be one of"),
        (lambda: Budget(0.0, 1e-5), "epsilon must be a finite number above 0, got 0.0"),
        (lambda: Budget(1.0, 1e-5, "magic"), "method must be one of pld, rdp, zcdp, got 'magic'"),
        (lambda: pure(-1.0), "epsilon must be finite and at least 0, got -1.0"),
        (lambda: pure(math.nan), "epsilon must be finite and at least 0, got nan"),
        (lambda: gaussian(0.0), "noise_multiplier must be a finite number above 0, got 0.0"),
        (lambda: gaussian(1.0, 0.0), r"sampling_probability must be in \(0, 1\], got 0.0"),
        (lambda: GaussianEvent(1.0, "record", "replace-one", 0.5), "not for replace-one"),
        (lambda: ConcentratedEvent(0.0, "record", "add-remove"), "rho must be"),
        (lambda: ledger_of((pure(1.0), 0)), "count must be a whole number of at least 1 .* got 0"),
        (lambda: ledger_of((pure(1.0), 1)).delta(-1.0), "epsilon must be finite and at least 0, got -1.0"),
        (lambda: ledger_of((pure(1.0), 1)).epsilon(0.1, "magic"), "method must be one of"),
        (lambda: ledger_of((pure(1.0), 1)).trade_off([1.5]), r"in \[0, 1\]"),
        (lambda: reading(-1.0), "epsilon must be at least 0, got -1.0"),
        (lambda: reading(1.0, 1.0), r"delta must be in \[0, 1\), got 1.0"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- soundness at the edges


@pytest.mark.parametrize("delta", [1e-6, 1e-8, 1e-9, 1e-10, 1e-12, 1e-14, 1e-20])
def test_pure_compositions_hold_for_small_deltas_too(delta):
    n, epsilon = 1000, 0.1
    keep = 1 / (1 + math.exp(-epsilon))
    k = np.arange(n + 1)
    one, other = binom.pmf(k, n, keep), binom.pmf(k, n, 1 - keep)
    claimed = ledger_of((pure(epsilon), n)).epsilon(delta)
    exact = math.fsum(np.maximum(0, one - np.exp(claimed + np.log(np.maximum(other, 1e-320)))))
    assert exact <= delta


def test_pld_never_answers_more_than_rdp_and_falls_in_delta():
    ledger = ledger_of((gaussian(1.1, 256 / 60000), 14_062))
    deltas = (1e-5, 1e-9, 1e-12, 1e-14, 1e-16)
    found = [ledger.epsilon(delta) for delta in deltas]
    assert found == sorted(found)
    assert all(e <= ledger.epsilon(d, "rdp") for e, d in zip(found, deltas, strict=True))
    many = ledger_of((pure(0.3), 100_000))
    assert many.epsilon(1e-5) <= many.epsilon(1e-5, "rdp")


def test_small_epsilons_are_not_drowned_in_the_discretisation():
    ledger = ledger_of((gaussian(600.0, 0.01), 1000))
    assert ledger.epsilon(1e-5) < 1.2e-3


@pytest.mark.parametrize("count", [float("nan"), 1.5, float("inf"), True, 10**400, "3", None])
def test_counts_are_whole_numbers(count):
    ledger = ledger_of(budget=Budget(5.0, 1e-5))
    with pytest.raises(ValueError, match="count must be a whole number"):
        ledger.spend(pure(1.0), count)
    assert ledger.lines == ()


def test_numpy_numbers_are_priced_like_pythons():
    assert pure(np.int8(100)).epsilon * 2 == 200.0
    ledger = ledger_of((pure(np.int8(100)), 2))
    assert ledger.epsilon(1e-5) == 200.0
    assert gaussian(np.float32(0.5)) == gaussian(0.5)
    assert reading(np.uint64(3)) == reading(3)
    event = mechanisms.discrete_gaussian(np.zeros(2, int), l2_sensitivity=np.int32(65537), sigma=500.0).event
    assert event.rho == pytest.approx(65537**2 / 5e5)


@pytest.mark.parametrize("bad", [True, "1", None, 1 + 0j, [1.0], 10**400, 1e200])
def test_what_is_no_number_is_refused_by_name(bad):
    for make in (
        pure,
        gaussian,
        lambda value: Budget(value, 1e-5),
        lambda value: ConcentratedEvent(value, "record", "add-remove"),
    ):
        with pytest.raises(ValueError, match="must be"):
            make(bad)
    with pytest.raises(ValueError, match="log2_slack must be"):
        gaussian(1.0, log2_slack="x")


def test_threads_do_not_spend_the_same_room():
    ledger = ledger_of(budget=Budget(100.5, 1e-5))
    accepted = []

    def spend():
        for _ in range(30):
            try:
                ledger.spend(pure(30.0))
                accepted.append(1)
            except BudgetError:
                pass

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 3 == ledger.lines[0][1]


@pytest.mark.parametrize(
    "damage",
    [
        {"lines": "ab"}, {"lines": [3]}, {"lines": None}, {"budget": {}}, {"budget": 0}, {"version": True},
        {"lines": [{"kind": "pure", "count": 10**400, "epsilon": 1.0}]},
        {"lines": [{"kind": "pure", "count": True, "epsilon": 1.0}]},
        {"lines": [{"kind": "gaussian", "count": 1, "noise_multiplier": 1e200}]},
        {"lines": [{"kind": "gaussian", "count": 1, "noise_multiplier": 1.0, "log2_slack": "x"}]},
    ],
)  # fmt: skip
def test_hostile_ledgers_are_refused(damage):
    with pytest.raises(ValueError, match=r"."):
        Ledger.from_json(Ledger("record", "add-remove").to_json() | damage)


def test_large_counts_are_answered():
    assert ledger_of((gaussian(100.0, 1e-6), 10**9)).epsilon(1e-5) < 1
    assert ledger_of((pure(0.001), 10**12)).epsilon(1e-5) > 1000
    assert ledger_of((gaussian(1e-5, 0.5), 3), (pure(1.0), 1)).epsilon(1e-5) > 1e6


def test_a_trade_off_of_a_mixture_composes_once(composed):
    ledger_of((pure(0.1), 10), (gaussian(1.0), 3)).trade_off([0.01, 0.1])
    assert composed == [2]
    with pytest.raises(ValueError, match="method must be one of"):
        ledger_of((pure(0.1), 10)).trade_off([0.1], method="x")


def test_slack_counts_every_occurrence():
    event = gaussian(1.0, log2_slack=-30.0)
    assert pricing._log_slack(((event, 8),)) == pytest.approx(-27 * math.log(2))


def test_the_reading_of_a_ledger_is_that_of_its_whole_curve():
    """Gaussian: the exact trade-off. Any ledger: no looser than its epsilon at one delta, and none below the truth."""
    ledger = Ledger("client", "replace-one")
    ledger.spend(GaussianEvent(2.0, "client", "replace-one"), 4)  # mu = 1
    found = ledger.reading()
    assert found.accuracy == pytest.approx(norm.cdf(0.5), abs=1e-6)
    rate = norm.cdf(norm.ppf(0.01) + 1)
    assert rate <= found.true_positives_at_1_percent == pytest.approx(rate, rel=1e-3)
    for method in ("pld", "rdp", "zcdp"):
        one = reading(ledger.epsilon(1e-5, method), 1e-5)
        assert norm.cdf(0.5) - 1e-9 <= ledger.reading(method).accuracy <= one.accuracy
        assert ledger.reading(method).true_positives_at_1_percent <= one.true_positives_at_1_percent
    pure = Ledger("client", "replace-one")
    pure.spend(PureEvent(1.0, "client", "replace-one"))
    assert pure.reading().accuracy == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-4)
    assert pure.reading().posterior == pytest.approx(1 / (1 + math.exp(-1)))
    hopeless = Ledger("client", "replace-one")
    hopeless.spend(PureEvent(230260.0, "client", "replace-one"), 10)
    assert hopeless.reading().accuracy == 1
    assert Ledger("client", "replace-one").reading().accuracy == 0.5


def test_readings_are_rounded_up():
    assert "at most 73.2% of the time" in str(reading(1.0))
    assert "at most 100% of the time" in str(reading(50.0))
