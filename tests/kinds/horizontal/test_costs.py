"""What the coordinator of a run with distributed DP and noisy inference vectors sees: both, composed."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp

from tacit.dp.release import Event
from tacit.errors import BudgetError
from tacit.events import BudgetReached
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.forecast import plan
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import Inferring, finished, run, settings_for

SIZE = 650
DELTA = 1e-5


def both(epsilon: float = 0.1, ddp_eps: float | None = 4.0, vectors: int = 4, **keys):
    """Settings of a run with distributed DP and inference vectors with Laplace noise."""
    encrypt = {"encrypt_type": "DDP_ENCRYPT", "privacy_eval_type": "LAPLACE", "laplace_eval_eps": epsilon}
    if ddp_eps is not None:
        encrypt["ddp_eps"] = ddp_eps
    wanted = {"cluster_client_num": 6, "vectors": vectors}
    return settings_for(**({"encrypt": encrypt, "unsupervised": wanted} | keys))


def composed(costs: Costs, uploads: int, sums: int):
    return next(spent for spent in costs.spent(uploads, sums) if spent.view == "composed")


def events(costs: Costs) -> tuple[Event, Event]:
    (local,), (central,) = costs.local, costs.central
    return local.event, central.event


@pytest.mark.parametrize(("epsilon", "uploads", "sums"), [(0.1, 3, 3), (0.5, 1, 3), (2.0, 3, 3), (0.01, 12, 3)])
def test_the_renyi_curves_of_sums_and_vectors_add_up(epsilon, uploads, sums):
    """The oracle: dp-accounting's curve of randomized response, which is the worst of all epsilon-DP mechanisms, and
    the bound of Agarwal, Kairouz and Liu for whole orders, converted by dp-accounting."""
    costs = Costs(both(epsilon), SIZE)
    _, skellam = events(costs)
    orders = np.arange(2, 300)
    accountant = rdp.RdpAccountant(list(map(float, orders)), dp_accounting.NeighboringRelation.REPLACE_ONE)
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))
    response = dp_accounting.RandomizedResponseDpEvent(2 * (1 - keep), 2)
    accountant.compose(response, 4 * uploads)
    square, variance = skellam.l2_sensitivity**2, skellam.variance
    extra = ((2 * orders - 1) * square + 6 * skellam.l1_sensitivity) / (4 * variance**2)
    one = orders * square / (2 * variance) + np.minimum(extra, 3 * skellam.l1_sensitivity / (2 * variance))
    expected, _ = rdp.rdp_privacy_accountant.compute_epsilon(orders, accountant.rdp + sums * one, DELTA)
    spent = composed(costs, uploads, sums)
    assert (spent.delta, spent.ledger.relation, spent.covers) == (DELTA, "zero-out", ("updates", "inference vectors"))
    assert spent.epsilon <= expected * (1 + 1e-6)  # ours has more orders
    assert spent.epsilon == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_the_composition_is_no_less_than_the_exact_one(epsilon):
    """Exact: privacy loss distributions of the worst epsilon-DP mechanism, of Laplace noise, and of a Gaussian of the
    Skellam noise's variance, which it is no better than."""
    costs = Costs(both(epsilon), SIZE)
    _, skellam = events(costs)
    distribution = pld.privacy_loss_distribution
    gaussian = distribution.from_gaussian_mechanism(
        np.sqrt(skellam.variance / 3) / skellam.l2_sensitivity, value_discretization_interval=1e-3
    )
    pure = distribution.from_privacy_parameters(
        pld.common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=1e-3
    ).self_compose(12)
    laplace = distribution.from_laplace_mechanism(1 / epsilon, value_discretization_interval=1e-3).self_compose(12)
    worst = gaussian.compose(pure).get_epsilon_for_delta(DELTA)
    real = gaussian.compose(laplace).get_epsilon_for_delta(DELTA)
    spent = {each.view: each.epsilon for each in costs.spent(3, 3)}
    assert real <= worst * 1.01  # discretisation
    assert worst <= spent["composed"] * 1.01
    assert max(spent["local"], spent["central"]) < spent["composed"] <= spent["local"] + spent["central"]
    assert spent["composed"] <= 1.25 * worst


