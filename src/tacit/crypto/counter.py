"""Numbers that are used once, also after a restart: the tweaks of `punctured` words.

    counter = Counter(first, keep)     `first` is what was kept last; `keep` stores a number so that it outlives a crash
    counter.take(n)                    n numbers that were never taken before
    counter.advance_to(number)         skip what another party may have used

`take` has `keep` store the first number that is still free, and only then returns. If the process ends in between, the
numbers are lost and never used. Two parties that take the same amounts from the same number on have the same tweaks;
when they meet again, both advance to the larger one of their numbers. So a party that was restored from an older copy
is put right by the other one, unless both were.

`reserve` has `keep` store that many numbers ahead, so that not every `take` waits for a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn

__all__ = ["MOST", "Counter"]

MOST = 2**63


class Counter:
    """Free numbers from `first` on. `keep(number)` must have stored it durably when it returns, or raise."""

    def __init__(self, first: int, keep: Callable[[int], None], *, reserve: int = 1) -> None:
        if not 0 <= first <= MOST:
            raise ValueError(f"a counter begins between 0 and 2^63, got {first}")
        if reserve < 1:
            raise ValueError(f"a counter reserves 1 number or more, got {reserve}")
        self._next = self._kept = first
        self._keep = keep
        self._reserve = reserve
        self._lock = threading.Lock()

    @property
    def next(self) -> int:
        """The number that is taken next."""
        return self._next

    def take(self, count: int = 1) -> range:
        """The next `count` numbers, which nobody gets again."""
        if count < 0:
            raise ValueError(f"take 0 numbers or more, got {count}")
        with self._lock:
            first = self._next
            self._move(first + count)
            return range(first, first + count)

    def advance_to(self, number: int) -> None:
        """Skip to `number`. ValueError if that is behind: what was taken is never free again."""
        with self._lock:
            if number < self._next:
                raise ValueError(f"a counter only grows: it is at {self._next}, not to be set to {number}")
            self._move(number)

    def _move(self, number: int) -> None:
        if number > MOST:
            raise ValueError(f"a counter ends at 2^63, asked for {number}: make new trees")
        if number > self._kept:
            kept = min(max(number, self._next + self._reserve), MOST)
            self._keep(kept)  # if it raises, nothing was taken
            self._kept = kept
        self._next = number

    def __reduce__(self) -> NoReturn:
        raise TypeError("a counter is not copied: two of them would give the same numbers")
