"""Losses and models that mix records are found, honest ones are left alone, and the training is the same as without."""

# ruff: noqa: NPY002  # the loops here draw from numpy's global generator, as users' loops do

import random
from collections import UserDict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from tacit.key_stream import KEY_BYTES
from tacit.randomness import seeded_rng
from tacit.training import Plan, record_loss
from tacit.training.attach import attach
from tacit.training.generators import Generators
from tacit.training.independence import Watch
from tacit.training.noise import Gaussian
from tests.training.trainings import Silent, flat, train

RECORDS, BATCH, CLASSES = 2000, 64, 5
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(12, 8), nn.Dropout(0.1), nn.Linear(8, 12))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Perceptron(nn.Module):
    def __init__(self, dropout: float = 0.1, normalized: bool = False) -> None:
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(10, 16), nn.Linear(16, CLASSES), nn.Dropout(dropout)
        self.normalized = normalized

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.normalized:
            x = (x - x.mean(0)) / (x.std(0) + 1e-3)
        x = torch.relu(x)
        return self.last(self.dropout(x) if self.dropout.p else x)


def table(generator: torch.Generator, rare: float | None = None, ignored: float = 0.0) -> TensorDataset:
    x = torch.randn(RECORDS, 10, generator=generator)
    y = torch.randint(0, CLASSES, (RECORDS,), generator=generator)
    chance = torch.rand(RECORDS, generator=generator)
    if rare is not None:
        y = torch.where(chance < rare, 4, y % 4)
    return TensorDataset(x, torch.where(chance < ignored, -100, y))


def sentences(generator: torch.Generator) -> TensorDataset:
    x = torch.randint(0, 12, (RECORDS, 9), generator=generator)
    there = torch.arange(9) < torch.randint(2, 10, (RECORDS, 1), generator=generator)
    return TensorDataset(x, torch.where(there, torch.randint(0, 12, (RECORDS, 9), generator=generator), -100))


def mean(model, x, y):
    return F.cross_entropy(model(x), y)


def token_mean(model, x, y):
    return F.cross_entropy(model(x).transpose(1, 2), y)


def own_mean(model, x, y):
    return record_loss(model(x), y).mean()


def weighted(*weights: float) -> tuple[Loss, Loss]:
    weight = torch.tensor(weights, dtype=torch.float32)
    return (
        lambda model, x, y: F.cross_entropy(model(x), y, weight),
        lambda model, x, y: record_loss(model(x), y, weight=weight).mean(),
    )


def views(model, x):
    return F.normalize(model(x), dim=1), F.normalize(model(x), dim=1)


def simcse(model, x, y):
    one, other = views(model, x)
    return F.cross_entropy(one @ other.T / 0.1, torch.arange(len(x)))


def alignment(model, x, y):
    one, other = views(model, x)
    return (1 - (one * other).sum(1)).mean()


def mixup(model, x, y):
    share, other = float(np.random.beta(0.2, 0.2)), torch.randperm(len(x))
    out = model(share * x + (1 - share) * x[other])
    return share * F.cross_entropy(out, y) + (1 - share) * F.cross_entropy(out, y[other])


def jitter(model, x, y):
    return F.cross_entropy(model(x + float(np.random.beta(0.2, 0.2)) * torch.randn_like(x)), y)


