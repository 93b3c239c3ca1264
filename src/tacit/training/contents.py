"""What is stored with a model beside what is trained under noise: buffers, frozen parameters, extra state.

A forward that writes there (running statistics, code books, a moving average) stores what derives from private records
without noise. torch counts the writes to a tensor, and they are compared around each pass; a write through `.data` is
not counted, so the contents are compared too: whenever a batch is shown again, and before a state or a report is given.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

Contents = dict[str, str]  # a digest by the name in the model's state_dict, or of the buffer
Name = tuple[str, str, str]  # "parameter" or "buffer", the path of the module, its name there
Versions = dict[Name, tuple[Tensor, int]]  # a tensor and how often it was written; kept, so that its id stays its own

_WIDTH = 1021  # words in a row: the sums of columns notice a word that moves by anything but multiples of it


def versions(model: nn.Module) -> Versions:
    """Which tensors the parameters and buffers are, and how often each was written."""
    return {
        (kind, path, name): (tensor, tensor._version)
        for path, module in model.named_modules()
        for kind, held in (("parameter", module._parameters), ("buffer", module._buffers))
        for name, tensor in held.items()
        if tensor is not None
    }


def refuse_written(model: nn.Module, before: Versions) -> None:
    """Raise ValueError if a forward wrote to the model: what it holds then derives from the records, without noise."""
    now = versions(model)
    written = [each for each in now.keys() | before.keys() if not _same(now.get(each), before.get(each))]
    _refuse(sorted(f"{kind} {path}{'.' if path else ''}{name}" for kind, path, name in written))


def _same(one: tuple[Tensor, int] | None, other: tuple[Tensor, int] | None) -> bool:
    return one is not None and other is not None and one[0] is other[0] and one[1] == other[1]


def contents(model: nn.Module, leave_out: Collection[Tensor] = ()) -> Contents:
    """A digest of all that the model's state_dict holds, and of other buffers, but for the tensors of `leave_out`.

    One pass over the memory, on the device where it is. It tells mistakes, not forgeries.
    """
    left = {_place(tensor) for tensor in leave_out}
    return {
        name: _digest(value)
        for name, value in {**dict(model.named_buffers()), **model.state_dict(keep_vars=True)}.items()
        if not (isinstance(value, Tensor) and _place(value) in left)
    }


def _place(tensor: Tensor) -> tuple[int, int]:
    """Where a tensor is in memory, as tied weights are in one place. Sparse ones are in several."""
    return (tensor.data_ptr() if tensor.layout is torch.strided else -id(tensor), tensor.numel())


def refuse_changed(before: Contents, after: Contents) -> None:
    """Raise ValueError by the name of what differs."""
    differing = sorted(dict(before.items() ^ after.items()))
    _refuse([f"stored tensor {name}" for name in differing])


def _refuse(written: list[str]) -> None:
    if written:
        raise ValueError(
            f"the {written[0]} was written while the model saw private records, and no noise covers what it holds: "
            "leave running statistics and code books out, keep averages of weights outside of the model "
            "(torch.optim.swa_utils.AveragedModel), and change weights after a step (a clamp, a projection) in "
            "optimizer.register_step_post_hook. If it does not derive from the records: attach(..., check=False)"
        )


def _digest(value: Any) -> str:
    if isinstance(value, Tensor):
        return _digest_of_tensor(value)
    found = io.BytesIO()
    try:
        _Pickler(found).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"the model's extra state holds a {type(value).__name__} that cannot be compared ({error}), so it cannot "
            "be told whether it keeps something of the records: return plain data and tensors from get_extra_state, or "
            "attach(..., check=False)"
        ) from error
    return hashlib.sha256(found.getvalue()).hexdigest()


class _Pickler(pickle.Pickler):
    """Reduces any object to bytes, to compare it: they are hashed and never read, here or elsewhere.

    Of a tensor the digest of its contents is written: torch writes where in memory it is.
    """

    def reducer_override(self, value: Any) -> Any:
        return (str, (_digest(value),)) if isinstance(value, Tensor) else NotImplemented


def _digest_of_tensor(leaf: Tensor) -> str:
    if leaf.layout is torch.sparse_coo:
        return f"{tuple(leaf.shape)} {_digest(leaf.detach()._indices())} {_digest(leaf.detach()._values())}"
    if leaf.layout is not torch.strided:
        leaf = leaf.to_dense()
    data = leaf.detach().reshape(-1).view(torch.uint8)
    data = data.clone() if data.storage_offset() % 8 else data
    whole = len(data) // (8 * _WIDTH) * 8 * _WIDTH
    columns = data[:whole].view(torch.int64).view(-1, _WIDTH).sum(0)
    digest = hashlib.sha256(f"{leaf.dtype} {tuple(leaf.shape)} ".encode())
    for part in (columns, data[whole:]):
        digest.update(part.cpu().numpy().tobytes())
    return digest.hexdigest()
