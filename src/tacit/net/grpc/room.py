"""Memory for frames that are being put together, without I/O but for waiting.

    frame = room.begin(total, drop)     a frame of `total` bytes begins; nothing is reserved for it
    await room.take(frame, count)       before `count` more bytes of it are kept
    frame.read(count, seconds)          how long they took to come: the time in `take` is not the sender's
    room.end(frame)                     it is whole and was handled, or will never be

A quarter of the room is divided among the parties: what fits into a party's share never waits. The rest is taken as
bytes come in. A frame that would take what others need waits, and its sender waits with it, because it is not read:

- There is always an order in which all frames can be completed with what is free (Dijkstra's banker, EWD 623), so
  that frames which are half there cannot block each other for ever.
- The frame that lacks least comes first, and what it lacks is kept free for it, unless it is much slower than the one
  that asks.
- A frame that holds much and then comes much slower than before, or than one that waits for it, is dropped: `drop` is
  called, and its memory is free at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

_SHARED = 4  # one part in so many is divided among the parties
_MUCH = 8  # times slower is much slower, ...
_BRIEF = 30.0  # ... unless it takes less than so many seconds
_WAITED = 10.0  # seconds that a frame waits before a slower one is dropped for it
_MEAN = 5.0  # seconds over which speed is measured, ...
_KNOWN = 2.0  # ... and after which it is known


@dataclass(eq=False, slots=True)
class Frame:
    """A frame that is coming in. `need` and `held` are beyond the party's share."""

    total: int
    need: int
    number: int
    drop: Callable[[], None]
    received: int = 0
    held: int = 0
    waits: float | None = None  # since when it waits for memory
    seconds: float = 0.0  # that it was read for
    speed: float = 0.0  # decayed mean, not yet corrected for its beginning at 0
    peak: float = 0.0
    since: float = 0.0  # when it was last read from, while it does not wait

    @property
    def lacks(self) -> int:
        return self.need - self.held

    def read(self, count: int, seconds: float) -> None:
        """So many bytes came in so many seconds."""
        decay = math.exp(-seconds / _MEAN)
        fresh = count * (1 - decay) / seconds if seconds > 1e-6 else count / _MEAN
        self.speed = self.speed * decay + fresh
        self.seconds += seconds
        if self.seconds >= _KNOWN:
            self.peak = max(self.peak, self._speed(0.0))

    def left(self, now: float) -> float:
        """The seconds until it is whole, at its present rate."""
        missing = self.total - self.received
        gap = 0.0 if self.waits is not None else max(0.0, now - self.since)
        if missing == 0 or self.seconds + gap == 0:
            return 0.0
        speed = self._speed(gap)
        return missing / speed if speed > 0 else math.inf

    def _speed(self, gap: float) -> float:
        return self.speed * math.exp(-gap / _MEAN) / -math.expm1(-(self.seconds + gap) / _MEAN)


@dataclass(eq=False, slots=True)
class _Asked:
    """A frame that waits for memory."""

    frame: Frame
    count: int
    granted: asyncio.Event = field(default_factory=asyncio.Event)


class Room:
    """Of `size` bytes for `parties`, whose frames have at most `limit`; of two frames in any case."""

    def __init__(self, size: int, limit: int, parties: int) -> None:
        self.size = max(size, 2 * limit)
        self._share = self.size // (_SHARED * max(1, parties))
        self.free = self.size - self._share * max(1, parties)
        self._frames: dict[int, Frame] = {}  # that need more than a share
        self._lacking = 0  # bytes, of all of them
        self._waiting: list[_Asked] = []
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, total: int, drop: Callable[[], None]) -> Frame:
        self._numbers += 1
        frame = Frame(total, max(0, total - self._share), self._numbers, drop, since=_now())
        if frame.need:
            self._frames[frame.number] = frame
            self._lacking += frame.need
        return frame

    async def take(self, frame: Frame, count: int) -> None:
        """Wait for room for `count` more bytes. A frame takes no more than its total."""
        count = min(count, frame.total - frame.received)
        more = max(0, frame.received + count - (frame.total - frame.need)) - frame.held
        frame.received += count
        if more > 0 and not self._grant(frame, more):
            asked = _Asked(frame, more)
            self._waiting.append(asked)
            frame.waits = _now()
            self._watch()
            try:
                await asked.granted.wait()
            finally:
                frame.waits = None
                if asked in self._waiting:
                    self._waiting.remove(asked)
        frame.since = _now()

    def end(self, frame: Frame) -> None:
        """Give back what a frame has. May be repeated."""
        if self._frames.pop(frame.number, None) is not None:
            self._lacking -= frame.lacks
            self.free += frame.held
            self._serve()

    def _serve(self) -> None:
        for asked in sorted(self._waiting, key=lambda asked: _order(asked.frame)):
            if asked.frame.number not in self._frames or self._grant(asked.frame, asked.count):
                self._waiting.remove(asked)
                asked.frame.waits = None
                asked.granted.set()

    def _grant(self, frame: Frame, count: int) -> bool:
        enough = self.free >= self._lacking
        if not enough and not (self._in_turn(frame, count) and self._safe(frame, count)):
            return False
        frame.held += count
        self.free -= count
        self._lacking -= count
        return True

    def _in_turn(self, frame: Frame, count: int) -> bool:
        """Whether those that lack less can still be completed, apart from those that are much slower."""
        now = _now()
        most = _BRIEF + _MUCH * frame.left(now)
        ahead = sum(
            other.lacks
            for other in self._frames.values()
            if _order(other) < _order(frame) and (other.waits is not None or other.left(now) <= most)
        )
        return self.free - count >= ahead

    def _safe(self, frame: Frame, count: int) -> bool:
        """Whether all can be completed, one after the other, once this one has `count` more."""
        free = self.free - count
        if free < 0:
            return False
        held = {number: other.held for number, other in self._frames.items()}
        held[frame.number] += count
        for other in sorted(self._frames.values(), key=lambda other: other.need - held[other.number]):
            if other.need - held[other.number] > free:
                return False
            free += held[other.number]
        return True

    # --- those that are much slower than others that wait

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WAITED, self._look)

    def _look(self) -> None:
        self._timer = None
        now = _now()
        self._serve()  # who was fast may have become slow
        late = [asked.frame for asked in self._waiting if asked.frame.waits and now - asked.frame.waits >= _WAITED]
        holders = [frame for frame in self._frames.values() if frame.waits is None and frame.held and frame.lacks]
        if late and holders:
            slowest = max(holders, key=lambda frame: frame.left(now))
            first = min(late, key=_order)
            if slowest.left(now) > _BRIEF + _MUCH * _expected(first, slowest, now):
                self.end(slowest)
                slowest.drop()
        if self._waiting:
            self._watch()


def _expected(waiting: Frame, slow: Frame, now: float) -> float:
    """Seconds for the one that waits: at its own speed, or where that is not known at the best of the other one."""
    if waiting.seconds >= _KNOWN or not slow.peak:
        return waiting.left(now)
    return (waiting.total - waiting.received) / slow.peak


def _order(frame: Frame) -> tuple[int, int]:
    return frame.lacks, frame.number


def _now() -> float:
    return asyncio.get_running_loop().time()