class Routed(nn.Module):
    """A mixture of experts (Fedus, Zoph, Shazeer 2021): a small loss balances how often each of them is chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(10, 3), nn.ModuleList(nn.Linear(10, CLASSES) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        shares = self.gate(x).softmax(1)
        self.balance = 3 * (F.one_hot(shares.argmax(1), 3).float().mean(0) * shares.mean(0)).sum()
        return sum(shares[:, [i]] * expert(x) for i, expert in enumerate(self.experts))


def balanced(model, x, y):
    return F.cross_entropy(model(x), y) + 0.001 * model.balance


def focal(model, x, y):
    losses = F.cross_entropy(model(x), y, reduction="none")
    return (1 - (-losses).exp()).square() * losses


def focal_of_positives(model, x, y):
    """Lin, Goyal, Girshick, He, Dollar 2017: over the number of records that are no background."""
    return focal(model, x, y).sum() / (y > 0).sum().clamp(min=1)


def absolute_error(model, x, y):
    return F.l1_loss(model(x)[:, 0], x.sum(1))


def centred_absolute_error(model, x, y):
    """The gradient of a record keeps its norm whatever the batch makes of its target: it can only turn around."""
    target = x.sum(1)
    return F.l1_loss(model(x)[:, 0], target - target.mean())


def every_second(model, x, y):
    """Where a record is in its batch depends on the others."""
    flipped = torch.where(torch.arange(len(x))[:, None] % 2 == 0, x, x.flip(1))
    return F.cross_entropy(model(flipped), y)


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module]
    data: Callable[[torch.Generator], TensorDataset]
    mixing: Loss
    honest: Loss
    honest_model: Callable[[], nn.Module] | None = None


def by_record(loss: Loss) -> Loss:
    return lambda model, x, y: loss(model, x, y).mean()


ADDED = weighted(0.5, 1, 1, 2, 5)
RARE = weighted(1, 1, 1, 1, 100)
CASES = {
    "token mean with ignored labels, dropout": Case(Words, sentences, token_mean, own_mean),
    "weighted cross entropy, dropout": Case(Perceptron, table, *ADDED),
    "hand-made batch norm, dropout": Case(lambda: Perceptron(normalized=True), table, mean, mean, Perceptron),
    "SimCSE, dropout": Case(Perceptron, table, simcse, alignment),
    "mixup": Case(lambda: Perceptron(0), table, mixup, jitter),
    "rare class of weight 100": Case(lambda: Perceptron(0), lambda generator: table(generator, rare=0.005), *RARE),
    "0.5% ignored labels": Case(
        lambda: Perceptron(0), lambda generator: table(generator, ignored=0.005), mean, own_mean
    ),
}

MORE = {
    "load balancing of experts": Case(Routed, table, balanced, mean),
    "focal loss over positives, dropout": Case(Perceptron, table, focal_of_positives, by_record(focal)),
    "centred absolute error, dropout": Case(Perceptron, table, centred_absolute_error, absolute_error),
    "augmented by place": Case(lambda: Perceptron(0), table, every_second, mean),
}


def refused(case: Case, seed: int, steps: int, honest: bool = False) -> str | None:
    """The refusal of a training, if there is one. Everything is seeded: its outcome is always the same."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    model = ((honest and case.honest_model) or case.model)()
    data, loss = case.data(torch.Generator().manual_seed(seed)), case.honest if honest else case.mixing
    plan = Plan(records=RECORDS, batch=BATCH, epochs=-(-steps * BATCH // RECORDS) + 1, noise_multiplier=1.0)
    rngs = {"rng": seeded_rng(seed), "check_rng": seeded_rng(seed + 1000)}
    _, optimizer, loader = attach(plan, model, torch.optim.SGD(model.parameters(), lr=0.1), data, **rngs)
    try:
        while optimizer.steps < steps:
            for x, y in loader:
                loss(model, x, y).backward()
                optimizer.step()
                if optimizer.steps >= steps:
                    break
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", CASES)
def test_trainings_that_mix_records_are_refused(name):
    """Of 20 trainings of up to 100 steps; measured are 20 each."""
    found = [refused(CASES[name], seed, 100) for seed in range(20)]
    assert sum(each is not None for each in found) >= 19
    assert all("record_loss" in each for each in found if each)


@pytest.mark.parametrize("name", MORE)
def test_what_one_record_moves_little_or_only_turns_around_is_refused(name):
    """By the first two batches that are looked at, in all of 6 trainings."""
    assert all("mixes records" in (refused(MORE[name], seed, 10) or "accepted") for seed in range(6))


@pytest.mark.parametrize("name", CASES | MORE)
def test_honest_trainings_are_not_refused(name):
    assert [refused((CASES | MORE)[name], seed, 12, honest=True) for seed in range(4)] == [None] * 4


@pytest.mark.slow  # minutes
@pytest.mark.parametrize("name", CASES | MORE)
def test_long_honest_trainings_are_not_refused(name):
    assert [refused((CASES | MORE)[name], seed, 150, honest=True) for seed in range(20)] == [None] * 20


@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("taken", ["mean", "sum"])
@pytest.mark.parametrize("expected", ["mean", "sum"])
def test_a_wrong_reduction_shows_through_dropout(expected, taken, dropout):
    torch.manual_seed(0)
    model, data = Perceptron(dropout), table(torch.Generator().manual_seed(0))
    plan = Plan(records=RECORDS, batch=BATCH, epochs=1, noise_multiplier=1.0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    _, optimizer, loader = attach(plan, model, inner, data, reduction=expected, rng=seeded_rng(1))
    right = nullcontext() if taken == expected else pytest.raises(ValueError, match=r"Take the mean, or attach\(")
    with right:
        train(model, optimizer, loader, 1, lambda outputs, labels: F.cross_entropy(outputs, labels, reduction=taken))
    assert optimizer.steps == (plan.steps if taken == expected else 0)


# --- when, and what it costs


def shown(watch: Watch, norms: Tensor, random_numbers: bool = False) -> int:
    """Records that are shown again after a batch of these norms, which stay as they are."""
    watch.look(norms)
    watch.drew(random_numbers)
    found = 0
    while (places := watch.asks()) is not None:
        found += len(places)
        watch.take(norms[torch.from_numpy(places)])
    return found


@pytest.mark.parametrize("random_numbers", [False, True])
@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("records", [2, 16, 64])
def test_below_one_percent_is_shown_again(records, growing, random_numbers):
    """Of 1000 batches or more, also if each batch is more unusual than all before."""
    for seed in range(3):
        watch, norms = Watch(seeded_rng(seed)), 1 + torch.rand(records, dtype=torch.float64)
        total = 0
        for batch in range(3000):
            norms[0] = 2.0 ** (batch if growing and batch < 1000 else 0)
            total += shown(watch, norms, random_numbers)
            if batch + 1 in (1000, 1250, 2000, 3000):
                assert 0 < total < 0.01 * records * (batch + 1)


def test_one_batch_of_each_stretch_is_looked_at_at_secret_times():
    norms = 1 + torch.rand(8, dtype=torch.float64)

    def times(rng=None):
        watch = Watch(rng)
        return [batch for batch in range(4000) if shown(watch, norms)]

    for found in (times(seeded_rng(1)), times(), times()):
        assert found[0] == 0
        ends = [1, 10, 100, 1000, 2000, 3000, 4000]
        inside = [[time for time in found if a <= time < b] for a, b in pairwise(ends)]
        assert [len(each) for each in inside] == [1] * 6
    assert times(seeded_rng(1)) == times(seeded_rng(1))
    assert len({tuple(times()) for _ in range(3)}) > 1  # equal by chance: 1 in 10^20


def test_an_unusual_batch_before_the_secret_time_is_taken_at_once():
    usual = 1 + torch.rand(8, dtype=torch.float64)
    for odd in (
        torch.cat([usual[:7], torch.zeros(1).double()]),
        torch.cat([usual[:7], torch.full((1,), 50.0).double()]),
    ):
        watch = Watch(seeded_rng(1))
        assert shown(watch, usual)
        for _ in range(9):
            shown(watch, usual)
        while not watch.armed:
            assert not shown(watch, usual)
        assert watch._latest > watch._batches
        assert shown(watch, odd)
        assert not watch.armed


def test_a_batch_of_one_record_waits_for_a_larger_one():
    watch = Watch(seeded_rng(1))
    assert shown(watch, torch.ones(1).double()) == 0
    assert watch.armed
    assert shown(watch, torch.ones(2).double()) == 2 + 2 + 1


# --- the training is the same as without


class Sentences(Dataset):
    """Records of different lengths."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        self.rows = [torch.randint(0, 12, (int(n),), generator=generator) for n in torch.randint(2, 9, (60,))]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.rows[index], "y": self.rows[index].roll(1)}


def padded(rows):
    """Pads to the longest, draws masks, and takes the records apart while it is at it."""
    x = nn.utils.rnn.pad_sequence([row.pop("x") for row in rows], batch_first=True)
    y = nn.utils.rnn.pad_sequence([row.pop("y") for row in rows], batch_first=True, padding_value=-100)
    return Encoding({"x": torch.where(torch.rand(x.shape[1]) < 0.1, 0, x), "y": y})


class Encoding(UserDict):
    """What tokenizers return: a mapping that is no dict."""


@pytest.mark.parametrize("physical", [None, 7])
def test_the_same_bit_by_bit(physical):
    ends = []
    for check in (True, False):
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)
        model, plan = Words(), Plan(records=60, batch=20, epochs=8, noise_multiplier=1.0, physical=physical)
        inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        source = Gaussian(sum(p.numel() for p in model.parameters()), torch.float32, key=bytes(KEY_BYTES))
        data = DataLoader(Sentences(), collate_fn=padded)
        rngs = {"rng": seeded_rng(1), "check_rng": seeded_rng(2)}
        _, optimizer, loader = attach(plan, model, inner, data, check=check, source=source, **rngs)
        inner.register_step_post_hook(lambda inner, *_: inner.param_groups[0]["params"][0].data.add_(torch.rand(())))
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        rates, batches, again = [], 0, 0
        for _ in range(plan.epochs):
            for batch in loader:
                x, y = batch["x"], batch["y"]
                scale = float(np.random.rand()) + random.random() + float(torch.rand(()))
                (scale * record_loss(model(x), y).mean()).backward()
                optimizer.step()
                again += optimizer.checking
                if not optimizer.checking:
                    scheduler.step()
                    rates.append(inner.param_groups[0]["lr"])
                    batches += 1
        after = Generators.now()
        ends.append((flat(model), rates, batches, optimizer.ledger.to_json(), after))
        assert (again > 0) == check
    with_check, without = ends
    assert torch.equal(with_check[0], without[0])
    assert with_check[1:4] == without[1:4]
    assert with_check[4].same(without[4])


# --- what else is refused


def small(loss, data=None, model=None, plan=None, batches=20, hook=None):
    torch.manual_seed(0)
    model = model or nn.Linear(4, 3)
    data = data or TensorDataset(torch.randn(40, 4), torch.randint(0, 3, (40,)))
    plan = plan or Plan(records=len(getattr(data, "dataset", data)), batch=20, epochs=10, noise_multiplier=1.0)
    options = {"source": Silent(), "rng": seeded_rng(1), "check_rng": seeded_rng(1)}
    _, optimizer, loader = attach(plan, model, torch.optim.SGD(model.parameters(), lr=0.1), data, **options)
    if hook is not None:
        optimizer.register_step_post_hook(hook)
    for _, batch in zip(range(batches), loader, strict=False):
        loss(model, batch).backward()
        optimizer.step()
    return optimizer


def test_a_loop_with_a_generator_of_its_own_is_refused():
    own = np.random.default_rng(1)
    with pytest.raises(ValueError, match=r"cannot be told whether records keep apart.*torch's default generator"):
        small(lambda model, batch: float(own.random()) * F.cross_entropy(model(batch[0]), batch[1]))


def test_a_loop_that_counts_batches_is_told_to_count_steps():
    count = iter(range(1000))
    with pytest.raises(ValueError, match=r"count optimizer\.steps"):
        small(lambda model, batch: (1 + next(count)) * F.cross_entropy(model(batch[0]), batch[1]))


def test_records_that_are_finite_only_among_others_are_mixed():
    """Overwritten by a record whose label is ignored, the only label that counts is gone: a mean over nothing."""
    data = TensorDataset(torch.randn(2, 4), torch.tensor([1, -100]))
    plan = Plan(records=2, batch=2, epochs=1, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="mixes records"):
        small(lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), data, plan=plan)


def test_what_follows_a_step_is_done_in_a_hook():
    """In the loop it would be done while the same batch is shown again, before the model has moved."""
    generator = nn.Linear(2, 4)

    def loss(model, batch):
        fake = model(generator(torch.ones(len(batch[0]), 2)).detach())
        return F.cross_entropy(model(batch[0]), batch[1]) + F.cross_entropy(fake, torch.zeros(len(fake)).long())

    def follow(*_):
        generator.weight.data.add_(0.1)
        for parameter in model.parameters():
            parameter.data.clamp_(-0.2, 0.2)

    model, plan = nn.Linear(4, 3), Plan(records=40, batch=4, epochs=1, noise_multiplier=1.0)
    optimizer = small(loss, model=model, plan=plan, hook=follow)
    assert optimizer.steps > 5
    assert float(flat(model).abs().max()) <= float(torch.tensor(0.2))

    def in_the_loop(model, batch):
        value = loss(model, batch)
        follow()
        return value

    optimizer.engine.detach()
    with pytest.raises(ValueError, match=r"optimizer\.register_step_post_hook"):
        small(in_the_loop, model=model)


def halved_in_place(rows):
    for x, _ in rows:
        x.div_(2)
    return default_collate(rows)


def halved(model, batch):
    for x, _ in batch:
        x.div_(2)
    x, y = default_collate(batch)
    return F.cross_entropy(model(x), y)


@pytest.mark.parametrize(
    ("collate", "loss"),
    [(halved_in_place, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1])), (list, halved)],
)
def test_records_may_be_changed_in_place(collate, loss):
    data = TensorDataset(torch.randn(40, 4), torch.arange(40) % 3)
    before = data.tensors[0].clone()
    assert small(loss, DataLoader(data, collate_fn=collate)).steps > 0
    assert torch.equal(data.tensors[0], before)


@dataclass(slots=True)
class Slots:
    """A batch without a dictionary of its own."""

    x: Tensor
    y: Tensor


def test_shapes_inside_of_slots_are_seen():
    """One record is longer than all others: without it the batch has other shapes, and dropout other numbers."""
    rows = [torch.full((9 if n == 0 else 3,), n % 12) for n in range(20)]

    def collate(found):
        x = nn.utils.rnn.pad_sequence(found, batch_first=True)
        return Slots(x, nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=-100))

    plan = Plan(records=20, batch=20, epochs=20, noise_multiplier=1.0)
    honest = small(
        lambda model, batch: record_loss(model(batch.x), batch.y).mean(),
        DataLoader(rows, collate_fn=collate), Words(), plan,
    )  # fmt: skip
    assert honest.steps > 0


def test_a_loop_that_goes_on_after_a_refusal_is_not_disturbed():
    model = nn.Linear(4, 3)
    data = TensorDataset(torch.randn(40, 4), torch.arange(40) % 3)
    plan = Plan(records=40, batch=20, epochs=1, noise_multiplier=1.0)
    _, optimizer, loader = attach(plan, model, torch.optim.SGD(model.parameters(), lr=0.1), data, rng=seeded_rng(1))
    refusals, numbers = 0, []
    for x, y in loader:
        numbers.append(float(torch.rand(())))
        F.cross_entropy(model(x), y, torch.tensor([1.0, 2.0, 9.0])).backward()
        try:
            optimizer.step()
        except ValueError:
            refusals += 1
    assert refusals > 0
    assert optimizer.steps == 0
    assert optimizer.abandoned == [[0, refusals]]


def mixed_rows(rows):
    x, y = (torch.stack(column) for column in zip(*rows, strict=True))
    return 0.7 * x + 0.3 * x[torch.randperm(len(x))], y


def random_crops(rows):
    """How much is drawn depends on the record."""
    return torch.stack([x * float(torch.rand(int(y) + 1)[-1]) for x, y in rows]), torch.stack([y for _, y in rows])


@pytest.mark.parametrize("collate", [mixed_rows, random_crops])
def test_a_collation_that_mixes_records_is_refused(collate):
    data = TensorDataset(torch.randn(40, 4), torch.arange(40) % 3)
    with pytest.raises(ValueError, match=r"the collation changes other records.*__getitem__"):
        small(lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), DataLoader(data, collate_fn=collate))


def test_a_collation_into_single_records_is_checked():
    data = DataLoader(
        TensorDataset(torch.randn(40, 4), torch.randint(0, 3, (40,))), collate_fn=lambda rows: dict(enumerate(rows))
    )

    def loss(model, batch):
        x, y = (torch.stack(column) for column in zip(*batch.values(), strict=True))
        return F.cross_entropy(model(x), y, weight=torch.tensor([1.0, 2.0, 9.0]))

    with pytest.raises(ValueError, match="mixes records"):
        small(loss, data)


def test_a_check_that_cannot_be_made_is_said():
    rows = [(torch.randn(n, 4), torch.tensor(n % 3)) for n in range(1, 21)]

    class Ragged(Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            return rows[index]

    def flattened(found):
        lengths = torch.tensor([len(x) for x, _ in found])
        return torch.cat([x for x, _ in found]), lengths, torch.stack([y for _, y in found])

    def loss(model, batch):
        x = torch.stack([each.mean(0) for each in batch[0].split(batch[1].tolist())])
        return F.cross_entropy(model(x), batch[2])

    with pytest.warns(UserWarning, match="not checked"):
        optimizer = small(loss, DataLoader(Ragged(), collate_fn=flattened))
    assert optimizer.steps > 0


@pytest.mark.parametrize("touched", [0, 3])
def test_records_that_the_loss_does_not_touch_are_no_wrong_reduction(touched):
    """The norms of gradients that are all 0 are bounds of rounding, which follow the size of the batch."""
    x = torch.randn(100, 6, generator=torch.Generator().manual_seed(2))
    x[:touched] += 1000
    module = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 1))
    nn.init.constant_(module[0].weight, 1.0)
    nn.init.constant_(module[1].weight, 1.0)
    given = Plan(records=100, batch=40, epochs=2, noise_multiplier=1e-9)
    _, optimizer, loader = given.attach(module, torch.optim.SGD(module.parameters(), lr=1e-6), TensorDataset(x))
    for _ in range(2):
        for (batch,) in loader:
            torch.relu(module(batch)[:, 0] - 10_000).mean().backward()
            optimizer.step()
    assert optimizer.steps == given.steps
