"""Channels over a network, for parties that are functions in ordinary threads: a hub, and spokes around it.

    with Hub("active", ["b", "c"], "0.0.0.0:7000", credentials=...) as hub:         the active party, or the leader
        result = active(hub.meet())
    with Spoke("b", "active", ["c"], "active.example:7000", credentials=...) as spoke:      every other party
        result = passive(spoke.meet())

`meet` waits for everybody and gives a channel to each, by name. What two spokes say to each other passes the hub sealed
(see `relay`). A connection that breaks comes back by itself; a party that starts anew, fails or is stopped ends the
run: the others' `recv` raises a PeerError that says why. All parties of a process share one event loop, in a thread of
its own.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tacit.channel import LIMIT, PATIENCE, Channel, Failed, Inbox, kind_name, open_frame, sentence
from tacit.crypto.agreement import KeyPair
from tacit.crypto.signing import SigningKey
from tacit.engines.grpc.connection import Connection
from tacit.engines.grpc.handshake import Hello
from tacit.engines.grpc.relay import Introduction, Sealing, federation, introduce, meet
from tacit.engines.grpc.server import Server
from tacit.engines.tls import Credentials, identity_of
from tacit.errors import PeerError
from tacit.events import Noted, Sink
from tacit.wire import Message, Text, decode, encode

T = TypeVar("T")
_OVERHEAD = 1 << 14  # of an envelope or an introduction over the message itself, in bytes
_WINDOW = 1 << 26  # bytes under way to a party; then `send` waits
_LOOK = 0.005  # seconds between two looks whether there is room again
_FAREWELL = 5.0  # seconds for the others to hear that it is over
_AWAY = 30.0  # seconds that a hub which is done keeps waiting for a party whose connection broke
_SAY = 1.0  # seconds between two words on who is missing


class Envelope(Message, frozen=True, tag=52):
    """A message from one party to another; sealed where neither of them is the hub."""

    sender: Text
    receiver: Text
    body: bytes


class Left(Message, frozen=True, tag=53):
    """A party has gone: it was done, or it gives a reason why nobody can go on."""

    party: Text
    reason: Text


class Begun(Message, frozen=True, tag=54):
    """Everybody is there, and was introduced."""


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process. gRPC does not do well with several."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tacit network", daemon=True).start()
    return loop


def _check_guarded(address: str, credentials: Credentials | None) -> None:
    host = address.rpartition(":")[0].strip("[]")
    if credentials is None and host not in ("localhost", "::1") and not host.startswith("127."):
        raise ValueError(f"{address}: without certificates parties talk on this machine only: `tacit keys` makes them")


class _Ends(ABC):
    """What hubs and spokes have in common: an inbox for every other party, and how it all ends.

    Everything but `meet`, `fail`, `close` and the channels runs in the event loop.
    """

    def __init__(self, name: str, others: Collection[str], limit: int, patience: float, sink: Sink | None) -> None:
        if name in others or len(set(others)) != len(others):
            raise ValueError(f"{name} and {', '.join(others)}: each party needs a name of its own")
        self.name = name
        self._limit = limit
        self._patience = patience
        self._sink = sink
        self._inboxes = {other: Inbox() for other in others}
        self._room = max(4 * limit, _WINDOW)
        self._changed = threading.Condition()  # what `meet` waits for
        self._begun = False
        self._over = False

    def __enter__(self) -> Self:
        self._wait_for(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, KeyboardInterrupt):
            self.fail("it was stopped")
        else:
            self.fail(f"it failed ({kind.__name__})")  # the text may hold what is nobody else's business

    def close(self) -> None:
        """Leave, with everything done that the others asked of this party. May be repeated."""
        self._leave("")

    def fail(self, reason: str) -> None:
        """Leave, and end the run for all others, who are told `reason`: mind what it says."""
        self._leave(sentence(reason) or "it failed")

    def _leave(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._end_all(f"{self.name} left")
            self._wait_for(self._shut(reason))

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _shut(self, reason: str) -> None: ...

    @abstractmethod
    async def _queue(self, receiver: str, frame: bytes) -> None: ...

    @abstractmethod
    def _trouble_with(self, name: str) -> str:
        """What may be why nothing comes from this party, to end a sentence with."""

    def _wait_for(self, what: Coroutine[Any, Any, T], patience: float | None = None) -> T:
        future = asyncio.run_coroutine_threadsafe(what, _loop())
        try:
            return future.result(patience)
        except TimeoutError:
            future.cancel()
            raise

    def _say(self, text: str) -> None:
        if self._sink is not None:
            self._sink.emit(Noted(text))

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _put(self, sender: str, body: bytes) -> None:
        inbox = self._inboxes[sender]
        if inbox.size + len(body) > self._room:
            raise PeerError(f"{sender} sent more than {self._room} bytes that nobody asked for yet")
        if inbox.ended is None:
            inbox.put(body)

    def _gone(self, name: str, reason: str) -> None:
        """A party is done, or gives a reason: then nobody can go on."""
        if reason:
            self._end_all(f"{name}: {sentence(reason)}")
        else:
            self._inboxes[name].end(f"{name} left")
        self._notify()

    def _end_all(self, reason: str) -> None:
        for inbox in self._inboxes.values():
            inbox.end(reason)
        self._notify()

    def _channel(self, other: str, sealing: Sealing | None) -> NetworkChannel:
        return NetworkChannel(self, other, self._inboxes[other], sealing)


class NetworkChannel:
    """A channel to one other party; for one thread."""

    def __init__(self, ends: _Ends, peer: str, inbox: Inbox, sealing: Sealing | None) -> None:
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
        if self._inbox.ended is not None:
            raise PeerError(self._inbox.ended)
        body = frame if self._sealing is None else self._sealing.seal(frame)
        patience = self._ends._patience
        envelope = encode(Envelope(self._ends.name, self.peer, body))
        try:
            self._ends._wait_for(self._ends._queue(self.peer, envelope), patience)
        except TimeoutError:
            raise PeerError(f"{self.peer} took no message for {patience:g} s") from None

    def recv(self, kind: type[T], limit: int = LIMIT, patience: float | None = None) -> T:
        """As `Channel.recv`; after `patience` seconds, a PeerError says for whom it waited."""
        self._check_open()
        if self._broken is not None:
            raise PeerError(str(self._broken))
        patience = self._ends._patience if patience is None else patience
        body = self._inbox.take(patience)
        if body is None:
            trouble = self._ends._trouble_with(self.peer)
            raise PeerError(f"waited {patience:g} s for a {kind_name(kind)} of {self.peer}{trouble}")
        try:
            frame = body if self._sealing is None else self._sealing.unseal(body)
            return open_frame(frame, kind, limit, self.peer)
        except PeerError as error:
            self._broken = error  # nothing that comes after it makes sense
            raise

    def close(self) -> None:
        if not self._closed and self._inbox.ended is None and self._broken is None:
            self.send(Failed("it left"))
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the channel to {self.peer} is closed")


class Hub(_Ends):
    """The party that all others connect to, and that passes on what they say to each other.

    Args:
        parties: the names of the others.
        bind: address to listen on; `port` is the one that was chosen.
        credentials: None on loopback only, where a party is who it says it is.
        shared: settings that all parties must have in common, in one form (`handshake.shared`).
        limit: bytes of the largest message.
        patience: seconds to wait for others, to come or to speak.
    """

    def __init__(
        self,
        name: str,
        parties: Collection[str],
        bind: str,
        *,
        credentials: Credentials | None = None,
        shared: bytes = b"{}",
        limit: int = LIMIT,
        patience: float = PATIENCE,
        sink: Sink | None = None,
    ) -> None:
        super().__init__(name, parties, limit, patience, sink)
        _check_guarded(bind, credentials)
        self.port = 0
        self._bind = bind
        self._server = Server(self, self._inboxes.__contains__, shared, limit + _OVERHEAD, credentials)
        self._introductions: dict[str, Introduction] = {}
        self._away: dict[str, float] = {}  # since when; only whose connection broke
        self._done: set[str] = set()

    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for all parties, saying for whom; a channel to each of them."""
        patience = self._patience if patience is None else patience
        said, waited = "", 0.0
        while not self._wait_for(self._begin()):
            who = ", ".join(name for name in self._inboxes if name not in self._introductions)
            if waited >= patience:
                raise PeerError(f"waited {patience:g} s for {who}: start them, and then all of us again")
            if who != said:
                self._say(f"waiting for {who}")
                said = who
            step = min(_SAY, patience - waited)
            with self._changed:
                came = self._changed.wait_for(lambda: len(self._introductions) == len(self._inboxes), step)
            waited += 0.0 if came else step
        return {name: self._channel(name, None) for name in self._inboxes}

    async def _open(self) -> None:
        self.port = await self._server.start(self._bind, len(self._inboxes))

    async def _begin(self) -> bool:
        """Introduce all to all, if they are there."""
        if self._begun or len(self._introductions) < len(self._inboxes):
            return self._begun
        self._begun = True
        for name in self._inboxes:
            for other, introduction in self._introductions.items():
                if other != name:
                    self._server.send(name, encode(introduction))
            self._server.send(name, encode(Begun()))
        return True

    async def _shut(self, reason: str) -> None:
        if not self._begun:
            reason = reason or "it left before all were there"
        left = encode(Left(self.name, reason))
        for name in self._inboxes:
            self._server.send(name, left)
        clock = asyncio.get_running_loop().time
        deadline = clock() + (_FAREWELL if reason else self._patience)
        while clock() < deadline and any(self._needed(name, reason, clock()) for name in self._inboxes):
            await asyncio.sleep(_LOOK)
        await self._server.stop()

    def _needed(self, name: str, reason: str, now: float) -> bool:
        """Whether a hub that is over must stay for this party: others may still speak through it."""
        if name in self._done:
            return False
        if self._server.connected(name):
            return not (reason and self._server.peers[name].link.idle)
        return not reason and now - self._away.get(name, now) < _AWAY

    async def _queue(self, receiver: str, frame: bytes) -> None:
        while self._full(receiver) and self._inboxes[receiver].ended is None:
            await asyncio.sleep(_LOOK)
        self._server.send(receiver, frame)

    def _full(self, receiver: str) -> bool:
        peer = self._server.peers.get(receiver)
        return peer is not None and peer.link.pending > _WINDOW

    def _trouble_with(self, name: str) -> str:
        return "" if self._server.connected(name) else ", whose connection broke"

    def _tell(self, name: str, reason: str) -> None:
        """Have all others know that a party has gone."""
        self._done.add(name)
        self._gone(name, reason)
        for other in self._inboxes:
            if other != name:
                self._server.send(other, encode(Left(name, sentence(reason))))

    # --- what the server tells

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None:
        self._away.pop(name, None)
        if not resumed:
            if self._begun:
                raise PeerError(f"{name} started anew, and the run had begun: start all of us again")
            self._introductions.pop(name, None)
            self._notify()

    async def arrived(self, name: str, frame: bytes) -> None:
        message: Any = decode(frame, Envelope | Introduction | Left, self._limit + _OVERHEAD)  # type: ignore[arg-type]
        match message:
            case Introduction(party=party) if party == name and not self._begun:
                self._introductions[name] = message
                self._notify()
            case Left(party=party, reason=reason) if party == name:
                if self._begun:
                    self._tell(name, reason)
                else:
                    self._introductions.pop(name, None)
            case Envelope(sender=sender, receiver=receiver, body=body) if sender == name and self._begun:
                if receiver == self.name:
                    self._put(name, body)
                elif receiver in self._inboxes and receiver != name:
                    await self.relay(name, receiver, frame)
                else:
                    raise PeerError(f"a message for {sentence(receiver)}, who takes no part")
            case _:
                raise PeerError(f"{type(message).__name__} in another's name, or out of turn")

    async def relay(self, sender: str, receiver: str, frame: bytes) -> None:
        """Pass on an envelope as it came. Where the receiver is slow, so is the sender."""
        while self._full(receiver) and receiver not in self._done:
            await asyncio.sleep(_LOOK)
        self._server.send(receiver, frame)

    async def broke(self, name: str, reason: str) -> None:
        if self._begun:
            self._tell(name, reason)
        else:
            self._introductions.pop(name, None)

    async def lost(self, name: str) -> None:
        self._away[name] = asyncio.get_running_loop().time()


