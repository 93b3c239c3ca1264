"""Channels over a network, for parties that are functions in ordinary threads: what hubs and spokes have in common.

    with Hub("active", ["b", "c"], "0.0.0.0:7000", credentials=...) as hub:         the active party, or the leader
        result = active(hub.meet())
    with Spoke("b", "active", ["c"], "active.example:7000", credentials=...) as spoke:      every other party
        result = passive(spoke.meet())

`meet` waits for all parties and gives a channel to each, by name. What two spokes say to each other passes the hub
sealed (see `relay`). A connection that breaks comes back by itself. A party can end in three ways:

    it is done                          the others' channels to it end
    it was stopped, or started again    the conversation ends for all: `recv` raises Interrupted, and `meet` begins the
                                        next one, once that party is back
    it failed for good                  the run ends for all: `recv` raises a PeerError that says why

A party that vanishes without a word is waited for: it may come back, by itself or because it is started again. All
parties of a process share one event loop, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tacit.channel import LIMIT, Channel, Failed, Inbox, kind_name, open_frame, sentence
from tacit.errors import PeerAway, PeerError, comes_back
from tacit.events import Noted, Sink
from tacit.net.relay import Sealing
from tacit.net.vitals import Figures
from tacit.sections import Network
from tacit.wire import Message, Text, encode

T = TypeVar("T")
OVERHEAD = 1 << 14  # of an envelope or an introduction over the message itself, in bytes
WINDOW = 1 << 26  # bytes under way to a party; then `send` waits
LOOK = 0.005  # seconds between two looks whether there is room again
FAREWELL = 5.0  # seconds for the others to hear that it is over
LOST_AFTER = Network().lost_after
_SAY = 1.0  # seconds between two looks at who is missing


class Envelope(Message, frozen=True, tag=52):
    """A message from one party to another; sealed if neither of them is the hub."""

    sender: Text
    receiver: Text
    body: bytes


class Left(Message, frozen=True, tag=53):
    """A party has gone: it was done (no reason), comes back (`again`), or gives a reason that ends the run for all."""

    party: Text
    reason: Text
    again: bool = False


class Begun(Message, frozen=True, tag=54):
    """All parties are there, and were introduced."""


class Away(Message, frozen=True, tag=55):
    """The hub's connection to a party broke, or is there again: for the log of those who wait for it."""

    party: Text
    away: bool


class Over(PeerError):
    """The hub has finished, with all others, and begins no conversation any more."""


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process. gRPC does not do well with several."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tacit network", daemon=True).start()
    return loop


