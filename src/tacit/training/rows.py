"""Modules with parameters [1, ...] of their own beside the layers inside: class tokens and positions, as of ViT.

Such a parameter broadcasts over the records. So the module's own forward computes the same if it finds one row for
each record in its place, and the layers inside record themselves. Whether that is so is tried on the first two records
or more; until then, and if it is not, the module runs once for each record (`fallback`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tacit.training.arguments import records_of
from tacit.training.fallback import Inside
from tacit.training.layers import Forward, Layer
from tacit.training.probe import tried


def broadcasts(module: nn.Module) -> bool:
    """Whether all trained parameters that a module holds itself, of which there are some, begin with a dimension of 1,
    and whether there are layers inside, for which it is worth a try."""
    own = [each for each in module.parameters(recurse=False) if each.requires_grad]
    inside = any(each.requires_grad for child in module.children() for each in child.parameters())
    return bool(own) and inside and all(each.dim() > 1 and each.shape[0] == 1 for each in own)


def rows(layer: Layer, instead: Forward, bypass: Callable[[], Any], announce: Callable[[], None]) -> Forward:
    """The module's own forward with a row of its parameters for each record; `instead` if that is something else.

    `announce` is called when it is known that it is something else.
    """
    return tried(layer, _recorded(layer.module.forward), instead, bypass, announce)


def _recorded(own: Forward) -> Callable[[Layer], Forward]:
    def rule(layer: Layer) -> Forward:
        inside = Inside(layer.module, own)

        def forward(*args: Any, **kwargs: Any) -> Any:
            records = records_of((args, kwargs)) or 0
            found = {f"module.{name}": layer.per_record(name, records)[:, 0] for name in sorted(layer.trained)}
            return torch.func.functional_call(inside, found, args, kwargs)

        return forward

    return rule
