"""Records read by worker processes of a torch DataLoader, one sample at a time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

USED = ("num_workers", "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor", "persistent_workers")


class Workers:
    """Reads the records of a sample with the workers of `given`, each some of them. They live as long as this does.

    A sample is not read before it is asked for: who is in a later one is not drawn yet.
    """

    def __init__(self, given: DataLoader[Any]) -> None:
        self._shares: list[list[int]] = []
        self._workers = given.num_workers
        generator = torch.Generator()
        # Workers are seeded from here, so that the generator of the loop stays as it is without them.
        generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
        self._loader: DataLoader[Any] = DataLoader(
            given.dataset,
            batch_sampler=self._shares,
            collate_fn=_as_they_are,
            num_workers=given.num_workers,
            timeout=given.timeout,
            worker_init_fn=given.worker_init_fn,
            multiprocessing_context=given.multiprocessing_context,
            prefetch_factor=given.prefetch_factor,
            persistent_workers=True,
            generator=generator,
        )

    def read(self, indices: NDArray[np.int64]) -> list[Any]:
        shares = np.array_split(indices, min(len(indices), self._workers)) if len(indices) else []
        self._shares[:] = [share.tolist() for share in shares]
        return [item for share in self._loader for item in share]


def _as_they_are(items: list[Any]) -> list[Any]:
    return items
