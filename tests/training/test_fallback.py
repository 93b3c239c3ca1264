"""Layers without a rule: which arguments belong to records, against a loop over records; and their hooks."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.randomness import seeded_rng
from tacit.training import Engine, Plan
from tacit.training.attach import attach
from tests.training.trainings import Silent, train

TIME, WIDTH = 4, 3


class Mixer(nn.Module):
    """Weights between the places of a sequence, under a mask that all records share."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor, mask: Tensor, offset: Tensor | None = None) -> Tensor:
        scores = x @ self.weight @ x.transpose(1, 2) + mask
        return scores.softmax(-1) @ x + (0 if offset is None else offset.unsqueeze(1))


class Sequence(nn.Module):
    def __init__(self, offset: bool = False) -> None:
        super().__init__()
        self.mixer, self.offset = Mixer(), offset

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(TIME, TIME, dtype=x.dtype).masked_fill(torch.ones(TIME, TIME).triu(1) > 0, -9.0)
        return self.mixer(x, mask, x[:, 0] if self.offset else None).flatten(1)


def made(offset: bool = False) -> Sequence:
    torch.manual_seed(0)
    return Sequence(offset)


def sequences(records: int) -> Tensor:
    return torch.randn(records, TIME, WIDTH, generator=torch.Generator().manual_seed(records)).double()


def loop(model: nn.Module, x: Tensor) -> Tensor:
    """The norm of each record's gradient, one by one."""
    found = []
    for one in x:
        (gradient,) = torch.autograd.grad(model(one[None]).square().sum(), [model.mixer.weight])
        found.append(gradient.norm())
    return torch.stack(found)


@pytest.fixture
def engine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lambda model: Engine(model, reduction="sum")


@pytest.mark.parametrize("offset", [False, True])
def test_a_shared_argument_that_was_seen_to_be_shared_stays_it(engine, offset):
    model = made(offset)
    recorded = engine(model)
    for records in (6, TIME, 1, TIME, 3):
        x = sequences(records)
        model(x).square().sum().backward()
        assert torch.allclose(recorded.norms(), loop(made(offset), x), rtol=1e-9)
        recorded.discard()
    assert recorded.undecided is None


def test_an_argument_as_long_as_one_batch_is_undecided_and_as_another_is_refused(engine):
    model = made()
    recorded = engine(model)
    model(sequences(TIME))
    assert recorded.undecided == "argument 2 of mixer"
    with pytest.raises(ValueError, match=r"argument 2 of mixer has 4 rows for 6 records.*x\.expand"):
        model(sequences(6))


def test_arguments_of_records_are_decided_by_two_sizes(engine):
    layer = nn.Bilinear(3, 4, 2).double()
    recorded = engine(layer)
    layer(torch.randn(5, 3).double(), torch.randn(5, 4).double())
    assert recorded.undecided is not None
    layer(torch.randn(2, 3).double(), torch.randn(2, 4).double())
    assert recorded.undecided is None


def attached(records: int, batch: int, check: bool = True):
    model = nn.Sequential(made(), nn.Linear(TIME * WIDTH, 2).double())
    plan = Plan(records=records, batch=batch, epochs=2, noise_multiplier=1.0)
    data = TensorDataset(sequences(records), torch.arange(records) % 2)
    options = {"source": Silent(), "rng": seeded_rng(1), "check": check}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, optimizer, loader = attach(plan, model, torch.optim.SGD(model.parameters(), lr=0.1), data, **options)
    return model, optimizer, loader


def test_a_training_on_batches_as_long_as_a_shared_mask_is_refused():
    model, optimizer, loader = attached(TIME, TIME)
    with pytest.raises(ValueError, match="cannot be told whether it has a row for each record"):
        train(model, optimizer, loader, 1)
    assert optimizer.steps == 0


def test_a_training_on_longer_batches_is_not_refused():
    model, optimizer, loader = attached(3 * TIME, 3 * TIME)
    train(model, optimizer, loader, 1)
    assert optimizer.steps == 1


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        return x * self.weight if other is None else x * self.weight + other


class Either(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scaled, self.two = Scaled(), False

    def forward(self, x: Tensor) -> Tensor:
        return self.scaled(x, x) if self.two else self.scaled(x)


def test_an_argument_that_comes_up_later_and_is_as_long_as_the_batch_is_refused():
    model, plan = Either(), Plan(records=8, batch=8, epochs=99, noise_multiplier=1.0)
    data = TensorDataset(torch.randn(8, 3).double(), torch.arange(8) % 3)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, optimizer, loader = attach(plan, model, inner, data, source=Silent(), check_rng=seeded_rng(1))

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        model.two = optimizer.steps > 10 and not optimizer._watch.armed  # from the next batch on
        return F.cross_entropy(outputs, labels)

    with pytest.raises(ValueError, match=r"argument 2 of scaled .* came up after the first step"):
        train(model, optimizer, loader, plan.epochs, loss)


class Branching(Scaled):
    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        return x * self.weight if x.sum() > 0 else x


def test_what_vmap_cannot_do_is_said_with_a_remedy(engine):
    layer = Branching()
    engine(layer)
    with pytest.raises(ValueError, match=r"the model \(Branching\) has no rule.*into a small module.*data-dependent"):
        layer(torch.randn(5, 3).double())


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def test_hooks_run_once(engine):
    layer, calls = Counted(), []
    layer.register_forward_pre_hook(lambda module, args: calls.append("before"))
    layer.register_forward_hook(lambda module, args, out: calls.append("after") or 2 * out)
    recorded = engine(layer)
    x = torch.randn(5, 3)
    out = layer(x)
    assert calls == ["before", "after"]
    assert torch.allclose(out, 2 * x)
    out.sum().backward()
    assert torch.allclose(recorded.norms().float(), 2 * x.norm(dim=1), rtol=1e-4)


def test_a_layer_that_returns_more_than_tensors_is_refused_by_name():
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

        def forward(self, x: Tensor) -> tuple[Tensor, None]:
            return x @ (self.weight + self.weight.T), None

    model = nn.ModuleDict({"pair": Pair()})
    Engine(model, announce=lambda _: None)
    with pytest.raises(ValueError, match=r"^pair \(Pair\) has no rule of its own and cannot run once for each record"):
        model["pair"](torch.randn(2, WIDTH))
