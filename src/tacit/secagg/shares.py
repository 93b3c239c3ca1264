"""The shares that clients reveal, and the secrets that come of them, though some may be wrong."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.crypto import shamir
from tacit.errors import PeerError

REPAIRS = 16  # searches for wrong shares in one round: liars must not buy more of the server's time


class RevealedShares:
    """What was revealed in one round.

    Args:
        holders: who holds the shares of an owner, ascending.
        threshold: shares that open a secret.
    """

    def __init__(self, holders: Callable[[int], tuple[int, ...]], threshold: int) -> None:
        self.repairs = REPAIRS  # that are left
        self._holders = holders
        self._threshold = threshold
        self._revealed: dict[int, tuple[dict[int, int], NDArray[np.uint32]]] = {}  # revealer -> owners' places, rows
        self._reliable: set[int] = set()  # whose shares repaired a secret

    def add(self, revealer: int, owners: Sequence[int], rows: NDArray[np.uint32]) -> None:
        """What `revealer` says are its shares of `owners`."""
        self._revealed[revealer] = ({owner: place for place, owner in enumerate(owners)}, rows)

    def recover(self, owners: Collection[int], is_right: Callable[[int, bytes], bool]) -> dict[int, bytes]:
        """The verified secrets of `owners`. Those whose shares lie at the same points are combined in one go."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        first: dict[int, tuple[int, ...]] = {}
        for owner in sorted(owners):
            first[owner] = self._revealers(owner)[: self._threshold]
            alike[tuple(self._point(owner, revealer) for revealer in first[owner])].append(owner)
        found: dict[int, bytes] = {}
        for points, group in alike.items():
            rows = np.array([[self._row(owner, revealer) for revealer in first[owner]] for owner in group])
            try:
                found |= zip(group, shamir.combine_many(points, rows), strict=True)
            except PeerError:  # a share is so wrong that no secret comes out; the loop below finds which
                found |= dict.fromkeys(group, b"")
            for owner in group:
                if not (found[owner] and is_right(owner, found[owner])):
                    found[owner] = self._repair(owner, partial(is_right, owner))
        return found

    def _repair(self, owner: int, is_right: Callable[[bytes], bool]) -> bytes:
        """A secret of which some shares are wrong. Whose shares repaired one is asked first for the next."""
        revealers = {self._point(owner, r): r for r in self._revealers(owner)}
        rows = {point: self._row(owner, r) for point, r in revealers.items()}
        reliable = {point: row for point, row in rows.items() if revealers[point] in self._reliable}
        if len(reliable) >= self._threshold:
            try:
                return shamir.recover(reliable, self._threshold, is_right, attempts=1)[0]
            except PeerError:
                pass  # one of them lies about this owner only: search again
        if self.repairs == 0:
            raise PeerError("too many shares are wrong")
        self.repairs -= 1
        secret, points = shamir.recover(rows, self._threshold, is_right)
        self._reliable = {revealers[point] for point in points}
        return secret

    def _revealers(self, owner: int) -> tuple[int, ...]:
        """Who revealed a share of `owner`, ascending."""
        return tuple(h for h in self._holders(owner) if h in self._revealed and owner in self._revealed[h][0])

    def _row(self, owner: int, revealer: int) -> NDArray[np.uint32]:
        places, rows = self._revealed[revealer]
        row: NDArray[np.uint32] = rows[places[owner]]
        return row

    def _point(self, owner: int, holder: int) -> int:
        """The point at which `holder` has its share of `owner`: on the complete graph the same for every owner."""
        return bisect_left(self._holders(owner), holder) + 1
