"""Several optimizers of one model: one clipped and noised gradient over all parameters, paid for once."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.randomness import seeded_rng
from tacit.training import AdamBC
from tacit.training.attach import attach
from tacit.training.several_optimizers import SeveralOptimizers
from tests.training.trainings import Silent, clipped_sum, data, flat, model, plan, train


def two(module: nn.Module) -> list[torch.optim.Optimizer]:
    first = torch.optim.SGD(module[0].parameters(), lr=0.3, momentum=0.9)
    return [first, torch.optim.AdamW(module[2].parameters(), lr=0.01, weight_decay=0.1)]


def groups(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": module[0].parameters(), "lr": 0.3}, {"params": module[2].parameters()}], lr=0.1)


def attached(module: nn.Module, optimizer, **changed):
    return attach(plan(**changed), module, optimizer, data(), source=Silent(), rng=seeded_rng(3))


@pytest.mark.parametrize("clip", [0.05, 0.5, 100.0])
def test_each_steps_by_its_part_of_one_gradient_clipped_over_all_parameters(clip):
    """Against a loop over records, and torch's optimizers on a copy of the model."""
    module, copy = model(), model()
    _, optimizer, loader = attached(module, two(module), clip=clip, epochs=3)
    expected = two(copy)
    for _ in range(3):
        for x, y in loader:
            if not optimizer.checking:
                total = clipped_sum(copy, x, y, clip)
            F.cross_entropy(module(x), y).backward()
            before = optimizer.steps
            optimizer.step()
            if optimizer.steps > before:
                for parameter, summed in zip(copy.parameters(), total, strict=True):
                    parameter.grad = summed / 10
                for each in expected:
                    each.step()
                torch.testing.assert_close(flat(module), flat(copy), rtol=1e-7, atol=1e-9)
    assert optimizer.steps == 12


def test_the_noise_is_drawn_once_over_all_parameters():
    class Counted(Silent):
        def __init__(self):
            self.drawn: list[tuple[int, float]] = []

        def normal(self, flat, deviation):
            self.drawn.append((flat.numel(), deviation))
            super().normal(flat, deviation)

    one, several = model(), model()
    counted = []
    for module, optimizer in ((one, groups(one)), (several, two(several))):
        source = Counted()
        _, private, loader = attach(plan(), module, optimizer, data(), source=source, rng=seeded_rng(3))
        train(module, private, loader, 2)
        counted.append(source.drawn)
        assert private.ledger.to_json() == plan().ledger(8).to_json()
    assert counted[0] == counted[1]
    assert len(counted[1]) == 8
    assert {size for size, _ in counted[1]} == {flat(one).numel()}


class Numbered:
    """Noise that tells its number: 1 at the first draw, 2 at the second."""

    def __init__(self):
        self.drawn = 0

    def normal(self, flat, deviation):
        self.drawn += 1
        flat.fill_(self.drawn)


class Fails(torch.optim.SGD):
    """Fails at its first step, before it moves anything."""

    failed = False

    def step(self, closure=None):
        if not self.failed:
            self.failed = True
            raise RuntimeError("no memory left")
        super().step(closure)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("fails", ["the second optimizer", "a hook"])
def test_after_a_step_that_failed_halfway_the_next_is_paid_for_and_has_noise_of_its_own(fails, check):
    """The first optimizer has moved. The same noise under two moves would be taken out by their difference."""
    module, source = model(), Numbered()
    first, second = torch.optim.SGD(module[0].parameters(), 1e-3), Fails(module[2].parameters(), 1e-3)
    second.failed = fails != "the second optimizer"
    _, optimizer, loader = attach(
        plan(epochs=3, delta=1e-3), module, [first, second], data(), source=source, rng=seeded_rng(3), check=check
    )
    if fails == "a hook":
        optimizer.register_step_post_hook(fail_once())
    caught = 0
    for _ in range(2):
        for x, y in loader:
            before, steps, draws = deepcopy(module), optimizer.steps, source.drawn
            F.cross_entropy(module(x), y).backward()
            try:
                optimizer.step()
            except RuntimeError:
                caught += 1
            if optimizer.steps > steps and not optimizer.checking:
                assert source.drawn == draws + 1
                for new, old, total in zip(
                    module.parameters(), before.parameters(), clipped_sum(before, x, y, 0.5), strict=True
                ):
                    torch.testing.assert_close(old - new, 1e-3 * (total / 10 + source.drawn), rtol=1e-9, atol=1e-12)
    assert caught == 1
    assert all(parameter.grad is None for parameter in module.parameters())
    assert source.drawn == optimizer.steps + 1 == sum(line["count"] for line in optimizer.ledger.to_json()["lines"])


