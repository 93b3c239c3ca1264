"""What holders of shares say about their owners, and from how many on it is held against one of them."""

from __future__ import annotations

from collections import Counter


class Complaints:
    """Of one round: holders that say that the shares of some owners were no good.

    It or they lie: nobody can tell who, unless so many stand against one that a quorum of clients would have to lie
    together.
    """

    def __init__(self) -> None:
        self.disputes: dict[int, tuple[int, ...]] = {}  # holders, and of whom each says that its shares were no good
        self._about: Counter[int] = Counter()

    def add(self, holder: int, owners: list[int], enough: int) -> dict[int, str]:
        """Take the complaint of a holder; who is to blame by a quorum of `enough`, and why."""
        if not owners:
            return {}
        self.disputes[holder] = tuple(owners)
        blamed = {}
        if len(owners) >= enough:
            blamed[holder] = f"it says that the shares of {len(owners)} clients are invalid"
        for owner in owners:
            self._about[owner] += 1
            if self._about[owner] >= enough:
                blamed[owner] = f"{self._about[owner]} clients say that its shares are invalid"
        return blamed


def quorum(holders: int, threshold: int, colluders: int) -> int:
    """Complaints by which a client is blamed, of many about one or of one about many: without it one client could end
    every round and stay.

    Guarantee: more than `colluders`, so that one of the many is honest if no more lie together. Also more than half as
    many as there are shares to spare, and never fewer than three: fewer bad shares hardly end a round.
    """
    return max(3, colluders + 1, (holders - threshold) // 2 + 1)
