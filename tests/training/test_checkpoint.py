"""A training that is killed and goes on: the same moves, and a ledger that never says less than was released."""

import copy
import io
import json

import numpy as np
import pytest
import safetensors.numpy
import torch
import torch.nn.functional as F

from tacit.dp.schedules import ClipAdaptation
from tacit.errors import BudgetError
from tacit.randomness import seeded_rng
from tacit.training import attach as attaching
from tests.training.test_optimizer import OPTIMIZERS
from tests.training.trainings import Silent, data, flat, model, plan, train


def attach(given, module, make=OPTIMIZERS["sgd"], rng=None, **options):
    options = {"source": Silent(), "check": False, **options}
    return attaching.attach(given, module, make(module.parameters()), data(), rng=rng, **options)


def stored(state):
    """As a run directory does: arrays into safetensors, the rest into JSON."""
    arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    plain = {key: value for key, value in state.items() if key not in arrays}
    return {**safetensors.numpy.load(safetensors.numpy.save(arrays)), **json.loads(json.dumps(plain, allow_nan=False))}


def events(optimizer):
    return sum(count for _, count in optimizer.ledger.lines)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_training_makes_the_same_moves(name):
    """With every record in every sample there is no chance left: two halves are one whole."""
    given = plan(batch=40, epochs=6, adapt=ClipAdaptation("Geometric", 0.5, 0.1))
    whole = model()
    _, optimizer, loader = attach(given, whole, OPTIMIZERS[name], seeded_rng(3))
    train(whole, optimizer, loader, 3)
    state, half = stored(optimizer.state()), copy.deepcopy(whole.state_dict())
    first, rest = model(), model()
    first.load_state_dict(half)
    rest.load_state_dict(half)
    results = []
    for module in (first, rest):
        _, going, loader = attach(given, module, OPTIMIZERS[name], seeded_rng(9))
        going.restore(state)
        assert (going.steps, going.epoch, going.clip_norm) == (3, 3, optimizer.clip_norm)
        train(module, going, loader, 3)
        results.append(flat(module))
        assert going.steps == 6
        assert going.epsilon() == given.epsilon_after(6)
    assert torch.equal(*results)
    if name != "sgd":  # without its momentum it would go elsewhere
        fresh = model()
        fresh.load_state_dict(half)
        _, forgetful, loader = attach(given, fresh, OPTIMIZERS[name], seeded_rng(9))
        forgetful.restore({**state, **{key: value * 0 for key, value in state.items() if key.startswith("inner/")}})
        train(fresh, forgetful, loader, 3)
        assert not torch.allclose(flat(fresh), results[0])


@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_killed_within_a_sample(sampling):
    """The sample under way is drawn again and stays paid for; the epoch is finished, and so is the training."""
    given = plan(sampling=sampling, physical=2, batch=20)
    module = model()
    _, optimizer, loader = attach(given, module)
    for x, y in loader:
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
        if optimizer.steps == 1 and optimizer.under_way:
            break
    assert events(optimizer) == (2 if sampling == "poisson" else 1)
    state = stored(optimizer.state())
    again = model()
    again.load_state_dict(module.state_dict())
    _, going, loader = attach(given, again)
    going.restore(state)
    assert going.epsilon() >= optimizer.epsilon()
    train(again, going, loader, given.epochs)
    assert going.steps == given.steps == 4
    released = 4 if sampling == "poisson" else 2
    assert events(going) == released + 1
    assert going.epsilon() > given.epsilon_after(given.steps)
    assert going.ledger.to_json() == going.report()["ledger"]


def test_killed_between_two_samples_costs_nothing_more():
    given = plan(epsilon=4.0, noise_multiplier=None)
    module = model()
    _, optimizer, loader = attach(given, module)
    train(module, optimizer, loader, 1)
    again = model()
    _, going, loader = attach(given, again)
    going.restore(stored(optimizer.state()))
    train(again, going, loader, 1)
    assert going.steps == given.steps
    assert going.epsilon() <= 4.0 * (1 + 1e-9)


def test_the_budget_holds_for_what_was_begun_in_vain():
    given = plan(epsilon=4.0, noise_multiplier=None, physical=1)
    module = model()
    _, optimizer, loader = attach(given, module)
    x, y = next(iter(loader))
    F.cross_entropy(module(x), y).backward()
    optimizer.step()
    again = model()
    _, going, loader = attach(given, again)
    going.restore(stored(optimizer.state()))
    with pytest.raises(BudgetError, match="would bring epsilon above 4"):
        train(again, going, loader, 2)
    assert going.steps == given.steps - 1
    assert going.epsilon() <= 4.0 * (1 + 1e-9)


def test_steps_that_were_seen_and_lost_are_paid_twice():
    given = plan(epochs=4)
    module = model()
    _, optimizer, loader = attach(given, module)
    train(module, optimizer, loader, 1)
    state = stored(optimizer.state())
    train(module, optimizer, loader, 1)  # released, then lost
    again = model()
    _, going, loader = attach(given, again)
    going.restore(state, repeated=4)
    assert events(going) == events(optimizer) == 8
    train(again, going, loader, 3)
    assert events(going) == 20


