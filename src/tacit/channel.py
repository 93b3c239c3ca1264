"""Typed messages between parties in lock step, without I/O: each party is one function, read from top to bottom.

    Channel                     send(message), recv(kind), close(): one party's end of a conversation with another
    pair()                      two ends in memory
    Recorder(channel)           a channel that keeps what this party sent and saw
    run_parties({name: party})  each party in a thread of its own, with a channel to every other

A party is a function of its channels, by the other party's name: `def active(channels): ...`. The engines give it the
same channels over a network. If a party fails or leaves, the `recv` of the others ends with a PeerError of one
sentence.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, Protocol, TypeVar, cast

from tacit.errors import PeerAway, PeerError
from tacit.wire import Message, Text, decode, encode

__all__ = ["Channel", "Party", "Recorded", "Recorder", "pair", "run_parties"]

T = TypeVar("T")
LIMIT = 1 << 28  # bytes of a message, where nothing else is said
PATIENCE = 600.0  # seconds without a message after which the other party is given up
CAPACITY = 64  # messages that an end in memory holds before the other's `send` waits
_SENTENCE = 300  # characters


class Channel(Protocol):
    """One end of a conversation with one other party. Messages arrive once, in order."""

    def send(self, message: Message) -> None:
        """Send; PeerError if the other party has gone."""

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        """The next message, which must be of `kind` and not longer than `limit` bytes; PeerError otherwise."""

    def close(self) -> None:
        """This party sends and expects nothing more. May be repeated."""


Party = Callable[[Mapping[str, Channel]], T]


class Failed(Message, frozen=True, tag=50):
    """Instead of the message that is due: why the sender cannot continue."""

    reason: Text


def sentence(text: str) -> str:
    """Another party's words, fit for a terminal and a log: printable and short."""
    return "".join(character if character.isprintable() else " " for character in text[:_SENTENCE])


class OtherMessage(PeerError):
    """A frame came that is not of the kind that is due."""


class Interrupted(PeerAway):
    """The conversation ended because a party was stopped or started again: meet again, and resume."""


def recv_first(channel: Channel, kind: type[T], limit: int) -> T:
    """The first message of a protocol. If another comes, its sender may be at something else: the error says so."""
    try:
        return channel.recv(kind, limit)
    except OtherMessage as error:
        raise PeerError(
            f"{error}; start all parties alike: all anew, all with --resume, or all to predict. If one was stopped "
            "before it stored anything, all begin anew"
        ) from None


def open_frame(frame: bytes, kind: type[T], limit: int, sender: str) -> T:
    """The message of `frame`, which must be of `kind`. What `sender` says instead is raised as a PeerError."""
    try:
        message: Any = decode(frame, cast(type[Any], kind | Failed), limit)
    except PeerError as error:
        raise OtherMessage(f"{sender} sent no {kind_name(kind)}: {error}") from None
    if isinstance(message, Failed):
        raise PeerError(f"{sender}: {sentence(message.reason)}")
    return cast(T, message)


def kind_name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


class Inbox:
    """Frames from one other party, in order, until it ends. Any thread may put, one takes.

    Args:
        capacity: frames, or None for no bound. `put` waits for room.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._frames: deque[bytes] = deque()
        self._ended: str | None = None
        self._interrupted = False
        self._changed = threading.Condition()
        self.size = 0  # bytes that nobody has taken yet

    @property
    def ended(self) -> str | None:
        """Why nothing more comes in."""
        return self._ended

    def put(self, frame: bytes, patience: float | None = None) -> bool:
        """Add a frame; False if there was no room for so long. PeerError if the inbox has ended."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, patience):
                return False
            self.check_open()
            self._frames.append(frame)
            self.size += len(frame)
            self._changed.notify_all()
            return True

    def take(self, patience: float | None) -> bytes | None:
        """The next frame; None if none came for so long. What was put before the end is given out first."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._frames or self._ended is not None, patience):
                return None
            if not self._frames:
                self.check_open()
            frame = self._frames.popleft()
            self.size -= len(frame)
            self._changed.notify_all()
            return frame

    def end(self, reason: str, *, interrupted: bool = False) -> None:
        """Nothing more comes in, for this reason. The first one stays; `interrupted`: until the parties meet again."""
        with self._changed:
            if self._ended is None:
                self._ended, self._interrupted = reason, interrupted
            self._changed.notify_all()

    def check_open(self) -> None:
        """Raise why nothing more comes in, if that is so."""
        if self._ended is not None:
            raise Interrupted(self._ended) if self._interrupted else PeerError(self._ended)

    def _has_room(self) -> bool:
        return self._capacity is None or len(self._frames) < self._capacity or self._ended is not None


class End:
    """A channel in memory. Messages cross as the bytes that a network would carry."""

    def __init__(self, name: str, peer: str, inbox: Inbox, outbox: Inbox, patience: float) -> None:
        self.name = name
        self.peer = peer
        self._inbox = inbox
        self._outbox = outbox
        self._patience = patience
        self._closed = False

    def send(self, message: Message) -> None:
        self._check_open()
        if not self._outbox.put(encode(message), self._patience):
            raise PeerError(f"{self.peer} took no message for {self._patience:g} s: does it also wait in `send`?")

    def recv(self, kind: type[T], limit: int = LIMIT, patience: float | None = None) -> T:
        self._check_open()
        patience = self._patience if patience is None else patience
        frame = self._inbox.take(patience)
        if frame is None:
            raise PeerError(f"waited {patience:g} s for a {kind_name(kind)} of {self.peer}")
        return open_frame(frame, kind, limit, self.peer)

    def close(self) -> None:
        self.fail(f"{self.name} left")

    def fail(self, reason: str) -> None:
        """Leave, and have the other end's `recv` say why."""
        self._closed = True
        self._outbox.end(reason)  # what was sent before can still be received
        self._inbox.end(f"{self.name} left")

    def cut(self, reason: str) -> None:
        """Neither end can continue, for this reason."""
        self._outbox.end(reason)
        self._inbox.end(reason)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"this end of the channel to {self.peer} is closed")


