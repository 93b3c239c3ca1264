"""Layers are recognised by what they compute, and look-alikes are not."""

import copy
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn

from tacit.training import Engine
from tacit.training.recognition import recognised
from tests.training.definition import check


class Layer(nn.Module):
    """A layer of one or two parameters, which computes what it is given."""

    def __init__(self, compute, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.compute = compute
        self.first = nn.Parameter(torch.randn(shapes[0]))
        self.second = nn.Parameter(torch.randn(shapes[1])) if len(shapes) > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(self, x, self.first, self.second)


def rms(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


KNOWN = {
    "x W + b": Layer(lambda self, x, w, b: x @ w + b, (4, 3), (3,)),
    "x W": Layer(lambda self, x, w, b: x @ w, (4, 3)),
    "x W with the bias first": Layer(lambda self, x, b, w: torch.tensordot(x, w, 1) + b, (3,), (4, 3)),
    "rms w": Layer(lambda self, x, w, b: w * rms(x), (4,)),
    "rms (1 + w)": Layer(lambda self, x, w, b: (1 + w) * rms(x), (4,)),
    "rms w with a large epsilon": Layer(lambda self, x, w, b: w * rms(x, 0.1), (4,)),
    "a norm with its own mean": Layer(lambda self, x, w, b: F.layer_norm(x, (4,)) * w + b, (4,), (4,)),
    "shift before scale": Layer(lambda self, x, b, w: F.layer_norm(x, (4,)) * w + b, (4,), (4,)),
    "x w": Layer(lambda self, x, w, b: x * w, (4,)),
    "sin(x) w": Layer(lambda self, x, w, b: x.sin() * w, (4,)),
}
OTHER = {
    "W + W'": Layer(lambda self, x, w, b: x @ (w + w.T), (4, 4)),
    "x W' as of nn.Linear": Layer(lambda self, x, w, b: x @ w.T, (3, 4)),
    "w squared": Layer(lambda self, x, w, b: x * w * w, (4,)),
    "bounded w": Layer(lambda self, x, w, b: x * w.sigmoid(), (4,)),
    "w inside": Layer(lambda self, x, w, b: rms(x * w), (4,)),
    "w and b multiplied": Layer(lambda self, x, w, b: x * w * b, (4,), (4,)),
    "the mean of w": Layer(lambda self, x, w, b: x * w.mean(), (4,)),
    "noise in training": Layer(lambda self, x, w, b: F.dropout(x, 0.5, self.training) * w, (4,)),
    "another scale in training": Layer(lambda self, x, w, b: x * w * (1 + self.training), (4,)),
    "records mixed": Layer(lambda self, x, w, b: (x - x.mean(0)) @ w, (4, 3)),
    "two outputs": Layer(lambda self, x, w, b: (x * w, x), (4,)),
    "integers": Layer(lambda self, x, w, b: F.embedding(x, w), (4, 3)),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("shape", [(3, 4), (3, 5, 4), (1, 4)])
def test_known_forms_have_the_rule_of_their_form(name, shape, memory):
    torch.manual_seed(0)
    assert recognised(KNOWN[name]) is not None
    check(nn.Sequential(nn.Linear(4, 4), KNOWN[name]), torch.randn(shape), memory=memory)


@pytest.mark.parametrize("name", KNOWN)
def test_a_frozen_parameter_of_a_known_form_is_left_alone(name):
    torch.manual_seed(0)
    layer = KNOWN[name]
    layer.first.requires_grad_(False)
    try:
        check(nn.Sequential(nn.Linear(4, 4), layer), torch.randn(3, 2, 4))
    finally:
        layer.first.requires_grad_(True)


@pytest.mark.parametrize("name", OTHER)
def test_look_alikes_are_not_recognised(name):
    torch.manual_seed(0)
    assert recognised(OTHER[name]) is None


def test_layers_of_several_inputs_with_buffers_or_with_layers_inside_are_not_recognised():
    class Second(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor, more: Tensor | None = None) -> Tensor:
            return x * self.weight

    assert recognised(Second()) is None
    for name, value in (("inside", nn.Linear(1, 1)), ("kept", nn.Buffer(torch.ones(1)))):
        layer = Layer(lambda self, x, w, b: x * w, (4,))
        setattr(layer, name, value)
        assert recognised(layer) is None


class Multiplied(nn.Embedding):
    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * math.sqrt(self.embedding_dim)


class Bent(nn.Embedding):
    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids).tanh()


def test_an_embedding_times_a_constant_is_recognised():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine(Multiplied(5, 4))
    check(Multiplied(5, 4, padding_idx=1), torch.randint(0, 5, (3, 4)))
    assert recognised(Bent(5, 4)) is None


def test_trying_draws_no_random_numbers():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert recognised(KNOWN["rms w"]) is not None
    assert recognised(OTHER["noise in training"]) is None
    assert torch.rand(3).equal(expected)


def test_a_layer_that_computes_something_else_for_the_first_records_is_refused():
    layer = Layer(lambda self, x, w, b: x * w if float(x.detach().abs().max()) < 50 else x * w * w, (4,))
    Engine(layer)
    layer(torch.randn(1, 4))
    with pytest.raises(ValueError, match="returns something else than the layer's own forward"):
        layer(torch.full((3, 4), 100.0))


class Checkpointed(nn.Module):
    """Forgets what its layers computed, and computes it again in the backward pass."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.layers, x, use_reentrant=False)


def test_a_layer_that_is_tried_on_its_first_records_may_be_computed_again():
    layers = nn.Sequential(copy.deepcopy(KNOWN["x W + b"]), nn.Tanh(), nn.Linear(3, 2))
    check(Checkpointed(layers), torch.randn(3, 2, 4))