def test_a_shuffled_epoch_goes_on_in_its_order():
    given = plan(sampling="shuffled")
    module, seen = model(), []
    _, optimizer, loader = attach(given, module)
    x_all = data().tensors[0]
    for x, y in loader:
        seen += [int((x_all == row).all(1).nonzero()) for row in x]
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
        if optimizer.steps == 2:
            break
    again = model()
    _, going, loader = attach(given, again)
    going.restore(stored(optimizer.state()))
    for x, y in loader:
        seen += [int((x_all == row).all(1).nonzero()) for row in x]
        F.cross_entropy(again(x), y).backward()
        going.step()
    assert sorted(seen) == list(range(40))
    assert events(going) == 1


def test_a_learning_rate_that_was_scheduled_is_kept():
    given, module = plan(), model()
    _, optimizer, _ = attach(given, module, OPTIMIZERS["adam"])
    optimizer.param_groups[0]["lr"] = 0.123
    again = model()
    _, going, _ = attach(given, again, OPTIMIZERS["adam"])
    going.restore(stored(optimizer.state()))
    assert going.param_groups[0]["lr"] == 0.123
    assert going.param_groups[0]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "version 3"),
        ({"initial_noise": 0.5}, "began with a noise of 0.5 times the clipping norm"),
        ({"steps": 99}, "no state of this plan"),
        ({"clip_norm": float("nan")}, "no state of this plan"),
        ({"abandoned": None}, "not the state"),
        ({"order": np.zeros(40, dtype=np.int64)}, "no permutation"),
        ({"inner": {"kind": "SGD", "groups": [], "values": {}}}, "other groups"),
        ({"inner": {"kind": "Adam", "groups": [], "values": {}}}, "the state is of Adam, the optimizer is SGD"),
        ({"inner/0/momentum_buffer": np.zeros(3)}, "shape"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, message):
    given = plan()
    _, optimizer, _ = attach(given, model())
    state = stored(optimizer.state())
    _, going, _ = attach(given, model())
    with pytest.raises(ValueError, match=message):
        going.restore({**state, **change})


def test_another_plan_is_refused_but_for_its_memory():
    _, optimizer, _ = attach(plan(), model())
    state = stored(optimizer.state())
    _, going, _ = attach(plan(noise_multiplier=0.5), model())
    with pytest.raises(ValueError, match="another noise_multiplier: make the same plan"):
        going.restore(state)
    _, going, _ = attach(plan(physical=3), model())
    going.restore(state)
    going.steps = 1
    with pytest.raises(ValueError, match="before its first step"):
        going.restore(state)


def test_a_sample_that_was_begun_in_vain_is_not_forgotten_by_a_restore():
    _, optimizer, loader = attach(plan(), model())
    state = stored(optimizer.state())
    next(iter(loader))
    optimizer.abandon()
    with pytest.raises(ValueError, match="before its first step"):
        optimizer.restore(state)
    assert optimizer.abandoned == [[0, 1]]


def test_a_given_noise_goes_on_for_more_epochs():
    module = model()
    _, optimizer, loader = attach(plan(epochs=1), module)
    train(module, optimizer, loader, 1)
    state = stored(optimizer.state())
    _, longer, loader = attach(plan(epochs=3), other := model())
    longer.restore(state)
    train(other, longer, loader, 2)
    assert longer.steps == 12
    assert longer.epsilon() == plan(epochs=3).epsilon_after(12)


@pytest.mark.parametrize(
    "noise",
    [
        {"noise_multiplier": None, "epsilon": 3.0, "sampling": "shuffled"},  # calibrated to all epochs
        {"decay": "Exp", "rate": 0.5},  # its levels lie further apart in a longer training
    ],
)
def test_noise_that_depends_on_the_epochs_does_not_go_on_for_more(noise):
    module = model()
    _, optimizer, loader = attach(plan(epochs=1, **noise), module)
    train(module, optimizer, loader, 1)
    _, other, _ = attach(plan(epochs=2, **noise), model())
    with pytest.raises(ValueError, match="another epochs"):
        other.restore(stored(optimizer.state()))


def test_a_state_dict_goes_through_torch_save_and_back():
    given, whole = plan(epochs=4, sampling="shuffled"), model()
    _, optimizer, loader = given.attach(whole, torch.optim.Adam(whole.parameters(), 0.1), data())
    train(whole, optimizer, loader, 2)
    stored_bytes = io.BytesIO()
    torch.save({"model": whole.state_dict(), "optimizer": optimizer.state_dict()}, stored_bytes)
    stored_bytes.seek(0)
    found = torch.load(stored_bytes, weights_only=True)
    again = model()
    again.load_state_dict(found["model"])
    _, resumed, _ = given.attach(again, torch.optim.Adam(again.parameters(), 0.1), data())
    resumed.load_state_dict(found["optimizer"])
    assert resumed.steps == optimizer.steps == 8
    assert resumed.ledger.to_json() == optimizer.ledger.to_json()
    for one, other in zip(optimizer.inner.state.values(), resumed.inner.state.values(), strict=True):
        assert one["exp_avg"].equal(other["exp_avg"])
    assert found["optimizer"]["param_groups"] == optimizer.inner.state_dict()["param_groups"]
