"""Who shares secrets and masks with whom: everybody with everybody, or each with k others on a random circle.

degree(n, bad, gone)              the least even k, and the threshold t, that keep every failure improbable
Circle(ids, k, seed)              the k-regular graph: a circle in random order, each joined to k/2 on either side

On the circle (Bell, Bonawitz, Gascón, Lepoint, Raykova 2020) three things may go wrong:
- a client has t or more corrupt neighbours, who can open its secrets: below 2^-41 for all n together;
- the honest clients that stay are cut in two, and the server learns both sums: two runs of k/2 neighbours would have to
  be corrupt or gone, as the graph is k-connected: below 2^-41 over all pairs of runs;
- a client keeps fewer than t neighbours, and the round fails: below 2^-20 for all n together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.prg import add_mask

SECURITY = 2.0**-41
CORRECTNESS = 2.0**-20


@dataclass(frozen=True, slots=True)
class Degree:
    neighbours: int  # k
    threshold: int  # t


@lru_cache(maxsize=256)
def degree(n: int, bad: int, gone: int) -> Degree | None:
    """The least even k for which some t keeps all three failures improbable; None if no k below n - 1 does.

    Args:
        n: clients on the circle, of whom `bad` are corrupt and `gone` others leave.
    """
    largest = (n - 2) // 2  # of k / 2
    half = 1
    while half < largest and _threshold(n, bad, gone, 2 * half) is None:
        half = min(2 * half, largest)
    if largest < 1 or _threshold(n, bad, gone, 2 * half) is None:
        return None
    low = half // 2  # did not do, or 0
    while half - low > 1:
        middle = (low + half) // 2
        low, half = (middle, half) if _threshold(n, bad, gone, 2 * middle) is None else (low, middle)
    # Rounding of t makes the condition not quite monotone: look a little below.
    for candidate in range(max(1, half - 8), half + 1):
        threshold = _threshold(n, bad, gone, 2 * candidate)
        if threshold is not None:
            return Degree(2 * candidate, threshold)
    return None


def _threshold(n: int, bad: int, gone: int, k: int) -> int | None:
    """The least t at which corrupt neighbours are too few, if enough neighbours stay for it."""
    from scipy.stats import hypergeom  # half a second, for graphs only

    others = n - 1
    candidates = np.arange(1, k + 1)
    safe = n * hypergeom.sf(candidates - 1, others, bad, k) < SECURITY
    if not safe.any():
        return None
    threshold = int(candidates[int(np.argmax(safe))])
    if n * hypergeom.cdf(threshold - 1, others, others - gone, k) >= CORRECTNESS:
        return None
    cut = n * (n - 1) / 2 * hypergeom.sf(k - 1, n, min(n, bad + gone), k)
    return threshold if cut < SECURITY else None


class Circle:
    """A random circle of ids. The order is a function of `seed` alone: 64-bit keys of its stream, sorted."""

    def __init__(self, ids: Sequence[int], neighbours: int, seed: bytes) -> None:
        self._ids: NDArray[np.int64] = np.array(sorted(ids), dtype=np.int64)
        if neighbours % 2 or not 0 < neighbours < len(self._ids):
            raise ValueError(
                f"{len(self._ids)} ids have no graph with {neighbours} neighbours each: take an even number"
            )
        keys = np.zeros(len(self._ids), dtype=np.uint64)
        add_mask(keys, seed[:16])
        self._order = np.argsort(keys, kind="stable")
        self._place = np.empty(len(self._ids), dtype=np.int64)
        self._place[self._order] = np.arange(len(self._ids))
        half = neighbours // 2
        self._offsets = np.array([*range(-half, 0), *range(1, half + 1)])

    def neighbours(self, identity: int) -> tuple[int, ...]:
        """The neighbours of `identity`, ascending."""
        place = self._place[np.searchsorted(self._ids, identity)]
        found = self._order[(place + self._offsets) % len(self._ids)]
        return tuple(sorted(self._ids[found].tolist()))
