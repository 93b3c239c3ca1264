"""What attach refuses, and losses and models that mix records."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.dp.schedules import ClipAdaptation
from tacit.randomness import seeded_rng
from tacit.training import Plan
from tacit.training.attach import attach
from tests.training.trainings import Silent, data, flat, model, plan, train


def given(**changed):
    return plan(noise_multiplier=1.0, batch=20, **changed)


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.1)


def test_the_three_changed_lines():
    private = given()
    module, optimizer, loader = private.attach(module := model(), sgd(module), data())
    train(module, optimizer, loader, private.epochs)
    assert optimizer.steps == private.steps
    assert type(module) is nn.Sequential
    assert list(module.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert all(parameter.grad is None for parameter in module.parameters())


def weighted(outputs, labels):
    return F.cross_entropy(outputs, labels, weight=torch.tensor([0.1, 1.0, 10.0]).double())


def contrastive(outputs, labels):
    return F.cross_entropy(outputs, labels) + (outputs @ outputs.T).square().mean()


def standardized(outputs, labels):
    return F.cross_entropy((outputs - outputs.mean(0)) / (outputs.std(0) + 1e-3), labels)


@pytest.mark.parametrize(
    ("loss", "reduction", "message"),
    [
        (lambda o, y: F.cross_entropy(o, y, reduction="sum"), "mean", r"Take the mean, or attach\(.*reduction='sum'"),
        (F.cross_entropy, "sum", "the other way round"),
        (weighted, "mean", "mixes records"),
        (contrastive, "mean", "mixes records"),
        (standardized, "mean", "mixes records"),
        (lambda o, y: F.cross_entropy(o, y, ignore_index=0), "mean", "ignored labels"),
    ],
)
def test_a_loss_that_mixes_records_is_refused(loss, reduction, message):
    for seed in range(5):
        module = model()
        before = flat(module)
        rng = seeded_rng(seed)
        _, optimizer, loader = attach(given(), module, sgd(module), data(), reduction=reduction, rng=rng)
        with pytest.raises(ValueError, match=message):
            train(module, optimizer, loader, 1, loss)
        assert torch.equal(before, flat(module))  # nothing was released


@pytest.mark.parametrize("loss", ["ignored", "weighted"])
def test_a_quarter_like_the_whole_does_not_hide_a_loss_that_mixes(loss):
    """Labels 0 and 1 in turn: a quarter has the same share of both as the batch, three records have not."""
    inputs = torch.randn(32, 5, dtype=torch.float64)
    labels = torch.arange(32) % 2

    def mixing(outputs, given):
        if loss == "ignored":
            return F.cross_entropy(outputs, torch.where(given == 0, -100, given))
        return F.cross_entropy(outputs, given, weight=torch.tensor([1.0, 1.3, 1.0]).double())

    module = model()
    whole = Plan(records=32, batch=32, epochs=1, noise_multiplier=1.0)
    _, optimizer, loader = whole.attach(module, sgd(module), TensorDataset(inputs, labels))
    with pytest.raises(ValueError, match="mixes records"):
        train(module, optimizer, loader, 1, mixing)


def test_records_that_are_finite_only_among_others_are_mixed():
    """Alone they have no label that counts: a mean over nothing."""
    labels = torch.cat([torch.ones(28), torch.zeros(4)]).long()
    module = model()
    whole = Plan(records=32, batch=32, epochs=1, noise_multiplier=1.0)
    data = TensorDataset(torch.randn(32, 5, dtype=torch.float64), labels)
    _, optimizer, loader = whole.attach(module, sgd(module), data)

    def ignoring(outputs, given):
        return F.cross_entropy(outputs, torch.where(given == 0, -100, given))

    with pytest.raises(ValueError, match="mixes records"):
        train(module, optimizer, loader, 1, ignoring)


@pytest.mark.parametrize("loss", [F.cross_entropy, lambda o, y: F.cross_entropy(o, y, reduction="none").sum() / len(y)])
def test_a_mean_is_accepted(loss):
    module = model()
    _, optimizer, loader = given().attach(module, sgd(module), data())
    train(module, optimizer, loader, 2, loss)
    assert optimizer.steps == given().steps


def test_a_sum_is_accepted_where_it_is_said():
    module = model()
    _, optimizer, loader = given().attach(module, sgd(module), data(), reduction="sum")
    train(module, optimizer, loader, 2, lambda o, y: F.cross_entropy(o, y, reduction="sum"))


def test_a_model_that_mixes_records_is_refused():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return self.layer(x - x.mean(0))

    module = Centred().double()
    _, optimizer, loader = given().attach(module, sgd(module), data())
    with pytest.raises(ValueError, match="mixes records"):
        train(module, optimizer, loader, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: torch.optim.SGD(m[0].parameters(), lr=0.1), r"does not move 2\.weight, 2\.bias.*requires_grad_"),
        (lambda m: torch.optim.SGD([*m.parameters(), nn.Parameter(torch.zeros(1))], lr=0.1), "not the model's"),
        (lambda m: torch.optim.SGD(model().parameters(), lr=0.1), "does not move"),
        (lambda m: torch.optim.LBFGS(m.parameters()), "LBFGS"),
        (lambda m: 3, "a torch optimizer is expected, got int"),
        (lambda m: given().attach(other := model(), sgd(other), data())[1], "private already"),
    ],
)
def test_an_optimizer_over_other_parameters_is_refused(make, message):
    module = model()
    with pytest.raises(ValueError, match=message):
        given().attach(module, make(module), data())
    assert "forward" not in vars(module[0])  # the model is as it was


def test_frozen_parameters_need_no_optimizer():
    module = model()
    module[0].requires_grad_(False)
    _, optimizer, loader = given().attach(module, torch.optim.SGD(module[2].parameters(), lr=0.1), data())
    before = module[0].weight.clone()
    train(module, optimizer, loader, 1)
    assert torch.equal(before, module[0].weight)


def test_data_that_does_not_fit_leaves_the_model_as_it_was():
    module = model()
    with pytest.raises(ValueError, match="39 records"):
        given().attach(module, sgd(module), data(39))
    assert "forward" not in vars(module[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given().attach(module, sgd(module), data())


def test_unfit_models_are_refused_by_layer():
    module = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    with pytest.raises(ValueError, match="GroupNorm"):
        given().attach(module, sgd(module), data())


class Running(nn.Module):
    """Keeps statistics of the records under a name of its own."""

    def __init__(self, replace):
        super().__init__()
        self.register_buffer("seen", torch.zeros(5, dtype=torch.float64))
        self.seen: Tensor
        self.replace = replace

    def forward(self, x):
        with torch.no_grad():
            if self.replace:
                self.seen = 0.9 * self.seen + 0.1 * x.mean(0)
            else:
                self.seen.lerp_(x.mean(0), 0.1)
        return x


@pytest.mark.parametrize("replace", [False, True])
def test_a_buffer_that_a_forward_writes_is_refused(replace):
    module = nn.Sequential(Running(replace), *model())
    _, optimizer, loader = given().attach(module, sgd(module), data())
    with pytest.raises(ValueError, match=r"the buffer 0\.seen was written while the model saw private records"):
        train(module, optimizer, loader, 1)
    assert optimizer.steps == 0


def test_buffers_that_are_only_read_or_loaded_are_left_alone():
    module = model()
    module.register_buffer("scale", torch.ones(()))
    _, optimizer, loader = given().attach(module, sgd(module), data())
    module.load_state_dict(module.state_dict())
    train(module, optimizer, loader, 2)
    assert optimizer.steps == given().steps


def test_check_false_lets_a_buffer_be_written():
    module = nn.Sequential(Running(False), *model())
    _, optimizer, loader = given().attach(module, sgd(module), data(), check=False)
    train(module, optimizer, loader, 1)
    assert optimizer.steps == 2


def test_parameters_that_are_unfrozen_later_are_not_moved_by_gradients_without_noise():
    module = model()
    module[0].requires_grad_(False)
    _, optimizer, loader = given().attach(module, sgd(module), data())
    train(module, optimizer, loader, 1)
    before = module[0].weight.clone()
    module[0].requires_grad_(True)
    with pytest.raises(ValueError, match=r"\(6, 5\).* not trained when the optimizer was attached"):
        train(module, optimizer, loader, 1)
    with pytest.raises(ValueError, match="attach again"):  # before a sample that may be empty
        next(iter(loader))
    assert torch.equal(module[0].weight, before)
    for parameter in module[0].requires_grad_(False).parameters():
        parameter.grad = None
    train(module, optimizer, loader, 1)
    assert optimizer.steps == given().steps


def test_a_parameter_unfrozen_later_beside_a_trained_one_is_refused():
    """Its layer is recorded for the other: no gradient ever shows."""
    module = model()
    module[0].weight.requires_grad_(False)
    _, optimizer, loader = given().attach(module, sgd(module), data())
    train(module, optimizer, loader, 1)
    module.requires_grad_(True)
    with pytest.raises(ValueError, match="trainable now"):
        train(module, optimizer, loader, 1)


def test_a_count_that_leaves_nothing_for_the_gradients_is_refused_before_the_loop():
    module = model()
    starved = plan(batch=4, noise_multiplier=3.0, adapt=ClipAdaptation("Linear", 0.5, 0.2))
    with pytest.raises(ValueError, match=r"raise count_noise above 0\.375"):
        starved.attach(module, sgd(module), data())
    given().attach(module, sgd(module), data())  # the model is free


class Named(torch.utils.data.Dataset):
    def __init__(self, name):
        self.name = name

    def __len__(self):
        return len(data())

    def __getitem__(self, index):
        return *data()[index], self.name


def test_names_beside_the_tensors_do_not_hide_a_wrong_reduction():
    module = model()
    _, optimizer, loader = given().attach(module, sgd(module), Named("ada"))
    batches = ((x, y) for x, y, names in loader if len(names) == len(x))
    with pytest.raises(ValueError, match="summed over records"):
        train(module, optimizer, batches, 1, lambda outputs, y: F.cross_entropy(outputs, y, reduction="sum"))


@pytest.mark.parametrize("kind", ["linear warm-up", "one cycle"])
def test_groups_of_parameters_and_their_schedules_move_as_without_privacy(kind):
    """With noise of zero and a norm that nothing reaches, a private training is an ordinary one."""
    given = plan(sampling="shuffled", clip=1e6, epochs=2)
    trained, ordinary = model(), model()

    def groups(module):
        return [{"params": module[0].parameters(), "lr": 0.2}, {"params": module[2].parameters(), "weight_decay": 0.1}]

    def schedule(optimizer):
        if kind == "one cycle":
            return torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.3, 0.1], total_steps=8)
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))

    inner = torch.optim.AdamW(groups(trained), lr=0.05)
    _, optimizer, loader = attach(given, trained, inner, data(), source=Silent(), rng=seeded_rng(0))
    plain = torch.optim.AdamW(groups(ordinary), lr=0.05)
    ours, theirs = schedule(optimizer), schedule(plain)
    for _ in range(2):
        for x, y in loader:
            F.cross_entropy(trained(x), y).backward()
            optimizer.step()
            if optimizer.checking:
                continue
            ours.step()
            plain.zero_grad()
            (F.cross_entropy(ordinary(x), y, reduction="sum") / given.batch).backward()
            plain.step()
            theirs.step()
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in plain.param_groups]
    torch.testing.assert_close(flat(trained), flat(ordinary), rtol=1e-6, atol=1e-8)


def test_a_second_model_in_the_same_process_may_be_compiled_too():
    """What a compiler traced of the first one says nothing about the second."""
    trained = []
    for compiled in (False, True, True, True):
        module = model()
        inner = torch.optim.SGD(module.parameters(), 0.1)
        _, optimizer, loader = attach(plan(), module, inner, data(), source=Silent(), rng=seeded_rng(3), check=False)
        train(torch.compile(module, backend="eager") if compiled else module, optimizer, loader, 1)
        trained.append(flat(module))
    assert all(torch.equal(each, trained[0]) for each in trained)
