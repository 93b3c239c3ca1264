"""Layers without a rule: run once for each record under `vmap`, with everything inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tacit.training.arguments import Arguments
from tacit.training.layers import Forward, Layer


def fallback(layer: Layer, bypass: Callable[[], Any]) -> Forward:
    """Any module: run once for each record under `vmap`, each with its own copy of the parameters inside."""
    inside = Inside(layer.module, layer.module.forward)
    arguments = Arguments(layer.name)
    layer.recorder.arguments.append(arguments)

    def forward(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        records, split = arguments.split(leaves, str(spec))
        own = {
            f"module.{name}": named(layer, name).per_record(name.rpartition(".")[2], records)
            for name in sorted(layer.trained)
        }

        def one(parameters: dict[str, Tensor], *tensors: Tensor) -> Any:
            given = iter(tensors)
            filled = [next(given).unsqueeze(0) if cut else leaf for cut, leaf in zip(split, leaves, strict=True)]
            positional, keywords = pytree.tree_unflatten(filled, spec)
            with bypass():
                out = torch.func.functional_call(inside, parameters, positional, keywords)
            return pytree.tree_map(lambda leaf: leaf.squeeze(0) if isinstance(leaf, Tensor) else leaf, out)

        tensors = [leaf for cut, leaf in zip(split, leaves, strict=True) if cut]
        try:
            return torch.vmap(one, randomness="different")(own, *tensors)
        except (RuntimeError, ValueError) as error:
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


def named(layer: Layer, path: str) -> Layer:
    """The layer of the submodule that holds the parameter at `path`."""
    inner, _, parameter = path.rpartition(".")
    name = f"{layer.name}.{inner}" if inner else layer.name
    return Layer(name, layer.module.get_submodule(inner), frozenset([parameter]), layer.recorder)
