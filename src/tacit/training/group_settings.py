"""The learning rate and the like of an optimizer's groups, kept for a move that waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]


def settings(groups: Sequence[Group]) -> list[Group]:
    """What the groups say now, but for their parameters. Schedulers write into tensors."""
    return [
        {k: v.clone() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"} for group in groups
    ]


@contextmanager
def as_before(groups: Sequence[Group], before: Sequence[Group] | None) -> Iterator[None]:
    """With the settings of `before`, where given; then with those of now again."""
    moved = []
    for group, earlier in zip(groups, before or (), strict=False):
        later = {key: group[key] for key, value in earlier.items() if not _equal(group[key], value)}
        group.update({key: earlier[key] for key in later})
        moved.append((group, later))
    yield
    for group, later in moved:
        group.update(later)


def _equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) and isinstance(other, Tensor) else bool(one == other)
