"""Modules with parameters [1, ...] of their own beside layers."""

import warnings

import pytest
import torch
from torch import Tensor, nn

from tacit.training import Engine
from tests.training.definition import check


class Tokens(nn.Module):
    def __init__(self, compute) -> None:
        super().__init__()
        self.token, self.compute = nn.Parameter(torch.randn(1, 1, 4)), compute
        self.enter, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.compute(self.token, self.enter(x)).tanh()).mean(1)


FIT = {
    "added": lambda token, x: x + token,
    "put in front": lambda token, x: torch.cat([token.expand(len(x), -1, -1), x], dim=1),
    "multiplied": lambda token, x: x * token.exp(),
}
UNFIT = {
    "its first row": lambda token, x: x + token[0, 0],
    "flattened": lambda token, x: x + token.flatten()[:4],
    "summed": lambda token, x: x + token.sum(0),
    "repeated": lambda token, x: torch.cat([token.repeat(len(x), 1, 1), x], dim=1),
}


@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("records", [1, 2, 5])
@pytest.mark.parametrize("name", [*FIT, *UNFIT])
def test_clipped_sums_are_those_of_a_loop_over_records(name, records, memory):
    torch.manual_seed(0)
    check(Tokens((FIT | UNFIT)[name]), torch.randn(records, 5, 3), memory=memory)


@pytest.mark.parametrize("name", [*FIT, *UNFIT])
def test_a_warning_comes_with_the_first_records_if_the_layers_inside_cannot_record_themselves(name):
    said: list[str] = []
    model = nn.Sequential(Tokens((FIT | UNFIT)[name]))
    Engine(model, announce=said.append)
    model(torch.randn(1, 5, 3))
    assert said == []
    model(torch.randn(3, 5, 3))
    model(torch.randn(4, 5, 3))
    assert len(said) == (name in UNFIT)
    if said:
        assert "0 (Tokens) has no rule of its own" in said[0]
        assert "holds 30 numbers for each record" in said[0]


def test_a_small_batch_first_is_right_too():
    model = Tokens(FIT["put in front"]).double()  # torch rounds a product otherwise in a batch of another size
    engine = Engine(model, reduction="sum")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(4, 5, 3, dtype=torch.float64)
        model(x[:1]).sum().backward()
        alone = engine.norms()
        engine.discard()
        model(x).sum().backward()
        torch.testing.assert_close(engine.norms()[:1], alone)
