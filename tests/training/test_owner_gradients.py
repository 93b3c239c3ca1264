"""Norms and clipped sums of owners beside a loop over owners by plain autograd, for layers of every form."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tacit.training import Engine
from tacit.training.owner_gradients import Gathered, gathered
from tacit.training.recorded import Kept, Outer
from tests.training.definition import linear_loss, record_gradients

STARTS = (0, 1, 4, 6, 7, 11)  # records of five owners


class Mixed(nn.Module):
    """A parameter that is used twice, and one that stands by itself."""

    def __init__(self):
        super().__init__()
        self.twice, self.scale = nn.Linear(6, 6), nn.Parameter(torch.randn(6))

    def forward(self, x):
        return self.twice(torch.tanh(self.twice(x))) * self.scale


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(7, 4), nn.Embedding(5, 4), nn.Linear(4, 3)

    def forward(self, ids):
        return self.out(self.words(ids) + self.places(torch.arange(ids.shape[1])))


MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (11, 6)),
    "sequences": (lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 3)), (11, 4, 6)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 3)), (11, 2, 6, 6)),
    "twice": (Mixed, (11, 6)),
    "words": (Words, None),
    "recurrent": (lambda: nn.GRU(6, 4, batch_first=True), (11, 5, 6)),
}


def owner_gradients(gradients, starts):
    return torch.stack([gradients[a:b].mean(0) for a, b in pairwise(starts)])


@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*has no rule")
def test_clipped_sums_are_those_of_a_loop_over_owners(name, dtype, reduction, memory):
    torch.manual_seed(3)
    made, shape = MODELS[name]
    model = made().to(dtype)
    inputs = torch.randint(0, 7, (11, 5)) if shape is None else torch.randn(shape, dtype=dtype)

    def forward(module, x):
        out = module(x)
        return out[0] if isinstance(out, tuple) else out

    aims = torch.randn_like(forward(model, inputs).detach())
    exact = copy.deepcopy(model).double()
    doubled = inputs.double() if inputs.is_floating_point() else inputs
    records = record_gradients(Tensors(exact, forward), [doubled], aims.double(), linear_loss)
    wanted = owner_gradients(records, STARTS)
    norms = wanted.norm(dim=1)
    clip = float(norms.median())
    engine = Engine(model, reduction=reduction, memory=memory, announce=lambda _: None)
    value = linear_loss(forward(model, inputs), aims)
    (value / 11 if reduction == "mean" else value).backward()
    engine.gather(STARTS)
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5
    found = engine.norms()
    assert torch.all((found - norms).abs() <= tolerance * norms.max())
    assert torch.all((engine.norms(order=1) - wanted.abs().sum(1)).abs() <= tolerance * wanted.abs().sum(1).max())
    factors = engine.factors(found, clip)
    added = sum(
        part.instantiate(0, 5, torch.float64).square().sum(1) for part in engine._pass.join() if part is not None
    )
    assert torch.all(added.sqrt() * factors.double() * (1 - 1e-12) <= clip)
    layers = engine.layer_norms().square().sum(0).sqrt()
    assert torch.allclose(layers, found, rtol=1e-6)
    engine.add_clipped(factors)
    expected = (wanted * (clip / norms).clamp(max=1)[:, None]).sum(0)
    assert float((engine.sum.double() - expected).norm()) <= tolerance * clip * 5


class Tensors(nn.Module):
    """A model whose output is a tensor."""

    def __init__(self, inner, forward):
        super().__init__()
        self.inner, self._forward = inner, forward

    def forward(self, x):
        return self._forward(self.inner, x)


def test_several_backward_passes_of_different_sizes():
    """The records of an owner may be in two passes: each has the weight of its own pass."""
    torch.manual_seed(0)
    model = MODELS["linear"][0]().double()
    x, aims = torch.randn(11, 6, dtype=torch.float64), torch.randn(11, 3, dtype=torch.float64)
    wanted = owner_gradients(record_gradients(copy.deepcopy(model), [x], aims, linear_loss), STARTS)
    engine = Engine(model)
    for part in (slice(0, 3), slice(3, 11)):
        (linear_loss(model(x[part]), aims[part]) / len(x[part])).backward()
    engine.gather(STARTS)
    norms = engine.norms()
    assert torch.allclose(norms, wanted.norm(dim=1), rtol=1e-9)
    engine.add_clipped(engine.factors(norms, 0.1))
    assert torch.allclose(engine.sum, (wanted * (0.1 / norms).clamp(max=1)[:, None]).sum(0), atol=1e-12)


def test_records_that_cancel_add_nothing():
    """The norm of a sum is not bounded from the norms of its terms: these are large, and it is 0."""
    inputs = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    outputs = torch.tensor([[3.0], [-3.0]])
    part = Outer(inputs[:, None], outputs[:, None], 1 << 20)
    weights = torch.full((2,), 0.5)
    for made in (gathered(part, (0, 2), weights, 2, 1 << 20), Gathered([part], weights, (0, 2), 1 << 20, 2)):
        assert float(made.squared_norms()) < 1e-10
        assert made.records == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(1, 4), st.integers(0, 10**6))
def test_every_form_of_the_same_part_is_the_same(lengths, steps, seed):
    """Kept, padded to sequences or instantiated: one gradient an owner, and norms that are upper bounds of it."""
    generator = torch.Generator().manual_seed(seed)
    starts = tuple(int(each) for each in torch.tensor([0, *lengths]).cumsum(0))
    inputs = torch.randn(starts[-1], steps, 4, generator=generator)
    outputs = torch.randn(starts[-1], steps, 3, generator=generator)
    weights = torch.rand(starts[-1], generator=generator) + 0.1
    outer = Outer(inputs, outputs, 1 << 20)
    kept = Kept(outer.instantiate(0, outer.records, torch.float64).view(-1, 3, 4))
    exact = torch.stack([
        (kept.gradients[a:b] * weights[a:b, None, None].double()).sum(0).flatten()
        for a, b in pairwise(starts)
    ])  # fmt: skip
    factors = torch.rand(len(lengths), generator=generator)
    for part in (outer, kept):
        for made in (gathered(part, starts, weights, 12, 1 << 20), Gathered([part], weights, starts, 64, 12)):
            assert torch.allclose(made.instantiate(0, len(lengths), torch.float64), exact, atol=1e-5)
            real = made.instantiate(0, len(lengths), torch.float64).square().sum(1)
            assert torch.all(made.squared_norms() >= real * (1 - 1e-13))
            assert torch.allclose(made.squared_norms(), exact.square().sum(1), rtol=1e-4, atol=1e-6)
            dtype = torch.float64 if part is kept else torch.float32
            total = torch.zeros(3, 4, dtype=dtype)
            made.add_to(total, factors.to(dtype))
            assert torch.allclose(total.double().flatten(), (exact * factors[:, None].double()).sum(0), atol=1e-4)


def test_a_pass_of_another_number_of_records_is_refused():
    model = nn.Linear(2, 1)
    engine = Engine(model)
    model(torch.randn(3, 2)).mean().backward()
    with pytest.raises(ValueError, match="saw 3 records, the batch has 4"):
        engine.gather((0, 2, 4))
