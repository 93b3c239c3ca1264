"""The party in the middle of a run in lock step: it listens, and passes on what the others say to each other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Any

from tacit.channel import LIMIT, PATIENCE, Channel, Inbox, sentence
from tacit.errors import PeerError
from tacit.events import Sink
from tacit.net.ends import FAREWELL, LOOK, LOST_AFTER, OVERHEAD, WINDOW, Away, Begun, Ends, Envelope, Left
from tacit.net.handshake import Hello
from tacit.net.identity import Credentials, Identity
from tacit.net.loopback import check_guarded
from tacit.net.pins import Pins
from tacit.net.relay import Introduction
from tacit.net.transport import Conversation, Transport, default_transport
from tacit.net.upkeep import Upkeep, tell_list
from tacit.net.vitals import Figures
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
        patience: seconds to wait for others, to come or to speak; may be infinite.
        lost_after: seconds after which the log names a party whose connection broke.
        pins: the keys of parties that were met earlier in this run.
        transport: how frames travel; over gRPC by default.
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
        lost_after: float = LOST_AFTER,
        sink: Sink | None = None,
        network: Network | None = None,
        pins: Pins | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(name, parties, limit, patience, sink, lost_after)
        check_guarded(bind, credentials)
        self.port = 0
        self._bind = bind
        about = Conversation(
            name,
            shared,
            limit + OVERHEAD,
            credentials,
            pins=pins or Pins(),
            network=network or Network(),
            sink=sink,
        )
        self._server = (transport or default_transport()).server(self, frozenset(parties).__contains__, about)
        self._credentials = credentials
        self._upkeep = Upkeep(credentials, self._say, self._list_changed, self._identities)
        self._keeping: asyncio.Task[None] | None = None
        self._introductions: dict[str, Introduction] = {}
        self._done: set[str] = set()
        self._finished = False  # it left because all is done

    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for all parties, saying for whom; a channel to each of them. Again after `Interrupted`."""
        self._wait_until(lambda: self._wait_for(self._begin()), self._missing, self._complete, patience)
        return self._channels

    def figures(self) -> Figures:
        connected = sum(map(self._server.connected, self._inboxes))
        return Figures(connected, len(self._inboxes), "", self._server.traffic)

    def _missing(self) -> str:
        if self._fatal is not None:
            raise PeerError(self._fatal)
        return ", ".join(name for name in self._inboxes if name not in self._introductions)

    def _complete(self) -> bool:
        return len(self._introductions) == len(self._inboxes) or self._fatal is not None

    async def _open(self) -> None:
        self.port = await self._server.start(self._bind, len(self._inboxes))
        self._keeping = asyncio.create_task(self._upkeep.run())

    async def _list_changed(self) -> None:
        """There is a newer revocation list: a party on it ends the conversation, and is waited for with new keys."""
        ended = self._server.end_revoked()
        for name, reason in ended.items():
            self._server.forget(name)
            self._introductions.pop(name, None)
            if self._begun:
                self._interrupt_for(name, reason)
            else:
                self._say(reason)
        self._tell_list(name for name in self._inboxes if name not in ended)
        self._notify()

    def _tell_list(self, names: Iterable[str]) -> None:
        if self._credentials is not None:
            tell_list(self._server, self._credentials.revocations, names)

    def _identities(self) -> list[Identity]:
        """Of the parties that are there."""
        return [peer.identity for peer in self._server.peers.values() if peer.identity is not None]

    async def _begin(self) -> bool:
        """Introduce all to all, if they are there."""
        for name, reason in self._server.end_expired().items():
            self._say(f"{reason}: waiting for it to come back with a renewed one")
            self._introductions.pop(name, None)  # the others would not believe it: it has to introduce itself again
            self._server.forget(name)
        if self._fatal is not None or len(self._introductions) < len(self._inboxes):
            return False
        self._begun = True
        self._upkeep.warn_of_peers()
        for name in self._inboxes:
            for other, introduction in self._introductions.items():
                if other != name:
                    self._server.send(name, encode(introduction))
            self._server.send(name, encode(Begun()))
        self._introductions = {}
        self._channels = {name: self._channel(name, None) for name in self._inboxes}
        return True

    async def _shut(self, reason: str, again: bool, seconds: float | None) -> None:
        if not self._begun and not reason:
            reason, again = "it left before all were there", True
        self._finished = not reason
        left = encode(Left(self.name, reason, again))
        for name in self._inboxes:
            self._server.send(name, left)
        deadline = time.monotonic() + (FAREWELL if reason else self._patience if seconds is None else seconds)
        while time.monotonic() < deadline and any(self._needed(name, reason) for name in self._inboxes):
            await asyncio.sleep(LOOK)
        await self._server.stop()
        if self._keeping is not None:
            self._keeping.cancel()

    def _needed(self, name: str, reason: str) -> bool:
        """Whether a hub that is over must stay for this party: others may still speak through it."""
        if name in self._done:
            return False
        if self._server.connected(name):
            return not (reason and not self._server.peers[name].pending)
        now = time.monotonic()
        return not reason and now - self._away.get(name, now) < _AWAY

    async def _queue(self, receiver: str, frame: bytes, inbox: Inbox) -> None:
        while self._full(receiver) and inbox.ended is None:
            await asyncio.sleep(LOOK)
        inbox.check_open()  # or the frame would become part of the next conversation
        self._server.send(receiver, frame)

    def _full(self, receiver: str) -> bool:
        peer = self._server.peers.get(receiver)
        return peer is not None and peer.pending > WINDOW

    def _tell_others(self, name: str, message: Left | Away) -> None:
        """Have the others know. Who is there and who is not is told only to those that are."""
        frame = encode(message)
        for other in self._inboxes:
            if other != name and (isinstance(message, Left) or self._server.connected(other)):
                self._server.send(other, frame)

    def _end_for(self, name: str, reason: str) -> None:
        """Have all others know that a party has gone for good: it was done, or failed."""
        self._gone(name, reason)
        self._tell_others(name, Left(name, sentence(reason)))

    def _interrupt_for(self, name: str, reason: str) -> None:
        """End this conversation for all; the next one begins once this party is there again."""
        self._introductions = {}
        self._interrupt(f"{name}: {sentence(reason)}")
        self._tell_others(name, Left(name, sentence(reason), again=True))

    # --- what the server tells

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None:
        self._back(name)
        if resumed:
            self._tell_others(name, Away(name, away=False))
            return
        self._introductions.pop(name, None)
        self._done.discard(name)
        self._tell_list([name])  # before it is introduced to anybody
        if self._begun and not self._over:
            self._interrupt_for(name, "it was started again")
        self._notify()

    async def arrived(self, name: str, frame: bytes | memoryview) -> None:
        message: Any = decode(frame, Envelope | Introduction | Left, self._limit + OVERHEAD)  # type: ignore[arg-type]
        match message:
            case Introduction(party=party) if party == name and self._finished:
                self._server.send(name, encode(Left(self.name, "")))  # it was started again after all were done
            case Introduction(party=party) if party == name and (self._over or not self._begun):
                self._introductions[name] = message
                self._notify()
            case Left(party=party, reason=reason, again=again) if party == name:
                self._introductions.pop(name, None)
                self._done.add(name)
                if self._begun and again:
                    self._interrupt_for(name, reason)
                elif self._begun:
                    self._end_for(name, reason)
            case Envelope(sender=sender, receiver=receiver, body=body) if sender == name:
                if receiver != self.name and (receiver not in self._inboxes or receiver == name):
                    raise PeerError(f"a message for {sentence(receiver)}, who takes no part")
                if not self._begun:
                    return  # of a conversation that was interrupted
                if receiver == self.name:
                    self._put(name, body)
                else:
                    await self.relay(name, receiver, frame)
            case _:
                raise PeerError(f"{type(message).__name__} in another's name, or out of turn")

    async def relay(self, sender: str, receiver: str, frame: bytes | memoryview) -> None:
        """Pass on an envelope as it came. Where the receiver is slow, so is the sender."""
        inbox = self._inboxes[sender]
        while self._full(receiver) and receiver not in self._done and inbox is self._inboxes[sender]:
            await asyncio.sleep(LOOK)
        if inbox is self._inboxes[sender]:  # or it would become part of the next conversation
            self._server.send(receiver, frame)

    async def refused(self, name: str, reason: str) -> None:
        """Its certificate is over: it is away until it has a renewed one."""

    async def broke(self, name: str, reason: str) -> None:
        self._introductions.pop(name, None)
        self._done.add(name)
        if self._begun:
            self._end_for(name, reason)

    async def lost(self, name: str) -> None:
        self._missing_since(name)
        if self._begun and name not in self._done:
            self._tell_others(name, Away(name, away=True))
