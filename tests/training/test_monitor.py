"""Monitors: what they show, where they stop, how many epochs they suggest."""

import pytest

from tacit.dp import pricing
from tacit.errors import BudgetError
from tacit.training import Monitor
from tacit.training import attach as attaching
from tests.training.test_optimizer import OPTIMIZERS
from tests.training.trainings import Silent, data, model, plan, train


def attach(given, *monitors):
    module = model()
    optimizer = OPTIMIZERS["sgd"](module.parameters())
    return attaching.attach(given, module, optimizer, data(), monitors=monitors, source=Silent(), check=False)


@pytest.mark.parametrize(
    ("method", "changed"), [("rdp", {}), ("pld", {}), ("zcdp", {"sampling": "shuffled"}), ("zcdp", {"batch": 40})]
)
def test_a_monitor_shows_what_the_plan_costs(method, changed):
    told = []
    given = plan(epochs=3, **changed)
    monitor = Monitor(given, method, every=3, tell=lambda *line: told.append(line))
    module, optimizer, loader = attach(given, monitor)
    train(module, optimizer, loader, 3)
    due = [step for step in range(1, given.steps + 1) if step % 3 == 0 or step == given.steps]
    assert told == [(step, given.epsilon_after(step, method), method) for step in due]
    assert monitor.epsilon(given.steps) == told[-1][1]


def test_the_default_line(capsys):
    given = plan()
    module, optimizer, loader = attach(given, Monitor(given, "rdp", every=8))
    train(module, optimizer, loader, 2)
    assert capsys.readouterr().out == f"step 8 epsilon {given.epsilon_after(8, 'rdp'):.4g} (rdp)\n"


@pytest.mark.parametrize("method", ["rdp", "pld"])
def test_training_stops_before_the_budget_is_exceeded(method):
    given = plan(epochs=10)
    budget = given.epsilon_after(17, method) * 1.0001
    module, optimizer, loader = attach(given, Monitor(given, method, budget, tell=lambda *line: None))
    with pytest.raises(BudgetError, match=r"step 18 would bring epsilon above .*training stops"):
        train(module, optimizer, loader, 10)
    assert optimizer.steps == 17
    assert optimizer.epsilon(method) <= budget
    assert sum(count for _, count in optimizer.ledger.lines) == 17


def test_prices_are_asked_for_only_where_shown(monkeypatch):
    asked = []
    honest = pricing.epsilon_of
    monkeypatch.setattr(
        "tacit.dp.accounting.epsilon_of", lambda lines, *rest: asked.append(lines) or honest(lines, *rest)
    )
    given = plan(epochs=20)
    module, optimizer, loader = attach(given, Monitor(given, "rdp", 1e6, every=40, tell=lambda *line: None))
    train(module, optimizer, loader, 20)
    assert len(asked) <= 3  # the budget, and two reports of 80 steps


@pytest.mark.parametrize("method", ["rdp", "pld"])
def test_the_epochs_that_a_budget_pays_for(method):
    given = plan(noise_multiplier=3.0)
    monitor = Monitor(given, method, budget=2.0)
    epochs = monitor.max_epoch_suggest()
    assert epochs > 2
    longer = plan(noise_multiplier=3.0, epochs=epochs + 1)
    assert longer.epsilon_after(4 * epochs, method) <= 2.0 < longer.epsilon_after(4 * (epochs + 1), method)
    assert Monitor(given, method, budget=1e-3).max_epoch_suggest() == 0


def test_refused():
    with pytest.raises(ValueError, match=r"not amplified by subsampling.*sampling='shuffled'"):
        Monitor(plan(), "zcdp")
    with pytest.raises(ValueError, match="no budget to divide"):
        Monitor(plan()).max_epoch_suggest()
    with pytest.raises(ValueError, match="every must be"):
        Monitor(plan(), every=0)
    with pytest.raises(ValueError, match="budget must be"):
        Monitor(plan(), budget=-1.0)
    with pytest.raises(ValueError, match="of another plan"):
        attach(plan(), Monitor(plan(epochs=3)))