@pytest.mark.parametrize("given", [two, groups])
def test_one_that_is_stepped_by_itself_moves_nothing(given):
    """In training mode there is no gradient; in eval mode, or set by hand, it was neither clipped nor noised."""
    module = model()
    _, optimizer, loader = attach(
        plan(), module, given(module), data(), source=Silent(), rng=seeded_rng(3), check=False
    )
    inner = optimizer.inner.optimizers[0] if given is two else optimizer.inner
    x, y = next(iter(loader))
    F.cross_entropy(module(x), y).backward()
    before = flat(module)
    inner.step()
    assert torch.equal(flat(module), before)
    optimizer.step()
    moved = flat(module)
    module.eval()
    F.cross_entropy(module(x), y).backward()
    with pytest.raises(ValueError, match="stepped by itself, with gradients that were neither clipped nor noised"):
        inner.step()
    assert torch.equal(flat(module), moved)
    optimizer.engine.detach()
    inner.step()  # an ordinary one again
    assert not torch.equal(flat(module), moved)


def fail_once():
    left = [RuntimeError("no disk left")]

    def hook(inner, args, kwargs):
        if left:
            raise left.pop()

    return hook


def test_two_of_one_kind_are_what_two_groups_of_one_are():
    one, several = model(), model()
    lists = [torch.optim.SGD(several[0].parameters(), lr=0.3), torch.optim.SGD(several[2].parameters(), lr=0.1)]
    reports = []
    for module, optimizer in ((one, groups(one)), (several, lists)):
        _, private, loader = attached(module, optimizer)
        train(module, private, loader, 2)
        reports.append(private.report())
    assert torch.equal(flat(one), flat(several))
    assert reports[0] == reports[1]


def test_a_list_of_one_is_that_one():
    module = model()
    own = torch.optim.SGD(module.parameters(), lr=0.1)
    assert attached(module, [own])[1].inner is own


def test_schedulers_of_each_and_of_all():
    """A scheduler made before attach, on one of the optimizers, and one over all; steps that wait keep their rate."""
    module, copy = model(), model()
    optimizers, expected = two(module), two(copy)
    early = torch.optim.lr_scheduler.ExponentialLR(optimizers[0], 0.5)
    _, optimizer, loader = attached(module, optimizers)
    late = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    wanted = [torch.optim.lr_scheduler.ExponentialLR(expected[0], 0.5)]
    wanted += [torch.optim.lr_scheduler.StepLR(each, 1, 0.5) for each in expected]
    for x, y in loader:
        checking = optimizer.checking
        if not checking:
            total = clipped_sum(copy, x, y, 0.5)
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
        if not checking:
            early.step()
            late.step()
            for parameter, summed in zip(copy.parameters(), total, strict=True):
                parameter.grad = summed / 10
            for each in [*expected, *wanted]:
                each.step()
    torch.testing.assert_close(flat(module), flat(copy), rtol=1e-7, atol=1e-9)
    rates = [group["lr"] for group in optimizer.param_groups]
    assert rates == [group["lr"] for each in optimizers for group in each.param_groups]
    assert rates == pytest.approx([0.3 / 4**4, 0.01 / 2**4])


def test_several_passes_before_a_step_with_a_schedule_of_each():
    """Half of the batch at a time, with losses divided by two, and schedulers that move the momentum too."""
    module, copy = model(), model()
    _, optimizer, loader = attach(
        plan(epochs=3), module, two(module), data(), source=Silent(), rng=seeded_rng(3), loss_scale=0.5
    )
    expected = two(copy)
    ours = [cycle(each) for each in optimizer.inner.optimizers]
    theirs = [cycle(each) for each in expected]
    for _ in range(3):
        for x, y in loader:
            checking, half = optimizer.checking, (len(x) + 1) // 2
            for places in (slice(half), slice(half, len(x))):
                if len(x[places]):
                    (F.cross_entropy(module(x[places]), y[places]) / 2).backward()
            total = clipped_sum(copy, x, y, 0.5)
            optimizer.step()
            if not checking:
                for parameter, summed in zip(copy.parameters(), total, strict=True):
                    parameter.grad = summed / 10
                for each in [*ours, *expected, *theirs]:
                    each.step()
    torch.testing.assert_close(flat(module), flat(copy), rtol=1e-7, atol=1e-9)


def cycle(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.OneCycleLR:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)


def test_tied_weights_belong_to_one_of_them():
    module = nn.ModuleDict({"words": nn.Embedding(7, 4), "last": nn.Linear(4, 7, bias=False)})
    module["last"].weight = module["words"].weight
    both = [torch.optim.SGD(module[name].parameters(), 0.1) for name in ("words", "last")]
    with pytest.raises(ValueError, match=r"share a parameter of shape \(7, 4\).*: give each parameter, and a tied one"):
        attached(module, both)


