"""Channels that count bytes, and seconds by stage: what an epoch took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from tacit.channel import LIMIT, Channel
from tacit.wire import Message, encode

T = TypeVar("T")


class Metered:
    """A channel that counts the bytes of its messages."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.sent = 0
        self.received = 0

    def send(self, message: Message) -> None:
        self._channel.send(message)
        self.sent += len(encode(message))

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        message = self._channel.recv(kind, limit)
        if isinstance(message, Message):
            self.received += len(encode(message))
        return message

    def close(self) -> None:
        self._channel.close()


class Meter:
    """What one epoch took: bytes over all channels, and seconds by stage."""

    def __init__(self, channels: Mapping[str, Metered], clock: Callable[[], float]) -> None:
        self._channels = channels
        self._clock = clock
        self._before = self._bytes()
        self._began = clock()
        self.stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = self._clock()
        yield
        self.stages[name] = self.stages.get(name, 0.0) + self._clock() - began

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def bytes(self) -> tuple[int, int]:
        """(sent, received) since the epoch began."""
        sent, received = self._bytes()
        return sent - self._before[0], received - self._before[1]

    def _bytes(self) -> tuple[int, int]:
        channels = self._channels.values()
        return sum(channel.sent for channel in channels), sum(channel.received for channel in channels)
