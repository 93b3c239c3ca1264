"""A DataLoader with worker processes, a collation of its own, and records as dictionaries."""

import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from tacit.training.attach import attach
from tacit.training.plan import Plan
from tacit.training.record_source import source
from tests.training.trainings import Silent, flat, model

PLAN = Plan(records=40, batch=10, epochs=2, noise_multiplier=1.0)


class Records(Dataset):
    """Each says which process read it."""

    def __init__(self) -> None:
        self.x = torch.randn(40, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, place):
        if place >= 40:
            raise IndexError(place)
        return {"x": self.x[place], "y": place % 3, "reader": os.getpid(), "place": place}


def padded(items):
    """A collation as of Hugging Face: dictionaries into tensors."""
    return {key: torch.stack([torch.as_tensor(item[key]) for item in items]) for key in items[0]}


@pytest.mark.parametrize("collate", [None, padded])
def test_records_are_read_by_workers_in_the_order_of_the_sample(collate):
    read = source(PLAN, DataLoader(Records(), num_workers=2, collate_fn=collate, persistent_workers=True))
    readers = set()
    for indices in (np.array([3, 1, 30, 7, 7]), np.array([5]), np.arange(40)):
        batch = read.batch(read.read(indices))
        assert batch["place"].tolist() == indices.tolist()
        readers |= set(batch["reader"].tolist())
    assert len(readers) == 2
    assert os.getpid() not in readers


def moved(workers: int) -> torch.Tensor:
    torch.manual_seed(0)
    trained = model()
    data = DataLoader(Records(), num_workers=workers, collate_fn=padded)
    _, optimizer, loader = attach(
        PLAN, trained, torch.optim.SGD(trained.parameters(), 0.5), data, source=Silent(),
        rng=np.random.default_rng(0), check_rng=np.random.default_rng(1),
    )  # fmt: skip
    for _ in range(2):
        for batch in loader:
            F.cross_entropy(F.dropout(trained(batch["x"]), 0.2), batch["y"]).backward()
            optimizer.step()
    assert optimizer.steps == PLAN.steps
    return flat(trained)


def test_a_training_with_workers_is_that_without_bit_by_bit():
    assert moved(2).equal(moved(0))


def test_what_workers_would_not_do_is_refused_still():
    loader = DataLoader(Records(), num_workers=2, generator=torch.Generator())
    with pytest.raises(ValueError, match=r"generator=.* would be ignored"):
        source(PLAN, loader)


def test_an_error_of_a_worker_arrives():
    read = source(PLAN, DataLoader(Records(), num_workers=1))
    with pytest.raises(IndexError):
        read.read(np.array([41]))
