"""Whether a party's event loop works, and how it stands on the network at this moment.

    with vitals.watched(figures):           in the event loop of a party: what it is asked for
    vitals.look(seconds)                    in any other thread: the figures, or None if the loop does not answer

The loop itself is asked each time: an answer shows that it is alive, and no figure is read while it changes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that were carried since the process began."""

    received: int = 0
    sent: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.received + other.received, self.sent + other.sent)


@dataclass(frozen=True, slots=True)
class Figures:
    """How a party stands on the network."""

    connected: int = 0  # other parties
    needed: int = 0  # of them
    stage: str = ""  # of the round under way; empty between rounds, and where there are none
    traffic: Traffic = Traffic()

    def __add__(self, other: Figures) -> Figures:
        stage = self.stage or other.stage
        traffic = self.traffic + other.traffic
        return Figures(self.connected + other.connected, self.needed + other.needed, stage, traffic)


Part = tuple[asyncio.AbstractEventLoop, Callable[[], Figures]]


class Vitals:
    """Of all parties of this process. Those that have ended keep the traffic that they had."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: list[Part] = []
        self._over = Traffic()

    @contextmanager
    def watched(self, figures: Callable[[], Figures], loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
        """A party lives in this event loop, by default the running one, until the end of the block."""
        part = (loop or asyncio.get_running_loop(), figures)
        with self._lock:
            self._parts.append(part)
        try:
            yield
        finally:
            with self._lock:
                self._parts.remove(part)
                self._over += figures().traffic

    def look(self, seconds: float) -> Figures | None:
        """The figures of all parties together; None if an event loop does not answer in so many seconds."""
        with self._lock:
            parts, found = list(self._parts), Figures(traffic=self._over)
        deadline = time.monotonic() + seconds
        for loop, figures in parts:
            seen = _asked(loop, figures, deadline - time.monotonic())
            if seen is None:
                return None
            found += seen
        return found


def _asked(loop: asyncio.AbstractEventLoop, figures: Callable[[], Figures], seconds: float) -> Figures | None:
    seen: list[Figures] = []
    done = threading.Event()

    def ask() -> None:
        seen.append(figures())
        done.set()

    try:
        loop.call_soon_threadsafe(ask)
    except RuntimeError:  # it has just ended, as it should
        return Figures()
    done.wait(max(0.0, seconds))
    return seen[0] if seen else None