class Spoke(_Ends):
    """A party that connects to the hub.

    Args:
        hub: the party that must be met at `address`; its certificate says so.
        others: the names of the other spokes.

    Guarantee: what this party and another spoke say to each other is read by nobody else and arrives in order, each
        message once, or a PeerError is raised.
    Assumes: credentials. Without them the hub could pose as each to the other.
    """

    def __init__(
        self,
        name: str,
        hub: str,
        others: Collection[str],
        address: str,
        *,
        credentials: Credentials | None = None,
        shared: bytes = b"{}",
        limit: int = LIMIT,
        patience: float = PATIENCE,
        sink: Sink | None = None,
    ) -> None:
        super().__init__(name, [hub, *others], limit, patience, sink)
        _check_guarded(address, credentials)
        self.hub = hub
        self._credentials = credentials
        self._pair = KeyPair.generate()
        self._run = federation(hub, shared)
        key = credentials.signing_key if credentials else SigningKey.generate()
        proof = credentials.certificate if credentials else key.public
        self._introduction = encode(introduce(self._pair, key, self._run, name, proof))
        self._connection = Connection(address, hub, name, shared, limit + _OVERHEAD, credentials, self)
        self._task: asyncio.Task[None] | None = None
        self._sealings: dict[str, Sealing] = {}
        self._there = False
        self._hub_left = False
        self._trouble = ""  # why there is no connection

    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for the hub to say that all are there; a channel to each of them."""
        patience = self._patience if patience is None else patience
        said, waited = "", 0.0
        while not self._begun:
            ended = self._inboxes[self.hub].ended
            if ended is not None:
                raise PeerError(ended)
            trouble = self._trouble or "the others are not all there"
            if waited >= patience:
                raise PeerError(f"waited {patience:g} s for {self.hub}: {trouble}")
            if trouble != said:
                self._say(f"waiting for {self.hub}: {trouble}")
                said = trouble
            step = min(_SAY, patience - waited)
            with self._changed:
                came = self._changed.wait_for(lambda: self._begun or self._inboxes[self.hub].ended, step)
            waited += 0.0 if came else step
        return {name: self._channel(name, self._sealings.get(name)) for name in self._inboxes}

    async def _open(self) -> None:
        self._task = asyncio.create_task(self._connection.run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._end_all(str(error) if isinstance(error, PeerError) else f"the connection to {self.hub} ended")

    async def _shut(self, reason: str) -> None:
        if self._task is None:
            return
        self._connection.send(encode(Left(self.name, reason)))
        clock = asyncio.get_running_loop().time
        deadline = clock() + (_FAREWELL if reason or not self._begun else self._patience)
        while self._connection.pending and not self._task.done() and clock() < deadline:
            if not self._there and (self._hub_left or not self._begun):
                break
            await asyncio.sleep(_LOOK)
        lost = self._connection.pending if self._begun and not reason and not self._hub_left else 0
        await self._connection.close(0)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._pair.erase()
        if lost:
            raise PeerError(f"{self.hub} did not confirm the last {lost} bytes that {self.name} sent")

    async def _queue(self, receiver: str, frame: bytes) -> None:
        while self._connection.pending > _WINDOW and self._inboxes[receiver].ended is None:
            await asyncio.sleep(_LOOK)
        self._connection.send(frame)

    def _trouble_with(self, name: str) -> str:
        return "" if self._there else f", and the connection to {self.hub} is broken"

    # --- what the connection tells

    async def connected(self, resumed: bool) -> None:
        self._there, self._trouble = True, ""
        if resumed:
            return
        if self._begun:
            self._end_all(f"{self.hub} started anew, and what was under way is lost: start all of us again")
        else:
            self._connection.send(self._introduction)
        self._notify()

    async def waiting(self, reason: str) -> None:
        self._there, self._trouble = False, reason
        self._notify()

    async def arrived(self, frame: bytes) -> None:
        union: Any = Envelope | Introduction | Left | Begun
        try:
            self._take(decode(frame, union, self._limit + _OVERHEAD))
        except PeerError as error:
            self._end_all(str(error))

    def _take(self, message: Any) -> None:
        match message:
            case Introduction(party=party) if not self._begun and party in self._inboxes and party != self.hub:
                self._sealings[party] = meet(message, self._pair, self._run, self.name, self._whose(party))
            case Begun() if len(self._sealings) == len(self._inboxes) - 1:
                self._begun = True
                self._notify()
            case Left(party=party, reason=reason) if party in self._inboxes:
                self._hub_left = self._hub_left or party == self.hub
                self._gone(party, reason)
            case Envelope(sender=sender, receiver=receiver, body=body) if (
                sender in self._inboxes and receiver == self.name and self._begun
            ):
                self._put(sender, body)
            case _:
                raise PeerError(f"{self.hub} sent {type(message).__name__} out of turn, or of who takes no part")

    def _whose(self, party: str) -> Callable[[bytes], tuple[str, bytes]]:
        def signing_key_of(proof: bytes) -> tuple[str, bytes]:
            if self._credentials is None:
                return party, proof
            found = identity_of(proof, self._credentials.authority)
            return found.name, found.signing_public

        return signing_key_of
