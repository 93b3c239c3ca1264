"""A client of a horizontal federation over a network.

It connects, trains when it is sent a model, and answers. What it answers is paid for in its ledger, and stored, before
it leaves. A connection that breaks comes back by itself; with a coordinator that was started again it begins anew. A
coordinator that is away, also one that said that it stops, is waited for with patience.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from tacit import tasks
from tacit.channel import sentence
from tacit.crypto.signing import SigningKey
from tacit.engines.grpc.connection import Connection
from tacit.engines.grpc.coordinator import COORDINATOR, client_identity, client_name
from tacit.engines.grpc.handshake import Identities, Parting
from tacit.engines.tls import Credentials, identity_of
from tacit.errors import BudgetError, PeerAway, PeerError, comes_back
from tacit.events import Noted, Sink
from tacit.horizontal.client import Client, noise_source
from tacit.horizontal.frames import to_client, to_frame
from tacit.horizontal.messages import Work
from tacit.horizontal.plan import largest_frames
from tacit.horizontal.protection import UnusableUpdate
from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Task
from tacit.horizontal.vector import Layout
from tacit.secagg.messages import Abort, unpack_ids
from tacit.wire import decode, encode

_STEADY = 5.0  # seconds after which a connection counts, though nothing was said
Status = Literal["done", "stopped", "failed", "budget reached"]


class ClientEngine:
    """One client that connects to the coordinator.

    Args:
        shared: the settings in the form that all parties compare.
        credentials: None on loopback without certificates.
        thread: where it trains; clients of one process may share one.
        patience: seconds to wait for a coordinator that is away.
    """

    def __init__(
        self,
        settings: Settings,
        identity: int,
        task: Task,
        sink: Sink,
        shared: bytes,
        address: str,
        credentials: Credentials | None,
        *,
        thread: ThreadPoolExecutor | None = None,
        patience: float = math.inf,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._sink = sink
        self._credentials = credentials
        self._layout = Layout.of(task.model())
        judged = tasks.infers(task, settings)
        self._limit = largest_frames(settings, self._layout, judged.classes if judged else None)[1]
        active = settings.masked and settings.mode == "active"
        key = (credentials.signing_key if credentials else SigningKey.generate()) if active else None
        self._identities: dict[int, bytes] = {identity: key.public} if key else {}
        self.client = Client(
            settings,
            identity,
            task.fit,
            self._layout,
            infers=judged,
            key=key,
            identities=self._identities if key else None,
            random=noise_source(settings, identity),
        )
        self.connection = Connection(
            address,
            COORDINATOR,
            client_name(identity),
            shared,
            self._limit,
            credentials,
            self,
            signing_key=key.public if key and credentials is None else b"",
            answered=lambda: self.client.state()["attempts"],
            say=lambda text: sink.emit(Noted(text)),
        )
        self._patience = patience
        self._away_since: float | None = None
        self._connected_at: float | None = None
        self._thread = thread or ThreadPoolExecutor(1, f"client-{identity}")
        self._store: Callable[[Client], None] = lambda client: None
        self._parting: Parting | None = None
        self.rounds: set[int] = set()  # in which it took part
        self._said_waiting = ""
        self._idle = True  # until it is sent a model
        self._failed: BaseException | None = None

    async def run(
        self, store: Callable[[Client], None] = lambda client: None, should_stop: Callable[[], bool] = lambda: False
    ) -> Parting:
        """Take part until the coordinator says that it is over. `store` is called before anything paid for leaves."""
        self._store = store
        clock = asyncio.get_running_loop().time
        self._away_since = clock()
        conversation = asyncio.create_task(self.connection.run())
        try:
            while not conversation.done() and self._parting is None and self._failed is None:
                if should_stop():
                    await self._leave("stopped", "it was stopped")
                    return Parting("stopped", "by hand")
                if self._away(clock()) > self._patience:
                    raise PeerAway(f"the coordinator was away for {self._patience:g} s ({self._said_waiting})")
                await asyncio.wait([conversation], timeout=0.05)
            if self._failed is not None:
                again = comes_back(self._failed)
                await self._leave("stopped" if again else "failed", "it was interrupted" if again else "it failed")
                raise self._failed
            if conversation.done():
                conversation.result()  # raises what ended it
            await self.connection.close(1.0)
        finally:
            conversation.cancel()
        return self._parting or Parting("failed", "the conversation ended")

    def _away(self, now: float) -> float:
        """Seconds since there was a connection to the coordinator that lasted, or carried anything."""
        if self._connected_at is not None and now - self._connected_at > _STEADY:
            self._away_since = None
        return 0.0 if self._away_since is None else now - self._away_since

    async def _leave(self, status: str, reason: str) -> None:
        self.connection.send(encode(Parting(status, reason)))
        await self.connection.close(1.0)

    # --- what the connection tells

    async def connected(self, resumed: bool) -> None:
        if not resumed:
            self.client.end_round()
            self._idle = True
            self._sink.emit(Noted("connected to the coordinator"))
        self._said_waiting, self._connected_at = "", asyncio.get_running_loop().time()

    def _missing(self) -> None:
        """The coordinator is away from now on, or has been."""
        self._connected_at = None
        if self._away_since is None:
            self._away_since = asyncio.get_running_loop().time()

    async def waiting(self, reason: str) -> None:
        self._missing()
        if reason != self._said_waiting:
            self._sink.emit(Noted(f"waiting for the coordinator: {reason}"))
            self._said_waiting = reason

    async def arrived(self, frame: bytes) -> None:
        try:
            about = _about_the_party(frame)
            if isinstance(about, Parting) and about.status == "stopped":
                self.client.end_round()
                self._idle = True
                self._missing()
                self._sink.emit(Noted(f"waiting for the coordinator to come back: {sentence(about.reason)}"))
            elif isinstance(about, Parting):
                self._parting = about
            elif isinstance(about, Identities):
                self._meet(about)
            else:
                self._away_since = None
                await self._answer(frame)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # `run` raises it where somebody waits for it
            self._failed = error

    async def _answer(self, frame: bytes) -> None:
        message = to_client(frame, self._layout, self._limit)
        loop = asyncio.get_running_loop()
        if isinstance(message, Work):
            self.client.end_round()
            self._idle = False
        elif self._idle:
            return  # of a round that this process, or this conversation, knows nothing of
        try:
            answers = await loop.run_in_executor(self._thread, self.client.receive, message, loop.time())
        except UnusableUpdate as error:
            answers = [Abort(str(error)[:300])]
        except BudgetError:
            self.connection.send(encode(Parting("budget reached", "its privacy budget is spent")))
            raise
        if answers:
            await loop.run_in_executor(self._thread, self._store, self.client)
        for answer in answers:
            self.connection.send(to_frame(answer))
        if isinstance(message, Work):
            self.rounds.add(message.round)
            left = next((answer.reason for answer in answers if isinstance(answer, Abort)), None)
            self._sink.emit(
                Noted(f"round {message.round + 1}: {'takes part' if left is None else f'left out: {left}'}")
            )

    def _meet(self, identities: Identities) -> None:
        """Learn whose signing keys are whose. What the coordinator relays is believed as far as the certificates go."""
        ids = unpack_ids(identities.ids)
        if len(ids) != len(identities.proofs):
            raise PeerError(f"{len(identities.proofs)} certificates of {len(ids)} clients")
        for identity, proof in zip(ids, identities.proofs, strict=True):
            if self._credentials is None:
                signing = proof
            else:
                found = identity_of(proof, self._credentials.authority)
                if client_identity(found.name) != identity:
                    raise PeerError(f"the certificate of {found.name} for client {identity}")
                signing = found.signing_public
            if identity == self._identity and signing != self._identities[identity]:
                raise PeerError("the coordinator has another signing key of this client")
            self._identities[identity] = signing


def _about_the_party(frame: bytes) -> Parting | Identities | None:
    try:
        found: Any = decode(frame, Parting | Identities, 1 << 21)  # type: ignore[arg-type]
    except PeerError:
        return None
    return found  # type: ignore[no-any-return]
