"""Every other party of a run in lock step: it connects to the hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from tacit.channel import LIMIT, PATIENCE, Channel, Inbox, sentence
from tacit.crypto.agreement import KeyPair
from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.events import Sink
from tacit.net.ends import FAREWELL, LOOK, LOST_AFTER, OVERHEAD, WINDOW, Away, Begun, Ends, Envelope, Left, Over
from tacit.net.handshake import RevokedList
from tacit.net.identity import Credentials, Identity
from tacit.net.pins import Pins
from tacit.net.relay import Introduction, Sealing, federation, introduce, meet
from tacit.net.revocation_list import LARGEST_LIST
from tacit.net.transport import Conversation, Transport, default_transport
from tacit.net.upkeep import Upkeep
from tacit.net.vitals import Figures
from tacit.wire import decode, encode


class Spoke(Ends):
    """A party that connects to the hub.

    Args:
        hub: the party that must be met at `address`; its certificate says so.
        others: the names of the other spokes.
        transport: how frames travel; over gRPC by default.

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
        lost_after: float = LOST_AFTER,
        sink: Sink | None = None,
        pins: Pins | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(name, [hub, *others], limit, patience, sink, lost_after)
        self.hub = hub
        self._credentials = credentials
        self._pins = pins or Pins()
        self._pair = KeyPair.generate()
        self._run = federation(hub, shared)
        self._key = credentials.signing_key if credentials else SigningKey.generate()
        self._largest = max(limit, 0 if credentials is None else LARGEST_LIST) + OVERHEAD
        about = Conversation(name, shared, self._largest, credentials, sink=sink)
        self._connection = (transport or default_transport()).connection(self, address, hub, about)
        self._upkeep = Upkeep(credentials, self._say, self._list_changed)
        self._keeping: asyncio.Task[None] | None = None
        self._met: dict[str, Identity] = {}  # other spokes, as their certificates say
        self._task: asyncio.Task[None] | None = None
        self._sealings: dict[str, Sealing] = {}
        self._there = False
        self._joined = False  # whether the hub knows of this process
        self._meeting = True  # whether it is ready for a conversation: at first, and when `meet` is called again
        self._introduced = False  # for the next conversation
        self._hub_left = False
        self._trouble = ""  # why there is no connection, or no conversation

    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for the hub to say that all are there; a channel to each of them. Again after `Interrupted`."""
        self._wait_for(self._look_for_others())
        self._wait_until(lambda: self._wait_for(self._begin()), self._lacking, self._news, patience)
        return self._channels

    def figures(self) -> Figures:
        return Figures(int(self._there), 1, "", self._connection.traffic)

    def _lacking(self) -> str:
        if self._fatal is not None:
            raise PeerError(self._fatal)
        if self._hub_left and not self._begun:
            raise Over(f"{self.hub} has finished")
        return f"{self.hub}: {self._trouble or 'the others are not all there'}"

    def _news(self) -> bool:
        return self._begun or self._fatal is not None or self._hub_left

    async def _look_for_others(self) -> None:
        self._meeting = True
        self._introduce()

    async def _begin(self) -> bool:
        if not self._begun or self._fatal is not None:
            return False
        self._meeting, self._trouble = False, ""
        self._channels = {name: self._channel(name, self._sealings.get(name)) for name in self._inboxes}
        return True

    def _introduce(self) -> None:
        """Show the hub a fresh key, once for each conversation, if this party is ready for one."""
        if self._meeting and self._joined and not self._introduced:
            self._introduced = True
            self._sealings = {}
            self._pair.erase()
            self._pair = KeyPair.generate()
            proof = self._credentials.renewed(self._say).certificate if self._credentials else self._key.public
            self._connection.send(encode(introduce(self._pair, self._key, self._run, self.name, proof)))

    def _interrupt(self, reason: str) -> None:
        """End the conversation, and be ready for the next one if `meet` waits for it."""
        super()._interrupt(reason)
        self._introduced = False
        self._trouble = reason
        self._introduce()

    async def _open(self) -> None:
        self._task = asyncio.create_task(self._connection.run())
        self._task.add_done_callback(self._ended)
        self._keeping = asyncio.create_task(self._upkeep.run())

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._end_all(str(error) if isinstance(error, PeerError) else f"the connection to {self.hub} ended")

    async def _shut(self, reason: str, again: bool, seconds: float | None) -> None:
        if self._task is None:
            return
        if self._keeping is not None:
            self._keeping.cancel()
        self._connection.send(encode(Left(self.name, reason, again)))
        patience = FAREWELL if reason or not self._begun else self._patience if seconds is None else seconds
        deadline = time.monotonic() + patience
        while self._connection.pending and not self._task.done() and time.monotonic() < deadline:
            if not self._there and (self._hub_left or not self._begun):
                break
            await asyncio.sleep(LOOK)
        lost = self._connection.pending if self._begun and not reason and not self._hub_left else 0
        await self._connection.close(0)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._pair.erase()
        if lost and seconds is None:
            raise PeerError(f"{self.hub} did not confirm the last {lost} bytes that {self.name} sent")

    async def _queue(self, receiver: str, frame: bytes, inbox: Inbox) -> None:
        while self._connection.pending > WINDOW and inbox.ended is None:
            await asyncio.sleep(LOOK)
        inbox.check_open()  # or the frame would become part of the next conversation
        self._connection.send(frame)

    # --- what the connection tells

    async def connected(self, resumed: bool) -> None:
        self._there = True
        self._back(self.hub)
        if not resumed:
            self._joined, self._introduced = True, False
            if self._begun:
                self._interrupt(f"{self.hub} was started again")
            self._introduce()
        self._trouble = ""
        self._notify()

    async def waiting(self, reason: str) -> None:
        self._there, self._trouble = False, reason
        self._missing_since(self.hub)
        self._notify()

    async def arrived(self, frame: bytes | memoryview) -> None:
        union: Any = Envelope | Introduction | Left | Begun | Away | RevokedList
        try:
            message = decode(frame, union, self._largest)
            if isinstance(message, RevokedList):
                await self._upkeep.take(message.data, self.hub)
            else:
                self._take(message)
        except PeerError as error:
            self._end_all(str(error))

    def _take(self, message: Any) -> None:
        match message:
            case Introduction(party=party) if not self._begun and party in self._inboxes and party != self.hub:
                self._sealings[party] = meet(message, self._pair, self._run, self.name, self._whose(party))
            case Begun() if len(self._sealings) == len(self._inboxes) - 1:
                self._begun = True
                self._notify()
            case Left(party=party, reason=reason, again=True) if party in self._inboxes:
                if self._begun:
                    self._interrupt(f"{party}: {sentence(reason)}")
            case Left(party=party, reason=reason) if party in self._inboxes:
                self._hub_left = self._hub_left or party == self.hub
                self._gone(party, reason)
            case Away(party=party, away=away) if party in self._inboxes and party != self.hub:
                self._missing_since(party) if away else self._back(party)
            case Envelope(sender=sender, receiver=receiver, body=body) if (
                sender in self._inboxes and receiver == self.name and self._begun
            ):
                self._put(sender, body)
            case _:
                raise PeerError(f"{self.hub} sent {type(message).__name__} out of turn, or of who takes no part")

    async def _list_changed(self) -> None:
        """There is a newer revocation list. A party on it ends the conversation, the hub included."""
        for party, found in list(self._met.items()):
            if self._credentials is not None and (why := self._credentials.revocations.reason_against(found)):
                del self._met[party]
                self._interrupt(why)
        self._connection.check_server()

    def _whose(self, party: str) -> Callable[[bytes], tuple[str, bytes]]:
        def signing_key_of(proof: bytes) -> tuple[str, bytes]:
            if self._credentials is None:
                return party, proof
            found = self._credentials.identify(proof)
            if found.name == party:
                self._pins.meet(found, self._credentials.revocations)
                self._met[party] = found
            return found.name, found.signing_public

        return signing_key_of
