"""Adam that takes the noise out of its second moments."""

import math

import pytest
import torch
from torch import nn

from tacit.training import AdamBC
from tacit.training.attach import attach
from tests.training.trainings import data, model, plan, train


def test_without_noise_it_is_adam():
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2).double(), nn.Linear(3, 2).double()
    theirs.load_state_dict(ours.state_dict())
    mine = AdamBC(ours.parameters(), 0.1, eps=1e-30, weight_decay=0.1)
    reference = torch.optim.AdamW(theirs.parameters(), 0.1, eps=0.0, weight_decay=0.1)
    for _ in range(5):
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        mine.step()
        reference.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_variance_of_the_noise_is_taken_out_of_the_moments():
    """By hand: one number, noise that falls."""
    parameter = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = AdamBC([parameter], 0.1, (0.9, 0.99), eps=1e-4)
    first = second = noise = 0.0
    expected = 1.0
    for step, (gradient, deviation) in enumerate([(2.0, 1.0), (-0.5, 0.5), (0.1, 0.5)], start=1):
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.noise_deviation = deviation
        optimizer.step()
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        noise = 0.99 * noise + 0.01 * deviation**2
        moment = max((second - noise) / (1 - 0.99**step), 1e-4)
        expected -= 0.1 * (first / (1 - 0.9**step)) / math.sqrt(moment)
        assert float(parameter.detach()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "deviation"),
    [({}, 1.0 * 0.5 / 10), ({"tier": "secure"}, 0.05), ({"noise": "laplace"}, 0.05 * math.sqrt(2))],
)
def test_a_private_optimizer_tells_it_the_deviation_of_the_noise(options, deviation):
    trained, given = model(), plan(**options)
    inner = AdamBC(trained.parameters(), 0.01)
    _, optimizer, loader = attach(given, trained, inner, data())
    train(trained, optimizer, loader, 1)
    assert inner.noise_deviation == pytest.approx(deviation)
    state = optimizer.state()
    again = model()
    other = AdamBC(again.parameters(), 0.01)
    given.attach(again, other, data())[1].restore(state)
    for one, two in zip(inner.state.values(), other.state.values(), strict=True):
        assert one["noise"] == two["noise"] > 0
        assert one["step"] == two["step"] == 4
        assert one["exp_avg_sq"].equal(two["exp_avg_sq"])


@pytest.mark.parametrize("options", [{"lr": -1.0}, {"betas": (1.0, 0.9)}, {"eps": 0.0}, {"weight_decay": -1.0}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=r"give betas in \[0, 1\)"):
        AdamBC(nn.Linear(1, 1).parameters(), **options)
    with pytest.raises(ValueError, match="closure"):
        AdamBC(nn.Linear(1, 1).parameters()).step(lambda: 0)
