"""What is stored with a model beside what is trained under noise: buffers, frozen parameters, extra state.

A forward that writes there (running statistics, code books, a moving average) stores what derives from private records
without noise. torch counts the writes to a tensor, and they are compared around each pass; a write through `.data` is
not counted, so the contents are compared too: whenever a batch is shown again, and before a state or a report is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Contents = dict[str, str]  # a digest by the name in the model's state_dict

_WIDTH = 1021  # words in a row: the sums of columns notice a word that moves by anything but multiples of it


def versions(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Which tensors the parameters and buffers are, and how often each was written."""
    found = {f"parameter {name}": tensor for name, tensor in model.named_parameters()}
    found |= {f"buffer {name}": tensor for name, tensor in model.named_buffers()}
    return {name: (id(tensor), tensor._version) for name, tensor in found.items()}


def refuse_written(model: nn.Module, before: dict[str, tuple[int, int]]) -> None:
    """Raise ValueError if a forward wrote to the model: what it holds then derives from the records, without noise."""
    _refuse(sorted(dict(versions(model).items() - before.items())))


def contents(model: nn.Module, leave_out: Collection[Tensor] = ()) -> Contents:
    """A digest of everything that the model's state_dict holds, but for the tensors of `leave_out`.

    One pass over the memory, on the device where it is. It tells mistakes, not forgeries.
    """
    left = {(tensor.data_ptr(), tensor.numel()) for tensor in leave_out}
    return {
        name: " ".join(map(_digest, pytree.tree_leaves(value)))
        for name, value in model.state_dict(keep_vars=True).items()
        if not (isinstance(value, Tensor) and (value.data_ptr(), value.numel()) in left)
    }


def refuse_changed(before: Contents, after: Contents) -> None:
    """Raise ValueError by the name of what differs."""
    differing = sorted(dict(before.items() ^ after.items()))
    _refuse([f"stored tensor {name}" for name in differing])


def _refuse(written: list[str]) -> None:
    if written:
        raise ValueError(
            f"the {written[0]} was written while the model saw private records, and no noise covers what it holds: "
            "leave running statistics and code books out, and keep averages of weights outside of the model "
            "(torch.optim.swa_utils.AveragedModel). If it does not derive from the records: attach(..., check=False)"
        )


def _digest(leaf: Any) -> str:
    if not isinstance(leaf, Tensor):
        return repr(leaf)
    data = leaf.detach().reshape(-1).view(torch.uint8)
    data = data.clone() if data.storage_offset() % 8 else data
    whole = len(data) // (8 * _WIDTH) * 8 * _WIDTH
    columns = data[:whole].view(torch.int64).view(-1, _WIDTH).sum(0)
    digest = hashlib.sha256(f"{leaf.dtype} {tuple(leaf.shape)} ".encode())
    for part in (columns, data[whole:]):
        digest.update(part.cpu().numpy().tobytes())
    return digest.hexdigest()
