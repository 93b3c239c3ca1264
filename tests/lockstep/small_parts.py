"""A small split network of records with ids, in topology V, for trainings that are interrupted."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tacit.kinds.split.task import Bottom, Rows, Top

RECORDS, TEST = 20, 4


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, *cuts):
        return self.layer(torch.cat(cuts, dim=1))


def make_parts(seat):
    torch.manual_seed(seat.seed)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(RECORDS + TEST, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.int64)
    names = tuple(f"r{number}" for number in range(RECORDS + TEST))

    def rows(columns):
        def some(where):
            if columns is None:
                return Rows(None, y[where], names[where])
            return Rows(x[where, columns], None, names[where])

        return {"train": some(slice(0, RECORDS)), "test": some(slice(RECORDS, None))}

    if seat.role == "leader":
        cuts = {name: (4 // len(seat.followers),) for name in seat.followers}
        return Top(Joined(), cuts, **rows(None), loss=nn.functional.cross_entropy, classes=2)
    width = 4 // len(seat.followers)
    first = width * seat.followers.index(seat.party)
    return Bottom(nn.Linear(width, width), (width,), **rows(slice(first, first + width)))