def test_a_run_tells_the_composed_epsilon_after_each_round():
    engine, kept = run(both(), Inferring())
    views = [spent.view for spent in engine.coordinator.spent()]
    assert views == ["local", "central", "composed"]
    told = [(event.composed_epsilon, event.composed_delta) for event in finished(kept)]
    costs = Costs(both(), SIZE)
    assert told == [(composed(costs, done, done).epsilon, DELTA) for done in (1, 2, 3)]
    assert all(event.epsilon < event.composed_epsilon for event in finished(kept))
    assert [price.view for price in plan(both(), Layout.of(Inferring().model()), 10).prices] == views


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "PW_ENCRYPT", "NOT_ENCRYPT"])
def test_where_only_one_sort_of_guarantee_exists_there_is_nothing_to_compose(encrypt_type):
    settings = both(ddp_eps=None)
    data = settings.model_dump()
    data["encrypt"]["encrypt_type"] = encrypt_type
    assert "composed" not in [spent.view for spent in Costs(type(settings)(**data), SIZE).spent(1, 1)]


def test_noise_that_is_not_secret_composes_to_infinity():
    settings = both(simulation={"insecure_noise_seed": 1})
    assert composed(Costs(settings, SIZE), 1, 1).to_json()["epsilon"] == "infinite"


# --- a budget


LIMIT = {"epsilon": 4.5}  # above ddp_eps and above all vectors, below both together


def test_a_budget_binds_the_composition_at_the_coordinator():
    settings = both(0.2, budget=LIMIT)
    whole = {spent.view: spent.epsilon for spent in Costs(settings, SIZE).spent(3, 3)}
    assert max(whole["local"], whole["central"]) < LIMIT["epsilon"] < whole["composed"]
    engine, kept = run(settings, Inferring())
    (reached,) = [event for event in kept.events if isinstance(event, BudgetReached)]
    assert len(finished(kept)) == reached.round == 2
    assert (reached.epsilon, reached.budget, reached.of) == (whole["composed"], 4.5, "updates and inference vectors")
    assert engine.coordinator.spent()[-1].epsilon <= 4.5


def test_a_client_refuses_what_the_coordinator_would_compose_above_the_budget():
    settings, task = both(0.2, budget=LIMIT), Inferring()
    layout = Layout.of(task.model())
    client = Client(settings, 0, task.fit, layout, infers=task)
    client.restore(client.state() | {"attempts": 2, "uploads": 2, "sums": 2})
    with pytest.raises(
        BudgetError, match=r"composed epsilon of updates and inference vectors to 5\.\d+ at delta 1e-05"
    ):
        client.receive(Work(2, layout.flatten(task.model())), 0.0)
    assert client.state()["uploads"] == 2


def test_a_plan_says_how_far_a_budget_reaches_that_only_the_composition_exceeds():
    layout = Layout.of(Inferring().model())
    (warning,) = [text for text in plan(both(0.2, budget=LIMIT), layout, 10).warnings if "budget" in text]
    assert "pays for 2 of 3 rounds of updates and inference vectors" in warning
    assert "a smaller ddp_eps" in warning
    sized = [text for text in plan(both(0.2, None, budget=LIMIT), layout, 10).warnings if "budget" in text]
    assert "pays for 2 of 3 rounds" in sized[0]  # the noise of the sums alone was sized for the whole budget
    assert not [text for text in plan(both(0.01, budget=LIMIT), layout, 10).warnings if "budget" in text]


def test_a_budget_at_a_smaller_delta_holds_at_that_delta():
    settings = both(budget={"epsilon": 9.0, "delta": 1e-7})
    assert composed(Costs(settings, SIZE), 1, 1).delta == 1e-7
