"""bfloat16, under autocast and as parameters: what is clipped is float32, and no record adds more than the norm."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.training import Engine, layers, passes
from tacit.training.recorded import Outer
from tacit.training.sums import Secure
from tests.training.definition import within
from tests.training.trainings import plan, train


class Reading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.scan = nn.Embedding(9, 6), nn.LSTM(6, 6, batch_first=True)
        self.attention, self.norm = nn.MultiheadAttention(6, 2, batch_first=True), nn.LayerNorm(6)
        self.last = nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.scan(self.words(ids))[0]
        return self.last(self.norm(x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


class Transposed(nn.Module):
    """Recognised by what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 3)), nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Mixed(nn.Module):
    """Runs record by record."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight + self.weight.T)


MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)), torch.randn(8, 6)),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ConvTranspose2d(4, 2, 2), nn.Flatten(), nn.Linear(32, 3)
        ),
        torch.randn(8, 2, 5, 5),
    ),
    "text": (Reading, torch.randint(0, 9, (8, 5))),
    "recognised": (lambda: nn.Sequential(nn.Linear(6, 6), Transposed()), torch.randn(8, 6)),
    "record by record": (lambda: nn.Sequential(Mixed(), nn.Linear(6, 3)), torch.randn(8, 6)),
}
LABELS = torch.arange(8) % 3


def rows(model: nn.Module, x: Tensor, autocast: bool) -> Tensor:
    """The gradient of each record by itself, in torch's own autocast."""
    found = []
    for one, label in zip(x, LABELS, strict=True):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(one[None]).float(), label[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        found.append(torch.cat([each.double().flatten() for each in gradients]))
    return torch.stack(found)


@pytest.mark.parametrize("inside", [False, True], ids=["forward only", "backward and sums too"])
@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("name", MODELS)
def test_under_autocast_records_are_clipped_as_they_were_computed(name, memory, inside):
    torch.manual_seed(0)
    make, x = MODELS[name]
    model = make()
    exact, short = rows(model, x, False), rows(model, x, True)
    engine = Engine(model, memory=memory, announce=lambda _: None)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x)
        loss = F.cross_entropy(out.float(), LABELS)
        if inside:
            loss.backward()
            norms = engine.norms()
            factors = engine.factors(norms, 0.3)
            contributions = within(engine, factors, "mean")
            engine.add_clipped(factors)
    if not inside:
        loss.backward()
        norms = engine.norms()
        factors = engine.factors(norms, 0.3)
        contributions = within(engine, factors, "mean")
        engine.add_clipped(factors)
    assert engine.sum.dtype == torch.float32
    assert (contributions <= 0.3).all()
    largest = exact.norm(dim=1).max()
    off = (norms - exact.norm(dim=1)).abs().max() / largest
    assert off <= 3 * (short.norm(dim=1) - exact.norm(dim=1)).abs().max() / largest + 0.02
    expected = (exact * (0.3 / exact.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    assert (engine.sum.double() - expected).norm() <= 0.05 * expected.norm() + 0.02


def test_what_is_recorded_measured_and_summed_is_never_under_autocast(monkeypatch):
    """torch would compute products of float32 in bfloat16 there, for which the margins do not hold."""
    seen = []

    def listening(owner, name):
        own = getattr(owner, name)

        def called(*args, **kwargs):
            seen.append((name, torch.is_autocast_enabled("cpu")))
            return own(*args, **kwargs)

        monkeypatch.setattr(owner, name, called)

    model, x = nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3)), torch.randn(8, 4, 6)
    listening(layers, "linear_part")
    listening(passes, "squared_norms_of")
    listening(Outer, "add_to")
    engine = Engine(model, memory=0)
    secure = Secure(engine, 20, np.random.default_rng(0))
    with torch.autocast("cpu", torch.bfloat16):
        model(x).float().mean().backward()
        engine.weighted(torch.ones(8))
        engine.add_clipped(engine.factors(engine.norms(), 1.0))
        model(x).float().mean().backward()
        secure.add(engine.norms(), 1.0)
    assert {name for name, _ in seen} == {"linear_part", "squared_norms_of", "add_to"}
    assert not any(on for _, on in seen)


@pytest.mark.parametrize("name", ["linear", "images", "text", "recognised"])
def test_parameters_in_bfloat16_are_summed_in_float32(name):
    torch.manual_seed(0)
    make, x = MODELS[name]
    model = make().bfloat16()
    exact = rows(copy.deepcopy(model).double(), x.double() if x.is_floating_point() else x, False)
    engine = Engine(model)
    F.cross_entropy(model(x.bfloat16() if x.is_floating_point() else x).float(), LABELS).backward()
    norms = engine.norms()
    factors = engine.factors(norms, 0.3)
    assert engine.sum.dtype == torch.float32
    assert (within(engine, factors, "mean") <= 0.3).all()
    assert (norms - exact.norm(dim=1)).abs().max() <= 0.1 * exact.norm(dim=1).max()


@pytest.mark.parametrize("tier", ["fast", "secure"])
@pytest.mark.parametrize("how", ["autocast", "parameters", "both"])
def test_a_whole_training_in_bfloat16_with_all_checks(how, tier):
    torch.manual_seed(0)
    model = Reading() if how == "autocast" else Reading().bfloat16()
    data = TensorDataset(torch.randint(0, 9, (40, 5)), torch.randint(0, 3, (40,)))
    given = plan(batch=20, epochs=4, tier=tier)
    _, optimizer, loader = given.attach(model, torch.optim.Adam(model.parameters(), 1e-2), data)

    def loss(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out.float(), y)

    with torch.autocast("cpu", torch.bfloat16, enabled=how != "parameters"):
        train(model, optimizer, loader, 4, loss)
    assert optimizer.steps == given.steps
    state = optimizer.state()
    assert all(each.dtype.kind in "fi" for key, each in state.items() if key.startswith("inner/"))
    assert all(bool(torch.isfinite(each).all()) for each in model.parameters())


def test_float16_is_refused_in_autocast_and_as_parameters():
    model = nn.Linear(6, 3)
    Engine(model)
    with torch.autocast("cpu", torch.float16), pytest.raises(RuntimeError, match=r"autocast to torch\.float16"):
        model(torch.randn(2, 6))
    with pytest.raises(ValueError, match=r"weight has dtype torch\.float16: .* float32, float64 or bfloat16"):
        Engine(nn.Linear(2, 2).half())
