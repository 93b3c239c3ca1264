from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from tacit.kinds.horizontal.torch_tasks.records import records_of

CPU = torch.device("cpu")
X, Y = np.arange(12.0).reshape(6, 2), np.arange(6)
CHOSEN = np.array([4, 0])


class Pairs(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"x": X[index], "name": f"record {index}"}


def test_tensors_arrays_tuples_and_dicts_are_taken_by_row():
    assert records_of(X, None, CPU).batch(CHOSEN).tolist() == X[CHOSEN].tolist()
    x, y = records_of((torch.from_numpy(X), Y), None, CPU).batch(CHOSEN)
    assert (x.tolist(), y.tolist()) == (X[CHOSEN].tolist(), [4, 0])
    assert records_of({"y": Y}, None, CPU).batch(CHOSEN)["y"].tolist() == [4, 0]
    (only,) = records_of(TensorDataset(torch.from_numpy(Y)), None, CPU).batch(CHOSEN)
    assert only.tolist() == [4, 0]
    assert [len(records_of(data, None, CPU)) for data in (X, (X, Y), {"y": Y}, Pairs())] == [6, 6, 6, 6]


def test_read_only_arrays_give_no_warning():
    fixed = X.copy()
    fixed.flags.writeable = False
    assert records_of(fixed, None, CPU).batch(CHOSEN).shape == (2, 2)


def test_items_of_a_dataset_are_put_together_by_the_default_or_by_collate():
    batch = records_of(Pairs(), None, CPU).batch(CHOSEN)
    assert batch["x"].tolist() == X[CHOSEN].tolist()
    assert batch["name"] == ["record 4", "record 0"]
    names = records_of(Pairs(), lambda items: [item["name"] for item in items], CPU).batch(CHOSEN)
    assert names == ["record 4", "record 0"]


class Endless(IterableDataset):
    def __iter__(self):
        return iter(X)


@pytest.mark.parametrize("data", [Endless(), iter(X), 5])
def test_records_without_an_index_are_refused(data):
    with pytest.raises(ValueError, match="have no index"):
        records_of(data, None, CPU)


def test_tensors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"\[5, 6\] records"):
        records_of((X, Y[:5]), None, CPU)
