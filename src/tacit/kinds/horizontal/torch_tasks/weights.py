"""The tensors of a module: which travel, which stay at a client, which are frozen; as arrays and back.

travel      parameters that are trained and match no pattern of `local`; in the order of the module, tied ones once
local       parameters that are trained and match a pattern of `local`
buffers     such as the statistics of BatchNorm and counters; they stay at the client too
frozen      parameters that are not trained, such as the base of a LoRA model; parties compare their digest

All arrays of a model that travels have one type: float64 if one of its parameters has, else float32. Parameters of
fewer bits are cast to it and back, which changes none of their values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.kinds.horizontal.task import Arrays

_PIECE = 1 << 24  # bytes of a tensor that are hashed at a time


class Weights:
    """The tensors of one module, and their values when it was made."""

    def __init__(self, module: nn.Module, local: Sequence[str] = ()) -> None:
        if not isinstance(module, nn.Module):
            raise ValueError(f"model() of a TorchTask must return a torch module, got {type(module).__name__}")
        self._module = module
        trained = {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}
        if not trained:
            raise ValueError("the module has no parameter to train: requires_grad is False for all of them")
        for pattern in local:
            if not any(matches(name, pattern) for name in trained):
                raise ValueError(f"local: no trained parameter matches {pattern!r}: there are {_some(trained)}")
        self.local = {name: trained[name] for name in trained if any(matches(name, each) for each in local)}
        self.travel = {name: trained[name] for name in trained if name not in self.local}
        if not self.travel:
            raise ValueError(f"local: {', '.join(local)} keeps every trained parameter at the client: none is left")
        self.dtype = _common_type(self.travel)
        self._buffers = _persistent_buffers(module)
        kept = {**self.travel, **self.local, **self._buffers}
        self._initial = {name: tensor.detach().clone() for name, tensor in kept.items()}

    # --- what travels

    def arrays(self) -> Arrays:
        """What travels, as arrays of its own."""
        return {name: _array(tensor, self.dtype) for name, tensor in self.travel.items()}

    def load(self, model: Mapping[str, NDArray[Any]], local: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Put a model into the module, with what a client kept; everything else is as when the module was made."""
        kept = dict(local or {})
        with torch.no_grad():
            for name, tensor in {**self.local, **self._buffers}.items():
                if name in kept:
                    _fill(name, tensor, kept.pop(name))
                else:
                    tensor.copy_(self._initial[name])
            for name, tensor in self.travel.items():
                _fill(name, tensor, model[name])
        if kept:
            raise ValueError(
                f"a client kept {_some(kept)}, which is not local in this module: the task changed since then"
            )

    def reset(self) -> None:
        """Everything as when the module was made."""
        with torch.no_grad():
            for name, tensor in {**self.travel, **self.local, **self._buffers}.items():
                tensor.copy_(self._initial[name])

    # --- what stays

    @property
    def keeps(self) -> bool:
        """Whether a client has anything to keep from one round to the next."""
        return bool(self.local) or bool(self._buffers)

    def kept(self) -> Arrays:
        """What a client keeps: its local parameters, and the buffers that training changed."""
        changed = {
            name: tensor for name, tensor in self._buffers.items() if not torch.equal(tensor, self._initial[name])
        }
        return {name: _array(tensor, _stored_type(tensor)) for name, tensor in {**self.local, **changed}.items()}

    # --- what is frozen

    def frozen_digest(self) -> str | None:
        """What two parties with the same frozen parameters agree on; None if none is frozen."""
        frozen = {name: tensor for name, tensor in self._module.named_parameters() if not tensor.requires_grad}
        if not frozen:
            return None
        digest = hashlib.sha256()
        for name in sorted(frozen):
            tensor = frozen[name].detach()
            digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
            raw = tensor.to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy()
            for start in range(0, len(raw), _PIECE):
                digest.update(raw[start : start + _PIECE].tobytes())
        return digest.hexdigest()


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern names a parameter, a module above it, or either of them by its last part.

    `head` stands for head.weight and head.bias, also of encoder.head; `bn*` for all of bn1 and bn2; `*.bias` for every
    bias.
    """
    parts = name.split(".")
    candidates = {".".join(parts[start:end]) for end in range(1, len(parts) + 1) for start in range(end)}
    return any(fnmatchcase(candidate, pattern) for candidate in candidates)


def _common_type(tensors: Mapping[str, Tensor]) -> torch.dtype:
    for name, tensor in tensors.items():
        if not tensor.dtype.is_floating_point:
            raise ValueError(f"parameter {name} has the type {tensor.dtype}: only real floating-point ones can travel")
    return torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors.values()) else torch.float32


def _persistent_buffers(module: nn.Module) -> dict[str, Tensor]:
    stored = module.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in module.named_buffers() if name in stored}


def _stored_type(tensor: Tensor) -> torch.dtype:
    """Numpy and the store have no bfloat16."""
    small = tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4
    return torch.float32 if small else tensor.dtype


def _array(tensor: Tensor, dtype: torch.dtype) -> NDArray[Any]:
    copied: NDArray[Any] = tensor.detach().to("cpu", dtype, copy=True).contiguous().numpy()
    return copied


def _fill(name: str, tensor: Tensor, array: NDArray[Any]) -> None:
    if tuple(array.shape) != tuple(tensor.shape):
        raise ValueError(f"{name} must have the shape {tuple(tensor.shape)}, got {tuple(array.shape)}")
    tensor.copy_(torch.from_numpy(np.array(array)))  # a copy: what is received is read-only


def _some(names: Mapping[str, object]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
