"""Gradients that are not finite, left out: what is summed is what the other records, or owners, would have added."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tacit.randomness import seeded_rng
from tacit.training.attach import attach
from tacit.training.engine import Engine
from tacit.training.left_out import without
from tacit.training.recorded import Kept
from tests.training.trainings import Silent, data, model, plan, train

BAD = [1, 4]


def dense():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(7, 6)


def positions():
    return nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 3)), torch.randn(7, 4, 6)


def images():
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 16, 3)), torch.randn(
        7, 2, 6, 6
    )


def words():
    return nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.Linear(4, 3)), torch.randint(0, 9, (7, 5))


def used_twice():
    linear = nn.Linear(6, 6)
    return nn.Sequential(linear, nn.Tanh(), linear), torch.randn(7, 6)


def values(module, x):
    """A loss of each record, infinite for some of them."""
    out = module(x).flatten(1).square().sum(1)
    scale = torch.ones(len(x))
    scale[[each for each in BAD if each < len(x)]] = float("inf")
    return out * scale


def clipped(module, x, chosen, clip, groups=None):
    """By plain autograd, a record or an owner at a time."""
    parameters = list(module.parameters())
    total = torch.zeros(sum(each.numel() for each in parameters))
    for group in groups or [[each] for each in range(len(x))]:
        if set(group) & set(chosen):
            continue
        losses = torch.stack([module(x[i : i + 1]).square().sum() for i in group])
        gradient = torch.cat([each.flatten() for each in torch.autograd.grad(losses.mean(), parameters)])
        total += gradient * min(1.0, clip / float(gradient.norm()))
    return total


@pytest.mark.parametrize("memory", [0, 512 << 20])
@pytest.mark.parametrize("made", [dense, positions, images, words, used_twice])
@pytest.mark.parametrize("groups", [None, [[0, 1], [2], [3, 4, 5], [6]]])
def test_the_sum_is_that_of_the_others(made, groups, memory):
    torch.manual_seed(3)
    module, x = made()
    expected = clipped(module, x, BAD, 0.3, groups)
    engine = Engine(module, memory=memory, leave_out=True)
    values(module, x).mean().backward()
    if groups is not None:
        engine.gather((0, 2, 3, 6, 7))
    norms = engine.norms()
    assert torch.isfinite(norms).all()
    engine.add_clipped(engine.factors(norms, 0.3))
    assert engine.left_out
    assert torch.allclose(engine.sum, expected, atol=1e-5)


def test_several_passes_each_lose_their_own_records():
    torch.manual_seed(3)
    module, x = dense()
    expected = clipped(module, x, [1], 0.3)
    engine = Engine(module, leave_out=True)
    values(module, x[:3]).mean().backward()
    module(x[3:]).square().sum(1).mean().backward()
    engine.add_clipped(engine.factors(engine.norms(), 0.3))
    assert torch.allclose(engine.sum, expected, atol=1e-5)


def test_a_part_loses_the_squares_that_it_knows_too():
    part = without(
        Kept(torch.full((2, 3), 2.0), squared=torch.tensor([float("inf"), 12.0])), torch.tensor([True, False])
    )
    assert part.squared_norms().tolist() == [0.0, 12.0]


def test_finite_gradients_are_as_without_the_option():
    sums = []
    for leave_out in (False, True):
        torch.manual_seed(3)
        module, x = dense()
        engine = Engine(module, leave_out=leave_out)
        module(x).square().sum(1).mean().backward()
        engine.add_clipped(engine.factors(engine.norms(), 0.3))
        assert not engine.left_out
        sums.append(engine.sum)
    assert torch.equal(*sums)


@pytest.mark.parametrize("tier", ["fast", "secure"])
@pytest.mark.parametrize("leave_out", [False, True])
def test_a_training_goes_on_only_if_it_was_asked_to(tier, leave_out):
    given = plan(tier=tier)
    trained = model()
    records = [(x * float("nan"), y) if index % 5 == 0 else (x, y) for index, (x, y) in enumerate(data())]
    _, optimizer, loader = attach(
        given,
        trained,
        torch.optim.SGD(trained.parameters(), lr=0.1),
        records,
        leave_out=leave_out,
        source=Silent(),
        rng=seeded_rng(7),
    )
    if not leave_out:
        with pytest.raises(ValueError, match="not finite"):
            train(trained, optimizer, loader, given.epochs)
        return
    train(trained, optimizer, loader, given.epochs)
    assert optimizer.engine.left_out
    assert all(torch.isfinite(each).all() for each in trained.parameters())
    assert optimizer.steps == given.steps
