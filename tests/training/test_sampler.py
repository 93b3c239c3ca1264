"""Who is in a sample, what the loader hands out, and what data it refuses."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from tacit.randomness import seeded_rng
from tacit.training.sampler import Loader, Sampler
from tests.training.trainings import data, plan


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
    unproved = False
    steps = 0

    def begin(self, piece):
        self.steps += piece.last

    def abandon(self):
        pass


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: DataLoader(data(), batch_size=8, drop_last=True), "drop_last=False"),
        (lambda: DataLoader(data(), sampler=WeightedRandomSampler([1.0] * 40, 40)), "WeightedRandomSampler"),
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
