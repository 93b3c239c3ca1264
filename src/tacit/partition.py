"""Which client holds which samples: evenly at random, or skewed by label."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

SPLIT = 13  # what a seed is for: see `tacit.kinds.horizontal.sampling.SAMPLING`
Indices = NDArray[np.int64]


def iid(count: int, clients: int, rng: Generator) -> list[Indices]:
    """Samples dealt out at random, as evenly as can be."""
    _check(count, clients)
    return [np.sort(part) for part in np.array_split(rng.permutation(count), clients)]


def dirichlet(labels: NDArray[np.int64], clients: int, alpha: float, rng: Generator) -> list[Indices]:
    """Each label spread over the clients in Dirichlet(alpha) proportions: a small alpha gives each client few labels.

    Nobody stays without samples: those that would take one from the richest.
    Source: Hsu, Qi, Brown 2019.
    """
    _check(len(labels), clients)
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be a finite number above 0, got {alpha!r}")
    held: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        places = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(places)
        for client, part in enumerate(np.split(places, cuts.astype(int))):
            held[client] += part.tolist()
    for client in range(clients):
        if not held[client]:
            held[client].append(max(held, key=len).pop())
    return [np.sort(np.array(part, dtype=np.int64)) for part in held]


def _check(count: int, clients: int) -> None:
    if clients > count:
        raise ValueError(f"{clients} clients cannot share {count} samples: take fewer clients")
