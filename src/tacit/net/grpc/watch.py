"""What happens at the port of the party that listens: counted for the metrics, and told in the log now and then.

A flood must not become a flood of lines: what is counted is told together, at most once in `_PAUSE` seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal

from tacit.channel import sentence
from tacit.events import PortWatched, Sink

Reason = Literal["address", "connections", "time", "no TLS", "no TLS 1.3", "descriptors", "busy", "memory", "rate"]
_WORDS: dict[Reason, str] = {
    "address": "over the limit of one address (network.unauthenticated)",
    "connections": "over the limit of all connections (network.connections)",
    "time": "not authenticated in time (network.handshake)",
    "no TLS": "without TLS",
    "no TLS 1.3": "with an older version of TLS than 1.3",
    "descriptors": "for want of file descriptors",
    "busy": "while this party was too busy",
    "memory": "much slower than others that waited for memory (network.memory)",
    "rate": "slower than network.least_rate",
}
_SOON, _PAUSE = 0.5, 10.0  # seconds


class Watch:
    """Counts of one port. Everything runs in the event loop of the server."""

    def __init__(self, sink: Sink | None) -> None:
        self.open = 0
        self.unauthenticated = 0
        self.refused: Counter[str] = Counter(dict.fromkeys(_WORDS, 0))
        self.handshakes_failed = 0
        self.hellos_refused = 0
        self._sink = sink
        self._told: tuple[Counter[str], int, int] = (Counter(), 0, 0)
        self._told_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._address = ""  # where the last refusal came from
        self._why = ""  # the last hello that was refused

    def opened(self, count: int, unauthenticated: int) -> None:
        """How many connections there are now."""
        if (count, unauthenticated) != (self.open, self.unauthenticated):
            self.open, self.unauthenticated = count, unauthenticated
            self._soon()

    def refuse(self, reason: Reason, address: str) -> None:
        """A connection was refused or ended."""
        self.refused[reason] += 1
        self._address = address
        self._soon()

    def handshake_failed(self, address: str) -> None:
        self.handshakes_failed += 1
        self._address = address
        self._soon()

    def hello_refused(self, why: str) -> None:
        self.hellos_refused += 1
        self._why = sentence(why)
        self._soon()

    def close(self) -> None:
        """Tell what is left to tell."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()

    def _soon(self) -> None:
        if self._timer is None and self._sink is not None:
            loop = asyncio.get_running_loop()
            now = loop.time()
            due = now + _SOON if self._told_at is None else max(now + _SOON, self._told_at + _PAUSE)
            self._timer = loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._timer, self._told_at = None, asyncio.get_running_loop().time()
        text = self._text()
        self._told = (self.refused.copy(), self.handshakes_failed, self.hellos_refused)
        if self._sink is not None:
            self._sink.emit(
                PortWatched(
                    self.open,
                    self.unauthenticated,
                    dict(self.refused),
                    self.handshakes_failed,
                    self.hellos_refused,
                    text,
                )
            )

    def _text(self) -> str:
        """What is new, in a line; nothing where only honest parties came and went."""
        refused, failed, hellos = self._told
        parts = [
            f"{count} {_connections(count)} {_WORDS[reason]}"
            for reason in _WORDS
            if (count := self.refused[reason] - refused[reason])
        ]
        if count := self.handshakes_failed - failed:
            parts.append(f"{count} {_connections(count)} ended before the party was known")
        where = f" (the last one was from {self._address})" if parts else ""
        if count := self.hellos_refused - hellos:
            parts.append(f"{count} {'party was' if count == 1 else 'parties were'} refused, the last one because")
            return f"refused at the port{where}: {'; '.join(parts)} {self._why}"
        return f"refused at the port{where}: {'; '.join(parts)}" if parts else ""


def _connections(count: int) -> str:
    return "connection" if count == 1 else "connections"