class Ends(ABC):
    """What hubs and spokes have in common: an inbox for every other party, and how it all ends.

    Everything but `meet`, `fail`, `pause`, `close` and the channels runs in the event loop.
    """

    def __init__(
        self, name: str, others: Collection[str], limit: int, patience: float, sink: Sink | None, lost_after: float
    ) -> None:
        if name in others or len(set(others)) != len(others):
            raise ValueError(f"{name} and {', '.join(others)}: each party needs a name of its own")
        self.name = name
        self._limit = limit
        self._patience = patience
        self._lost_after = lost_after
        self._sink = sink
        self._inboxes = {other: Inbox() for other in others}
        self._channels: dict[str, Channel] = {}
        self._room = max(4 * limit, WINDOW)
        self._changed = threading.Condition()  # what `meet` waits for
        self._begun = False
        self._over = False
        self._fatal: str | None = None  # why there will be no further conversation
        self._away: dict[str, float] = {}  # parties without a connection, and since when
        self._said: set[str] = set()  # of whom the log says that they are away

    def __enter__(self) -> Self:
        self._wait_for(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif comes_back(error):
            self.pause("it was stopped" if kind is KeyboardInterrupt else f"it was interrupted ({kind.__name__})")
        else:
            self.fail(f"it failed ({kind.__name__})")  # the text may hold what is nobody else's business

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """In which everything but the protocol runs."""
        return _loop()

    @abstractmethod
    def figures(self) -> Figures:
        """How this party stands on the network."""

    @abstractmethod
    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for all parties; a channel to each of them. Again after `Interrupted`."""

    def close(self, seconds: float | None = None) -> None:
        """Leave, with everything done that the others asked of this party. May be repeated.

        Waits until the others have what they were sent: for the patience of this party, with a PeerError where they
        do not confirm it, or for `seconds`.
        """
        self._leave("", again=False, seconds=seconds)

    def pause(self, reason: str) -> None:
        """Leave, to come back: the others, who are told `reason`, wait for this party."""
        self._leave(sentence(reason) or "it was stopped", again=True)

    def fail(self, reason: str) -> None:
        """Leave, and end the run for all others, who are told `reason`: mind what it says."""
        self._leave(sentence(reason) or "it failed", again=False)

    def _leave(self, reason: str, *, again: bool, seconds: float | None = None) -> None:
        if not self._over:
            self._over = True
            for inbox in self._inboxes.values():
                inbox.end(f"{self.name} left")
            self._wait_for(self._shut(reason, again, seconds))

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _shut(self, reason: str, again: bool, seconds: float | None) -> None: ...

    @abstractmethod
    async def _queue(self, receiver: str, frame: bytes, inbox: Inbox) -> None:
        """Queue a frame in the conversation that `inbox` belongs to."""

    def _wait_for(self, what: Coroutine[Any, Any, T], patience: float = math.inf) -> T:
        future = asyncio.run_coroutine_threadsafe(what, _loop())
        try:
            return future.result(None if math.isinf(patience) else patience)
        except TimeoutError:
            future.cancel()
            raise

    def _wait_until(
        self,
        there: Callable[[], bool],
        lacking: Callable[[], str],
        news: Callable[[], object],
        patience: float | None,
    ) -> None:
        """Wait until all are `there`, saying what for. `lacking` may raise; `news` says that it is worth a look."""
        patience = self._patience if patience is None else patience
        said, waited = "", 0.0
        while not there():
            what = lacking()
            if waited >= patience:
                raise PeerAway(f"waited {patience:g} s for {what}")
            if what != said:
                self._say(f"waiting for {what}")
                said = what
            step = min(_SAY, patience - waited)
            with self._changed:
                came = self._changed.wait_for(news, step)
            waited += 0.0 if came else step

    def _say(self, text: str) -> None:
        if self._sink is not None:
            self._sink.emit(Noted(text))

    def _say_who_is_away(self) -> None:
        """Tell the log of parties that are away for longer than a connection takes to come back."""
        now = time.monotonic()
        for name, since in list(self._away.items()):
            if name not in self._said and now - since >= self._lost_after:
                self._said.add(name)
                self._say(f"waiting for {name}, whose connection broke {now - since:.0f} s ago")

    def _missing_since(self, name: str) -> None:
        self._away.setdefault(name, time.monotonic())

    def _back(self, name: str) -> None:
        self._away.pop(name, None)
        self._said.discard(name)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _put(self, sender: str, body: bytes) -> None:
        inbox = self._inboxes[sender]
        if inbox.size + len(body) > self._room:
            raise PeerError(f"{sender} sent more than {self._room} bytes before they were asked for")
        if inbox.ended is None:
            inbox.put(body)

    def _gone(self, name: str, reason: str) -> None:
        """A party is done, or gives a reason that ends the run for all."""
        if reason:
            self._end_all(f"{name}: {sentence(reason)}")
        else:
            self._inboxes[name].end(f"{name} left")
        self._notify()

    def _interrupt(self, reason: str) -> None:
        """End the conversation: the next one begins when all have met again."""
        self._begun = False
        for inbox in self._inboxes.values():
            inbox.end(reason, interrupted=True)
        self._inboxes = {name: Inbox() for name in self._inboxes}
        self._notify()

    def _end_all(self, reason: str) -> None:
        self._fatal = self._fatal or reason
        for inbox in self._inboxes.values():
            inbox.end(reason)
        self._notify()

    def _channel(self, other: str, sealing: Sealing | None) -> NetworkChannel:
        return NetworkChannel(self, other, self._inboxes[other], sealing)


class NetworkChannel:
    """A channel to one other party, in one conversation; for one thread."""

    def __init__(self, ends: Ends, peer: str, inbox: Inbox, sealing: Sealing | None) -> None:
        self.peer = peer
        self._ends = ends
        self._inbox = inbox
        self._sealing = sealing
        self._closed = False
        self._broken: PeerError | None = None

    def send(self, message: Message) -> None:
        """Send, once there is room: what was sent and is not confirmed is bounded."""
        self._check_open()
        frame = encode(message)
        if len(frame) > self._ends._limit:
            raise ValueError(f"a message of {len(frame)} bytes, at most {self._ends._limit} are allowed here")
        self._inbox.check_open()
        body = frame if self._sealing is None else self._sealing.seal(frame)
        patience = self._ends._patience
        envelope = encode(Envelope(self._ends.name, self.peer, body))
        try:
            self._ends._wait_for(self._ends._queue(self.peer, envelope, self._inbox), patience)
        except TimeoutError:
            raise PeerAway(f"{self.peer} took no message for {patience:g} s") from None

    def recv(self, kind: type[T], limit: int = LIMIT, patience: float | None = None) -> T:
        """As `Channel.recv`; after `patience` seconds, a PeerAway says for whom it waited."""
        self._check_open()
        if self._broken is not None:
            raise PeerError(str(self._broken))
        body = self._take(kind_name(kind), self._ends._patience if patience is None else patience)
        try:
            frame = body if self._sealing is None else self._sealing.unseal(body)
            return open_frame(frame, kind, limit, self.peer)
        except PeerError as error:
            self._broken = error  # nothing that comes after it makes sense
            raise

    def _take(self, what: str, patience: float) -> bytes:
        waited = 0.0
        while True:
            step = min(_SAY, patience - waited)
            body = self._inbox.take(step)
            if body is not None:
                return body
            waited += step
            self._ends._say_who_is_away()
            if waited >= patience:
                broke = ", whose connection broke" if self.peer in self._ends._away else ""
                raise PeerAway(f"waited {patience:g} s for a {what} of {self.peer}{broke}")

    def close(self) -> None:
        if not self._closed and self._inbox.ended is None and self._broken is None:
            self.send(Failed("it left"))
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the channel to {self.peer} is closed")
