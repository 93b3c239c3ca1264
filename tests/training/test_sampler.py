"""Who is in a sample, what the loader hands out, and what data it refuses."""

import inspect

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset, WeightedRandomSampler

from tacit.randomness import seeded_rng
from tacit.training.attach import attach
from tacit.training.record_source import _UNUSED
from tacit.training.sampler import Loader, Sampler
from tests.training.trainings import Silent, data, model, plan


def test_each_record_is_sampled_by_itself():
    """Inclusion counts, sample sizes and pairs of neighbours are those of independent coins."""
    samples, given = 4000, plan(batch=12)
    sampler = Sampler(given, seeded_rng(3))
    member = np.zeros((samples, 40), dtype=bool)
    for step in range(samples):
        member[step, sampler.sample(step)] = True
    counts = member.sum(0)
    spread = samples * 0.3 * 0.7
    assert stats.chi2.sf(((counts - samples * 0.3) ** 2 / spread).sum(), 40) > 1e-3
    together = (member[:, :-1] & member[:, 1:]).sum(0)
    assert stats.chi2.sf(((together - samples * 0.09) ** 2 / (samples * 0.09 * 0.91)).sum(), 39) > 1e-3
    sizes = np.bincount(member.sum(1), minlength=41)
    expected = stats.binom.pmf(np.arange(41), 40, 0.3) * samples
    common = expected > 5
    assert stats.chi2.sf(((sizes - expected)[common] ** 2 / expected[common]).sum(), common.sum()) > 1e-3
    assert sizes[25:].sum() == member.sum(1)[member.sum(1) >= 25].size  # never truncated


def test_shuffled_batches_hold_every_record_once_an_epoch():
    sampler = Sampler(plan(sampling="shuffled"), seeded_rng(1))
    epochs = [np.concatenate([sampler.sample(step) for step in range(4 * epoch, 4 * epoch + 4)]) for epoch in range(2)]
    assert all(sorted(epoch) == list(range(40)) for epoch in epochs)
    assert list(epochs[0]) != list(epochs[1])


def test_pieces_are_what_memory_holds():
    given = plan(batch=20, physical=3)
    sampler, same = Sampler(given, seeded_rng(5)), Sampler(given, seeded_rng(5))
    for step in range(20):
        pieces, whole = list(sampler.pieces(step)), same.sample(step)
        assert [index for piece in pieces for index in piece.indices] == list(whole)
        assert all(len(piece.indices) <= 3 for piece in pieces)
        assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


class Nobody:
    steps = 0
    under_way = True

    def begin(self, piece):
        self.steps += piece.last

    def settle(self):
        pass

    def abandon(self):
        pass


class Pairwise:
    def __iter__(self):
        return iter([[0, 1], [2, 3]])


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: DataLoader(data(), batch_size=8, drop_last=True), "drop_last=False"),
        (lambda: DataLoader(data(), sampler=WeightedRandomSampler([1.0] * 40, 40)), "WeightedRandomSampler"),
        (lambda: DataLoader(data(), sampler=RandomSampler(data(), replacement=True)), "RandomSampler"),
        (lambda: DataLoader(data(), sampler=RandomSampler(data(), num_samples=20)), "RandomSampler"),
        (lambda: DataLoader(data(), batch_sampler=Pairwise()), "Pairwise"),
        (lambda: DataLoader(data(), batch_size=8), "batch_size=8, the plan batch=10"),
        (lambda: DataLoader(data(), batch_size=None), "batch_size=None"),
        (lambda: DataLoader(data(), num_workers=2), "num_workers=2 would be ignored"),
        (lambda: DataLoader(data(), pin_memory=True), "pin_memory=True would be ignored"),
        (lambda: DataLoader(data(), generator=torch.Generator()), "generator=.* would be ignored"),
        (lambda: DataLoader(data(), worker_init_fn=print), "worker_init_fn=.* would be ignored"),
        (lambda: DataLoader(Stream()), "__len__ and __getitem__"),
        (lambda: Stream(), "__len__ and __getitem__"),
        (lambda: iter(data()), "__len__ and __getitem__"),
        (lambda: data(39), "has 39 records, the plan is for 40"),
        (lambda: (torch.zeros(40, 5), torch.zeros(40)), "TensorDataset"),
    ],
)
def test_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Loader(plan(), given(), Sampler(plan()), Nobody())


class Pairs:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"x": torch.full((2,), float(index)), "y": index}


def test_any_dataset_and_a_loaders_own_collation():
    given = plan(batch=40)
    (batch,) = list(Loader(given, Pairs(), Sampler(given), Nobody()))
    assert batch["x"].shape == (40, 2)
    assert batch["y"].tolist() == list(range(40))
    loader = DataLoader(TensorDataset(torch.arange(40)), collate_fn=lambda rows: sum(int(row[0]) for row in rows))
    assert list(Loader(given, loader, Sampler(given), Nobody())) == [780]


@pytest.mark.parametrize("options", [{}, {"batch_size": 10}, {"batch_size": 4}, {"shuffle": True}, {"timeout": 0}])
def test_arguments_of_a_loader_that_change_nothing_are_accepted(options):
    given = plan(batch=10, physical=4)
    list(Loader(given, DataLoader(data(), **options), Sampler(given), Nobody()))


def test_every_argument_of_a_loader_is_used_or_refused():
    known = {"self", "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last"}
    assert set(inspect.signature(DataLoader.__init__).parameters) - known == set(_UNUSED)


class Doubled(TensorDataset):
    def __getitem__(self, index):
        return tuple(2 * tensor for tensor in super().__getitem__(index))


def test_a_dataset_of_tensors_with_a_reading_of_its_own():
    given = plan(batch=40)
    ((x,),) = list(Loader(given, Doubled(torch.arange(40)), Sampler(given), Nobody()))
    assert x.tolist() == list(range(0, 80, 2))


def test_an_iteration_that_another_one_ended_cannot_add_its_records_to_the_new_sample():
    module = model(dtype=torch.float32)
    optimizer = torch.optim.SGD(module.parameters(), 1.0)
    own = plan(batch=40, physical=10)
    _, private, loader = attach(own, module, optimizer, data(dtype=torch.float32), source=Silent(), check=False)

    def step(iteration):
        x, y = next(iteration)
        functional.cross_entropy(module(x), y).backward()
        private.step()

    first = iter(loader)
    step(first)
    second = iter(loader)
    step(second)
    with pytest.raises(ValueError, match="iterate over it once at a time"):
        next(first)  # records 10 to 19, which the second iteration adds too
    assert private.steps == 0
    assert private.abandoned == [[0, 2]]


def test_a_sample_of_which_a_piece_failed_is_not_gone_on_with():
    """One record without a finite gradient would otherwise take the other records of its piece out of the sum."""
    x = torch.ones(40, 1)
    x[3] = torch.nan
    module = torch.nn.Linear(1, 1, bias=False)
    before = module.weight.detach().clone()
    optimizer = torch.optim.SGD(module.parameters(), 1.0)
    own = plan(batch=40, epochs=1, physical=10)
    _, private, loader = attach(own, module, optimizer, TensorDataset(x), source=Silent())
    seen = 0
    for (given,) in loader:
        seen += len(given)
        module(given).mean().backward()
        with pytest.raises(ValueError, match="nothing was released"):
            private.step()
    assert seen == 10
    assert torch.equal(module.weight, before)
    assert (private.steps, private.abandoned) == (0, [[0, 1]])
