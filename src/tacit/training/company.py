"""Whether a record's gradient depends on its company: the loss must be a mean, or a sum, of what each record gives.

Everything rests on that. A loss that is summed where the mean is expected multiplies each gradient by the size of the
sample, and a weighted mean divides by the weights of all: one record more changes what all others add, by more than
the clipping norm. Gradients alone do not show it, so that the first batch is shown whole, and then parts of it by
themselves: a quarter, three records, two others. A weighted mean stays hidden only where all of them have the batch's
own mean weight. With two weights, one of them for records that are ignored, say, they cannot: no share of a whole is
both a number of halves and a number of thirds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

MIXED = (
    "the gradient of a record changes with the other records of its batch, so clipping does not bound what one record "
    "changes: the loss or the model mixes records (a weighted mean, ignored labels, a comparison, a statistic over the "
    "batch). Compute a value for each record and take the mean of those over the batch. If the loop draws random "
    "numbers that are not torch's: attach(..., check=False)"
)
_ROUNDING = 1e-2  # of gradient norms in batches of different sizes
_FEW = (3, 2)
MOST_PARTS = 1 + len(_FEW)
_SCALED = 2.0  # a factor that randomness in the model does not reach; the wrong reduction is off by the sizes' ratio


def parts(records: int) -> list[slice]:
    """Which records of a batch are shown again: the first quarter, and few of the last ones where there are more."""
    found, last = [slice(0, max(1, records // 4))], records
    for few in _FEW:
        if last - few >= found[0].stop:
            found.append(slice(last - few, last))
            last -= few
    return found


def some_of(batch: Any, records: int, part: slice) -> Any:
    """Some records of a collated batch; None where it cannot be seen what belongs to a record."""
    leaves, spec = pytree.tree_flatten(batch, is_leaf=_texts)
    if not leaves or not all(_one_each(leaf, records) for leaf in leaves):
        return None
    return pytree.tree_unflatten([leaf[part] for leaf in leaves], spec)


def _one_each(leaf: Any, records: int) -> bool:
    if isinstance(leaf, Tensor):
        return bool(leaf.dim() > 0 and leaf.shape[0] == records)
    return _texts(leaf) and len(leaf) == records


def _texts(value: Any) -> bool:
    """What `default_collate` makes of names: a list of them."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, str | bytes) for each in value)


def random_state(device: torch.device) -> Tensor:
    """Where torch's generators stand: it changes where a model or a loss draws random numbers."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else state


def refuse_company(whole: Tensor, part: Tensor, sizes: tuple[int, int], random: bool) -> None:
    """Raise ValueError where the norms of the same records differ between a batch and a part of it.

    `random`: whether random numbers were drawn meanwhile (dropout): then only a wrong reduction can be told.
    Detects what depends on the size of a batch or on who else is in it, for the batch that was shown. It cannot detect
    what depends on others only later, or in other batches.
    """
    scale = float(torch.maximum(whole, part).max())
    if scale == 0 or bool(((whole - part).abs() <= _ROUNDING * scale).all()):
        return
    ratio = float((whole.sum() / part.sum().clamp(min=1e-300)).clamp(min=1e-300))
    apart = sizes[0] / sizes[1]
    expected = abs(ratio / apart - 1) < 0.2 or abs(ratio * apart - 1) < 0.2
    if expected and (not random or apart > _SCALED):
        raise ValueError(
            f"the gradients of the same records are {ratio:.3g} times as large among {sizes[0]} records as among "
            f"{sizes[1]}: the loss is summed over records where attach expects their mean, or the other way round. "
            "Take the mean, or attach(..., reduction='sum')"
        )
    if not random:
        raise ValueError(MIXED)
