"""How slowly a frame may come: a party must not hold memory for hours with a trickle."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.net.link import PIECE_BYTES

_WINDOW = 10.0  # seconds, or as many as two pieces may take


@dataclass(slots=True)
class Pace:
    """Of one frame. In each window of time, all but a piece of what `least_rate` asks for must come.

    Only time is counted in which the frame is read: waiting for memory is not the sender's fault.
    """

    least_rate: int  # bytes a second
    seconds: float = 0.0  # of this window
    count: int = 0  # bytes in it

    @property
    def window(self) -> float:
        return max(_WINDOW, 2 * PIECE_BYTES / self.least_rate)

    @property
    def rest(self) -> float:
        """Seconds until it is judged."""
        return max(0.0, self.window - self.seconds)

    def add(self, count: int, seconds: float) -> bool:
        """So many bytes came in so many seconds: whether that is fast enough."""
        self.count += count
        self.seconds += seconds
        if self.seconds < self.window:
            return True
        enough = self.count >= self.least_rate * self.window - PIECE_BYTES
        self.seconds, self.count = 0.0, 0
        return enough
