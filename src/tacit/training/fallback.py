"""Layers without a rule: run once for each record under `vmap`, with everything inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tacit.training.layers import Forward, Layer


class Arguments:
    """Which tensors that a module is given have a row for each record, and which are shared by all records.

    A shared tensor may be as long as the batch by chance. So an argument is known to be of records only once it was as
    long as two batches of different sizes; one that was not as long as a batch is shared. The first tensor is of
    records. A length of 1 says nothing: it broadcasts.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sizes: dict[tuple[str, int], int] = {}  # of the batch that an argument was as long as, once
        self._known: dict[tuple[str, int], bool] = {}  # whether it is of records

    @property
    def undecided(self) -> str | None:
        """An argument that was as long as the only batch that it was given with."""
        return next((f"argument {place + 1} of {self._name}" for _, place in self._sizes), None)

    def split(self, leaves: list[Any], spec: str) -> tuple[int, list[bool]]:
        """The number of records, and for each leaf whether it has a row for each."""
        lengths = [leaf.shape[0] if isinstance(leaf, Tensor) and leaf.dim() > 0 else None for leaf in leaves]
        records = next((length for length in lengths if length is not None), None)
        if records is None:
            raise ValueError(
                f"{self._name} takes no tensor of records, so its gradient has no records: give it the batch"
            )
        first = lengths.index(records)
        return records, [
            length is not None and (place == first or self._of_records((spec, place), length, records))
            for place, length in enumerate(lengths)
        ]

    def _of_records(self, key: tuple[str, int], length: int, records: int) -> bool:
        if length != records and length != 1:
            if key in self._sizes or self._known.get(key, False):
                raise ValueError(
                    f"argument {key[1] + 1} of {self._name} has {length} rows for {records} records, and was as "
                    "long as an earlier batch: it cannot be told whether it has a row for each record. Expand what "
                    "all records share to one row a record, x.expand(records, *x.shape)"
                )
            self._known[key] = False
        if key in self._known or length != records:
            return length == records and self._known.get(key, False)
        if self._sizes.setdefault(key, records) != records:
            self._known[key] = True
            del self._sizes[key]
        elif records == 1:
            del self._sizes[key]
        return True


def fallback(layer: Layer, bypass: Callable[[], Any], arguments: Arguments) -> Forward:
    """Any module: run once for each record under `vmap`, each with its own copy of the parameters inside."""
    inside = Inside(layer.module, layer.module.forward)

    def forward(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        records, split = arguments.split(leaves, str(spec))
        own = {
            f"module.{name}": _named(layer, name).per_record(name.rpartition(".")[2], records)
            for name in sorted(layer.trained)
        }

        def one(parameters: dict[str, Tensor], *tensors: Tensor) -> Any:
            given = iter(tensors)
            filled = [next(given).unsqueeze(0) if cut else leaf for cut, leaf in zip(split, leaves, strict=True)]
            arguments, keywords = pytree.tree_unflatten(filled, spec)
            with bypass():
                out = torch.func.functional_call(inside, parameters, arguments, keywords)
            return pytree.tree_map(lambda leaf: leaf.squeeze(0) if isinstance(leaf, Tensor) else leaf, out)

        tensors = [leaf for cut, leaf in zip(split, leaves, strict=True) if cut]
        try:
            return torch.vmap(one, randomness="different")(own, *tensors)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            raise ValueError(
                f"{layer.name} ({type(layer.module).__name__}) has no rule of its own and cannot run once for each "
                f"record: put its own parameters into a small module, apart from what vmap cannot do ({error})"
            ) from error

    return forward


class Inside(nn.Module):  # type: ignore[misc]
    """A forward of a module, without the module's hooks: they run around the recorded one."""

    def __init__(self, module: nn.Module, forward: Forward) -> None:
        super().__init__()
        self.module = module
        self._forward = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)


def _named(layer: Layer, path: str) -> Layer:
    """The layer of the submodule that holds the parameter at `path`."""
    inner, _, parameter = path.rpartition(".")
    name = f"{layer.name}.{inner}" if inner else layer.name
    return Layer(name, layer.module.get_submodule(inner), frozenset([parameter]), layer.recorder)
