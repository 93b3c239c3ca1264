"""Every other party of a run in lock step: it connects to the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from tacit.channel import LIMIT, PATIENCE, Channel
from tacit.crypto.agreement import KeyPair
from tacit.crypto.signing import SigningKey
from tacit.engines.grpc.channel import FAREWELL, LOOK, OVERHEAD, WINDOW, Begun, Ends, Envelope, Left, check_guarded
from tacit.engines.grpc.connection import Connection
from tacit.engines.grpc.relay import Introduction, Sealing, federation, introduce, meet
from tacit.engines.tls import Credentials, identity_of
from tacit.errors import PeerError
from tacit.events import Sink
from tacit.wire import decode, encode


class Spoke(Ends):
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
        check_guarded(address, credentials)
        self.hub = hub
        self._credentials = credentials
        self._pair = KeyPair.generate()
        self._run = federation(hub, shared)
        key = credentials.signing_key if credentials else SigningKey.generate()
        proof = credentials.certificate if credentials else key.public
        self._introduction = encode(introduce(self._pair, key, self._run, name, proof))
        self._connection = Connection(address, hub, name, shared, limit + OVERHEAD, credentials, self, say=self._say)
        self._task: asyncio.Task[None] | None = None
        self._sealings: dict[str, Sealing] = {}
        self._there = False
        self._hub_left = False
        self._trouble = ""  # why there is no connection

    def meet(self, patience: float | None = None) -> dict[str, Channel]:
        """Wait for the hub to say that all are there; a channel to each of them."""
        inbox = self._inboxes[self.hub]
        self._wait_until(lambda: self._begun, self._lacking, lambda: self._begun or inbox.ended, patience)
        return {name: self._channel(name, self._sealings.get(name)) for name in self._inboxes}

    def _lacking(self) -> str:
        ended = self._inboxes[self.hub].ended
        if ended is not None:
            raise PeerError(ended)
        return f"{self.hub}: {self._trouble or 'the others are not all there'}"

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
        deadline = clock() + (FAREWELL if reason or not self._begun else self._patience)
        while self._connection.pending and not self._task.done() and clock() < deadline:
            if not self._there and (self._hub_left or not self._begun):
                break
            await asyncio.sleep(LOOK)
        lost = self._connection.pending if self._begun and not reason and not self._hub_left else 0
        await self._connection.close(0)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._pair.erase()
        if lost:
            raise PeerError(f"{self.hub} did not confirm the last {lost} bytes that {self.name} sent")

    async def _queue(self, receiver: str, frame: bytes) -> None:
        while self._connection.pending > WINDOW and self._inboxes[receiver].ended is None:
            await asyncio.sleep(LOOK)
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
            self._take(decode(frame, union, self._limit + OVERHEAD))
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
