"""Several backward passes before a step: their records come one after the other, and each is clipped by itself."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.training import Engine
from tacit.training.attach import attach
from tests.training.trainings import Silent, clipped_sum, data, model, plan


class Branching(nn.Module):
    """A layer of which some passes make no use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 4), nn.Linear(5, 4)
        self.words = nn.Embedding(5, 4)

    def forward(self, x, second):
        return self.second(x) if second else self.first(x) + self.words(x[:, :2].abs().long().clamp(max=4)).sum(1)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("cuts", [(7,), (3, 4), (1, 5, 1)])
def test_the_sum_of_several_passes_is_that_of_one(cuts, memory, reduction):
    torch.manual_seed(0)
    whole, x = Branching().double(), torch.randn(7, 5).double()
    engine = Engine(whole, reduction=reduction, memory=memory)
    norms, sums = [], []
    for parts in ((7,), cuts):
        engine.sum.zero_()
        for number, part in enumerate(x.split(parts)):
            value = whole(part, False).sin().sum()
            (value / len(part) if reduction == "mean" else value).backward()
            assert engine._pass.sizes == [len(each) for each in x.split(parts)][: number + 1]
        norms.append(engine.norms())
        engine.add_clipped(engine.factors(norms[-1], 0.7))
        sums.append(engine.sum.clone())
    torch.testing.assert_close(norms[0], norms[1])
    torch.testing.assert_close(sums[0], sums[1])


def test_a_pass_that_leaves_a_layer_out_adds_nothing_to_it():
    torch.manual_seed(0)
    branching, x = Branching().double(), torch.randn(5, 5).double()
    engine = Engine(branching, reduction="sum")
    branching(x[:2], False).sum().backward()
    branching(x[2:], True).sum().backward()
    norms = engine.norms()
    rows = [part.instantiate(0, 5, torch.float64) for part in engine._pass.join()]
    assert not rows[0][2:].any()
    assert not rows[2][:2].any()
    torch.testing.assert_close(sum(each.square().sum(1) for each in rows).sqrt(), norms)
    assert [part.instantiate(1, 4, torch.float64).shape[0] for part in engine._pass.join()] == [3] * len(rows)
    engine.add_clipped(engine.factors(norms, 1.0))
    assert float(engine.sum.norm()) <= 5.0


@pytest.mark.parametrize("tier", ["fast", "secure"])
@pytest.mark.parametrize("scale", [1.0, 0.5, 1 / 3])
def test_accumulated_gradients_move_the_model_as_one_batch_does(tier, scale):
    given = plan(tier=tier, noise_multiplier=1e-9 if tier == "secure" else 1.0)
    trained = model()
    expected = model()
    _, optimizer, loader = attach(
        given, trained, torch.optim.SGD(trained.parameters(), 1.0), data(), loss_scale=scale, source=Silent()
    )
    for x, y in loader:
        for some, labels in zip(x.chunk(3), y.chunk(3), strict=True):
            (F.cross_entropy(trained(some), labels) * scale).backward()
        if not optimizer.checking:
            sums = clipped_sum(expected, x, y, given.clip)
        optimizer.step()
        if optimizer.steps:
            break
    for before, summed, after in zip(expected.parameters(), sums, trained.parameters(), strict=True):
        torch.testing.assert_close(after, before - summed / given.batch, rtol=1e-5, atol=1e-7)


def test_passes_over_the_same_records_are_refused():
    trained = model()
    _, optimizer, loader = plan().attach(trained, torch.optim.SGD(trained.parameters(), 1.0), data())
    x, y = next(iter(loader))
    for _ in range(2):
        F.cross_entropy(trained(x), y).backward()
    with pytest.raises(ValueError, match=f"saw {2 * len(x)} records, the batch has {len(x)}.*each of them once"):
        optimizer.step()


def test_one_half_of_the_batch_twice_is_found_by_the_check_of_records():
    trained = model()
    _, optimizer, loader = plan(sampling="shuffled").attach(trained, torch.optim.SGD(trained.parameters(), 1.0), data())
    with pytest.raises(ValueError, match="the gradient of a record changes with the other records"):  # noqa: PT012
        for x, y in loader:
            half = max(1, len(x) // 2)
            F.cross_entropy(trained(x[:half]), y[:half]).backward()
            if len(x) > 1:
                F.cross_entropy(trained(x[: len(x) - half]), y[: len(x) - half]).backward()
            optimizer.step()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_no_scale_is_refused(scale):
    with pytest.raises(ValueError, match="loss_scale is"):
        Engine(model(), loss_scale=scale)


def test_a_buffer_that_several_passes_share_is_refused():
    """The records of the first pass would be given the inputs of the second one."""
    trained, x, buffer = model(), data()[:8][0], torch.empty(4, 5).double()
    engine = Engine(trained)
    for part in x.split(4):
        buffer.copy_(part)
        trained(buffer).sum(1).mean().backward()
    with pytest.raises(RuntimeError, match="was overwritten between"):
        engine.norms()
    engine.discard()
    trained(buffer).sum(1).mean().backward()
    factors = engine.factors(engine.norms(), 1.0)
    buffer.copy_(x[:4])
    with pytest.raises(RuntimeError, match="was overwritten between"):
        engine.add_clipped(factors)


def test_layers_in_another_order_each_time_keep_no_more_memory_than_is_given():
    class Either(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 5, padding=2)

        def forward(self, x, swapped):
            return self.small(self.large(x)) if swapped else self.large(self.small(x))

    torch.manual_seed(0)
    module, records = Either(), 8
    memory = 4 * records * sum(each.numel() for each in module.parameters() if each.dim() > 1)
    engine = Engine(module, memory=memory)
    for swapped in (False, True, False, True):
        module(torch.randn(records, 4, 6, 6), swapped).sum().backward()
        engine.add_clipped(engine.factors(engine.norms(), 1.0))
        assert sum(each.nbytes for each in engine._pass._shelf) <= memory * 9 / 8
        assert swapped or engine._pass._shelf  # kept for the next pass
