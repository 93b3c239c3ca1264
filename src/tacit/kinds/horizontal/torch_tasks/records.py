"""The records of a client, by index, whatever its data function returned.

a tensor or an array                    a batch is its rows
a tuple of tensors or arrays            a batch is a tuple of their rows; a TensorDataset likewise
a dict of tensors or arrays             a batch is a dict of their rows
a dataset with a length and indices     its items, put together by `collate` (torch's default_collate)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset, default_collate

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """A client's records."""

    count: int
    device: torch.device
    _items: Callable[[NDArray[np.int64]], Any]

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: NDArray[np.int64]) -> Any:
        """These records as one batch, on the device of the training."""
        return on_device(self._items(indices), self.device)


def records_of(data: Any, collate: Collate | None, device: torch.device) -> Records:
    """The records of a client. ValueError if they cannot be taken by index."""
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise ValueError(
            f"data(client) returned {type(data).__name__}, whose records have no index: return tensors, or a dataset "
            "with __len__ and __getitem__"
        )
    if collate is None:
        columns = data.tensors if isinstance(data, TensorDataset) else data
        if isinstance(columns, Tensor | np.ndarray):
            rows = _tensor(columns)
            return Records(len(rows), device, lambda indices: rows.index_select(0, torch.from_numpy(indices)))
        if isinstance(columns, tuple | Mapping) and columns:
            found = _columns(columns)
            if found is not None:
                return found_records(found, device)
        _refuse_columns(columns)
    together = collate or default_collate
    return Records(len(data), device, lambda indices: together([data[int(index)] for index in indices]))


def _refuse_columns(data: Any) -> None:
    """ValueError for columns that would be taken for records: a tuple that is not of tensors, or a list of columns."""
    tensors = [each for each in data if isinstance(each, Tensor | np.ndarray)] if isinstance(data, tuple | list) else []
    if tensors and (isinstance(data, tuple) or len({tuple(each.shape) for each in tensors}) > 1):
        kinds = ", ".join(type(each).__name__ for each in data[:4])
        raise ValueError(
            f"data(client) returned a {type(data).__name__} of {kinds}: return the columns as a tuple, or a dict, of "
            "tensors with a row for each record, or give `collate` for records of different shapes"
        )


def found_records(columns: tuple[Tensor, ...] | dict[str, Tensor], device: torch.device) -> Records:
    """Records that are rows of tensors of one length."""
    tensors = list(columns.values()) if isinstance(columns, dict) else list(columns)
    lengths = {len(tensor) for tensor in tensors}
    if len(lengths) > 1:
        raise ValueError(f"data(client) returned tensors of {sorted(lengths)} records: they must have the same number")

    def rows(indices: NDArray[np.int64]) -> Any:
        chosen = torch.from_numpy(indices)
        if isinstance(columns, dict):
            return {name: tensor.index_select(0, chosen) for name, tensor in columns.items()}
        return tuple(tensor.index_select(0, chosen) for tensor in columns)  # faster than by []

    return Records(lengths.pop(), device, rows)


def on_device(batch: Any, device: torch.device) -> Any:
    """A batch with its tensors on a device; what is no tensor, and in no container of them, stays as it is."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        moved = {name: on_device(part, device) for name, part in batch.items()}
        return moved if type(batch) is dict else _like(batch, moved)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(on_device(part, device) for part in batch))
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        return type(batch)(on_device(part, device) for part in batch)  # type: ignore[call-arg]
    return batch


def _like(batch: Mapping[Any, Any], moved: dict[Any, Any]) -> Any:
    """A mapping of the same class, such as a BatchEncoding, with attributes for its keys; a dict if it cannot be."""
    try:
        return type(batch)(moved)  # type: ignore[call-arg]
    except TypeError:
        return moved


def _columns(columns: tuple[Any, ...] | Mapping[str, Any]) -> tuple[Tensor, ...] | dict[str, Tensor] | None:
    parts = columns.values() if isinstance(columns, Mapping) else columns
    if not all(isinstance(part, Tensor | np.ndarray) and part.ndim for part in parts):
        return None
    if isinstance(columns, Mapping):
        return {name: _tensor(part) for name, part in columns.items()}
    return tuple(_tensor(part) for part in columns)


def _tensor(column: Tensor | NDArray[Any]) -> Tensor:
    if isinstance(column, Tensor):
        return column
    return torch.from_numpy(column if column.flags.writeable else column.copy())  # torch warns of read-only memory
