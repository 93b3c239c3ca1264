"""Channels that count bytes, and seconds by stage: what an epoch took."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from tacit.channel import LIMIT, Channel
from tacit.errors import PeerError
from tacit.wire import Message, encode

T = TypeVar("T")


class Metered:
    """A channel that counts the bytes of its messages.

    Args:
        unread: the messages that may lie unread when the other party leaves. If they are named, a `send` that fails
            reads them: what the other said last tells more than that it is gone.
    """

    def __init__(self, channel: Channel, unread: Any = None) -> None:
        self._channel = channel
        self._unread = unread
        self.sent = 0
        self.received = 0

    def send(self, message: Message) -> None:
        try:
            self._channel.send(message)
        except PeerError:
            if self._unread is None:
                raise
            while True:  # the last of it raises
                self._channel.recv(self._unread)
        self.sent += frame_bytes(message)

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        message = self._channel.recv(kind, limit)
        if isinstance(message, Message):
            self.received += frame_bytes(message)
        return message

    def close(self) -> None:
        self._channel.close()


class Meter:
    """What has happened since it was made: bytes over all channels, and seconds by stage."""

    def __init__(self, channels: Collection[Metered], clock: Callable[[], float]) -> None:
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
        """(sent, received)"""
        sent, received = self._bytes()
        return sent - self._before[0], received - self._before[1]

    def _bytes(self) -> tuple[int, int]:
        return sum(channel.sent for channel in self._channels), sum(channel.received for channel in self._channels)


def frame_bytes(message: Message) -> int:
    """Bytes of the frame of `message`, without a copy of its bulk data."""
    values = {name: getattr(message, name) for name in message.__struct_fields__}
    bulk = {name: len(value) for name, value in values.items() if isinstance(value, bytes)}
    rest = len(encode(msgspec.structs.replace(message, **dict.fromkeys(bulk, b""))))
    return rest + sum(_head(size) - _head(0) + size for size in bulk.values())


def _head(size: int) -> int:
    """Bytes before so many in MessagePack's `bin`."""
    return 2 if size < 1 << 8 else 3 if size < 1 << 16 else 5
