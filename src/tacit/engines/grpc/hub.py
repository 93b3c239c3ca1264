"""The party in the middle of a run in lock step: it listens, and passes on what the others say to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from tacit.channel import LIMIT, PATIENCE, Channel, sentence
from tacit.engines.grpc.channel import FAREWELL, LOOK, OVERHEAD, WINDOW, Begun, Ends, Envelope, Left, check_guarded
from tacit.engines.grpc.handshake import Hello
from tacit.engines.grpc.relay import Introduction
from tacit.engines.grpc.server import Server
from tacit.engines.tls import Credentials
from tacit.errors import PeerError
from tacit.events import Sink
from tacit.sections import Network
from tacit.wire import decode, encode

_AWAY = 30.0  # seconds that a hub which is done keeps waiting for a party whose connection broke


class Hub(Ends):
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
        network: Network | None = None,
    ) -> None:
        super().__init__(name, parties, limit, patience, sink)
        check_guarded(bind, credentials)
        self.port = 0
        self._bind = bind
        self._server = Server(self, self._inboxes.__contains__, shared, limit + OVERHEAD, credentials, network, sink)
        self._introductions: dict[str, Introduction] = {}
        self._away: dict[str, float] = {}  # since when; only whose connection broke
        self._done: set[str] = set()

    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for all parties, saying for whom; a channel to each of them."""
        remedy = ": start them, and then all of us again"
        self._wait_until(lambda: self._wait_for(self._begin()), self._missing, self._complete, patience, remedy)
        return {name: self._channel(name, None) for name in self._inboxes}

    def _missing(self) -> str:
        return ", ".join(name for name in self._inboxes if name not in self._introductions)

    def _complete(self) -> bool:
        return len(self._introductions) == len(self._inboxes)

    async def _open(self) -> None:
        self.port = await self._server.start(self._bind, len(self._inboxes))

    async def _begin(self) -> bool:
        """Introduce all to all, if they are there."""
        if self._begun or not self._complete():
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
        deadline = clock() + (FAREWELL if reason else self._patience)
        while clock() < deadline and any(self._needed(name, reason, clock()) for name in self._inboxes):
            await asyncio.sleep(LOOK)
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
            await asyncio.sleep(LOOK)
        self._server.send(receiver, frame)

    def _full(self, receiver: str) -> bool:
        peer = self._server.peers.get(receiver)
        return peer is not None and peer.link.pending > WINDOW

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
        message: Any = decode(frame, Envelope | Introduction | Left, self._limit + OVERHEAD)  # type: ignore[arg-type]
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
            await asyncio.sleep(LOOK)
        self._server.send(receiver, frame)

    async def broke(self, name: str, reason: str) -> None:
        if self._begun:
            self._tell(name, reason)
        else:
            self._introductions.pop(name, None)

    async def lost(self, name: str) -> None:
        self._away[name] = asyncio.get_running_loop().time()
