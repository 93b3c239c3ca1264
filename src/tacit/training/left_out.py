"""Recorded gradients without those of some records: as if these had a gradient of 0.

Why: 0 times infinity is NaN, so a factor of 0 does not leave out a record whose gradient is not finite.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from tacit.training.owner_gradients import Gathered, owners_of
from tacit.training.recorded import Part, Rows, Stacked


def without(part: Part, left_out: Tensor) -> Part:
    """The part with 0 for each record (owner, if it was gathered) at which `left_out` is true."""
    match part:
        case Rows():
            return replace(part, rows=_zeroed(part.rows, left_out[part.owners]))
        case Gathered():
            records = left_out[owners_of(part.starts, left_out.device)]
            return replace(part, parts=[without(each, records) for each in part.parts])
        case Stacked():
            own = left_out.split([each.records for each in part.parts])
            pairs = zip(part.parts, own, strict=True)
            return Stacked([without(each, chosen) for each, chosen in pairs])
    changed: dict[str, Any] = {}
    kept: Any = part
    for field in fields(kept):
        value = getattr(part, field.name)
        if isinstance(value, Tensor) and value.is_floating_point():  # a row for each record
            changed[field.name] = _zeroed(value, left_out)
        elif isinstance(value, list | tuple) and any(is_dataclass(inner) for inner in value):
            changed[field.name] = [without(inner, left_out) for inner in value]
    return cast(Part, replace(kept, **changed))


def _zeroed(rows: Tensor, left_out: Tensor) -> Tensor:
    chosen = left_out.view(-1, *[1] * (rows.dim() - 1))
    return torch.where(chosen, rows.new_zeros(()), rows)