def pair(
    first: str = "first", second: str = "second", *, capacity: int = CAPACITY, patience: float = PATIENCE
) -> tuple[End, End]:
    """The two ends of a channel in memory, of the parties `first` and `second`; each end is for one thread.

    Args:
        capacity: messages under way in one direction; then `send` waits.
        patience: seconds after which a `send` or `recv` that waits gives up, with a PeerError.
    """
    there, back = Inbox(capacity), Inbox(capacity)
    return End(first, second, back, there, patience), End(second, first, there, back, patience)


@dataclass(frozen=True, slots=True)
class Recorded:
    way: Literal["sent", "seen"]
    message: Message


class Recorder:
    """A channel that keeps what this party sent and saw, in order, for tests and the audit."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.log: list[Recorded] = []

    @property
    def sent(self) -> list[Message]:
        return [entry.message for entry in self.log if entry.way == "sent"]

    @property
    def seen(self) -> list[Message]:
        return [entry.message for entry in self.log if entry.way == "seen"]

    def send(self, message: Message) -> None:
        self._channel.send(message)
        self.log.append(Recorded("sent", message))

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        message = self._channel.recv(kind, limit)
        self.log.append(Recorded("seen", cast(Message, message)))
        return message

    def close(self) -> None:
        self._channel.close()


def run_parties(parties: Mapping[str, Party[T]], *, patience: float = PATIENCE) -> dict[str, T]:
    """Run each party in a thread, with a channel to every other; what each returned, by name.

    If one raises, all channels fail: the others hear who it was and the type of its error, no more, and the first error
    that is not merely an answer to another's is raised. A party that does not end within `patience` after that is left
    behind. An interrupt of the caller ends all of them likewise.
    """
    channels: dict[str, dict[str, End]] = {name: {} for name in parties}
    for one, other in combinations(parties, 2):
        channels[one][other], channels[other][one] = pair(one, other, patience=patience)
    over: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()

    def cut(reason: str) -> None:
        for ends in channels.values():
            for end in ends.values():
                end.cut(reason)

    def live(name: str, party: Party[T]) -> None:
        try:
            result = party(channels[name])
        except BaseException as error:  # raised again in the caller's thread
            over.put((name, None, error))
            cut(f"{name} failed ({type(error).__name__})")
        else:
            over.put((name, result, None))
            for end in channels[name].values():
                end.close()

    for name, party in parties.items():
        threading.Thread(target=live, args=(name, party), name=name, daemon=True).start()
    try:
        return _results(over, len(parties), patience)
    except BaseException:
        cut("the run was ended")
        raise


def _results(
    over: queue.SimpleQueue[tuple[str, T | None, BaseException | None]], count: int, patience: float
) -> dict[str, T]:
    results: dict[str, T] = {}
    errors: list[BaseException] = []
    for _ in range(count):
        try:
            name, result, error = over.get(timeout=patience if errors else None)
        except queue.Empty:
            break
        if error is None:
            results[name] = cast(T, result)
        else:
            error.add_note(f"in the party {name}")
            errors.append(error)
    if errors:
        raise next((error for error in errors if not isinstance(error, PeerError)), errors[0])
    return results