def test_it_resumes_in_the_middle(tmp_path):
    whole, stopped, resumed = model(), model(), model()
    _, optimizer, loader = attached(whole, two(whole), sampling="shuffled")
    train(whole, optimizer, loader, 2)
    _, optimizer, loader = attached(stopped, two(stopped), sampling="shuffled")
    train(stopped, optimizer, loader, 1)
    torch.save({"model": stopped.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    kept = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed.load_state_dict(kept["model"])
    _, again, loader = attached(resumed, two(resumed), sampling="shuffled")
    again.load_state_dict(kept["optimizer"])
    again._sampler._rng = optimizer._sampler._rng  # the next permutation of the first training
    train(resumed, again, loader, 1)
    assert again.steps == 8
    torch.testing.assert_close(flat(resumed), flat(whole), rtol=0, atol=0)
    assert again.report()["ledger"] == plan(sampling="shuffled").ledger(8).to_json()


def test_a_state_of_other_optimizers_is_refused():
    one, several = model(), model()
    state = attached(several, two(several))[1].state()
    assert state["inner"]["kind"] == "SGD and AdamW"
    with pytest.raises(ValueError, match="the state is of SGD and AdamW, the optimizer is SGD: make it as it was"):
        attached(one, groups(one))[1].restore(state)


def test_adam_with_bias_correction_is_told_of_the_noise_in_a_list():
    module = model()
    corrected = AdamBC(module[2].parameters())
    _, optimizer, loader = attached(module, [torch.optim.SGD(module[0].parameters(), 0.1), corrected])
    train(module, optimizer, loader, 1)
    assert corrected.noise_deviation == pytest.approx(1.0 * 0.5 / 10)


def test_a_hook_after_each_move_is_called_once():
    module = model()
    _, optimizer, loader = attached(module, two(module))
    seen = []
    handle = optimizer.register_step_post_hook(lambda inner, args, kwargs: seen.append(inner))
    train(module, optimizer, loader, 1)
    assert seen == [optimizer.inner] * 4
    assert isinstance(optimizer.inner, SeveralOptimizers)
    handle.remove()
    train(module, optimizer, loader, 1)
    assert len(seen) == 4


def test_what_is_unfrozen_later_is_refused_in_each():
    module = model()
    module[2].bias.requires_grad_(False)
    _, optimizer, loader = attached(module, two(module))
    module[2].bias.requires_grad_(True)
    with pytest.raises(ValueError, match=r"of shape \(3,\) that was not trained when the optimizer was attached"):
        train(module, optimizer, loader, 1)


@pytest.mark.parametrize("check", [True, False])
def test_what_is_unfrozen_or_added_later_is_refused_whatever_moves_it(check):
    """An optimizer that was not attached would move it without noise."""
    for added in (False, True):
        module = model()
        module[2].requires_grad_(added)
        module[2].weight.grad = torch.ones_like(module[2].weight)  # of earlier times: it moves nothing
        given = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], 0.1)
        _, optimizer, loader = attach(plan(), module, given, data(), rng=seeded_rng(3), check=check)
        train(module, optimizer, loader, 1)
        if added:
            module.append(nn.Linear(3, 3).double())
        module[2].requires_grad_(True)
        with pytest.raises(ValueError, match="that was not trained when the optimizer was attached is trainable now"):
            train(module, optimizer, loader, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: [], "the list of optimizers is empty: give one"),
        (lambda m: [*two(m), 3], "a list of torch optimizers is expected, got int in it"),
        (
            lambda m: [*two(m), torch.optim.SGD(m[2].parameters())],
            "optimizers 2 and 3 of the list share a parameter of",
        ),
        (lambda m: two(m)[:1] * 2, "optimizers 1 and 2 of the list share a parameter of shape"),
        (lambda m: [two(m)[0], torch.optim.SGD([m[2].weight])], "the optimizer does not move 2.bias: make it of model"),
        (lambda m: [*two(m), torch.optim.SGD(nn.Linear(2, 2).parameters())], "parameters that are not the model's"),
        (lambda m: [two(m)[0], torch.optim.LBFGS(m[2].parameters())], "LBFGS asks for several gradients"),
        (lambda m: {"one": two(m)[0]}, "a torch optimizer is expected, got dict"),
    ],
)
def test_what_is_refused(make, message):
    module = model()
    with pytest.raises(ValueError, match=message):
        attached(module, make(module))
    assert "forward" not in vars(module)


def test_the_optimizers_inside_can_be_attached_again_and_the_private_one_cannot():
    module = model()
    _, optimizer, _ = attached(module, two(module))
    optimizer.engine.detach()
    with pytest.raises(ValueError, match="private already: attach the one that was given"):
        attached(module, [optimizer])
    _, again, loader = attached(module, optimizer.inner)
    train(module, again, loader, 1)
    assert again.steps == 4


def test_a_closure_is_refused_and_its_words_show_all():
    module = model()
    several = SeveralOptimizers(two(module))
    with pytest.raises(ValueError, match="a closure asks for several gradients"):
        several.step(lambda: 0.0)
    assert "SGD" in repr(several)
    assert "AdamW" in repr(several)
    assert several.defaults["lr"] == 0.3
    assert "momentum" not in several.defaults
    assert not several.state
