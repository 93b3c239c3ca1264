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

from tacit.channel import sentence
from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, PeerAway, PeerError, comes_back
from tacit.events import Answered, AnswerRefused, EndHeard, Noted, Sink
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.costs import Spent
from tacit.kinds.horizontal.forecast import largest_frames
from tacit.kinds.horizontal.frames import to_client, to_frame
from tacit.kinds.horizontal.messages import ToCoordinator, Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.vector import Flat
from tacit.net.grpc.connection import Connection
from tacit.net.handshake import Identities, Parting
from tacit.net.pins import Pins
from tacit.net.star_host import COORDINATOR, client_identity, client_name
from tacit.net.tls import Credentials, identity_of
from tacit.secagg.messages import Abort, Masked, unpack_ids
from tacit.secagg.session import UnknownClient
from tacit.wire import decode, encode

_REASONS = 3  # for which the log says that a client is left out
_STEADY = 5.0  # seconds after which a connection counts, though nothing was said
Status = Literal["done", "stopped", "failed", "budget reached"]


class ClientEngine:
    """One client that connects to the coordinator.

    Args:
        shared: the settings in the form that all parties compare.
        credentials: None on loopback without certificates.
        thread: where it trains; clients of one process may share one.
        patience: seconds to wait for a coordinator that is away.
        pins: the keys of other clients that were met earlier in this run.
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
        pins: Pins | None = None,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._sink = sink
        self._credentials = credentials
        self._pins = pins or Pins()
        self._left_out: dict[int, list[str]] = {}  # clients whose proofs were refused, and why
        prepared = Prepared.of(settings, task)
        self._layout = prepared.layout
        self._limit = largest_frames(settings, self._layout, prepared.classes)[1]
        key = (credentials.signing_key if credentials else SigningKey.generate()) if settings.signs else None
        self._identities: dict[int, bytes] = {identity: key.public} if key else {}
        self.client = prepared.client(identity, key=key, identities=self._identities if key else None)
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
        self._keep: Callable[[int, Flat], None] = lambda round, model: None
        self._under_way = 0  # the round that it was sent last
        self._parting: Parting | None = None
        self.rounds: set[int] = set()  # in which it took part
        self._said_waiting = ""
        self._idle = True  # until it is sent a model
        self._failed: BaseException | None = None

    async def run(
        self,
        store: Callable[[Client], None] = lambda client: None,
        should_stop: Callable[[], bool] = lambda: False,
        keep: Callable[[int, Flat], None] = lambda round, model: None,
    ) -> Parting:
        """Take part until the coordinator says that it is over.

        `store` is called before anything paid for leaves; `keep` after the answer to a model, with its round and
        the model: it must not take long.
        """
        self._store, self._keep = store, keep
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
                self._parting = Parting(sentence(about.status), sentence(about.reason))
                # Written before the coordinator hears that this client knows, after which it may be gone.
                self._sink.emit(EndHeard(self._identity, self._parting.status, self._parting.reason))
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
            self._under_way = message.round
        elif self._idle:
            return  # of a round that this process, or this conversation, knows nothing of
        try:
            answers = await loop.run_in_executor(self._thread, self.client.receive, message, loop.time())
        except UnusableUpdate as error:
            answers = [Abort(str(error)[:300])]
            self._refused("update", str(error))
        except UnknownClient as error:
            answers = [self._decline(error)]
        except BudgetError as error:
            self.connection.send(encode(Parting("budget reached", "its privacy budget is spent")))
            self._refused("budget", str(error))
            if isinstance(message, Work):
                self._keep(message.round, message.model)
            raise
        except PeerError as error:
            self._refused("request", str(error))
            raise
        else:
            for answer in answers:
                if isinstance(answer, Abort):  # it leaves out this round
                    self._refused("request", answer.reason)
        await loop.run_in_executor(self._thread, self._pins.save)
        if answers:
            spent = await loop.run_in_executor(self._thread, self._settle)
            self._send(answers, spent)
        if isinstance(message, Work):
            self.rounds.add(message.round)
            self._keep(message.round, message.model)

    def _settle(self) -> list[Spent]:
        """Store what was paid, before anything of it leaves."""
        self._store(self.client)
        return self.client.spent()

    def _send(self, answers: list[ToCoordinator], spent: list[Spent]) -> None:
        """Send, and tell this site what was sent and what it has cost so far."""
        sent: dict[str, int] = {}
        for answer in answers:
            frame = to_frame(answer)
            self.connection.send(frame)
            sent[type(answer).__name__] = sent.get(type(answer).__name__, 0) + len(frame)
        uploaded = any(isinstance(answer, Update | Masked) for answer in answers)
        prices = {" and ".join(each.covers): each for each in spent} if uploaded else {}
        epsilons = {name: each.epsilon for name, each in prices.items()}
        deltas = {name: each.delta for name, each in prices.items()}
        self._sink.emit(Answered(self._identity, self._under_way, sent, epsilons, deltas))
        while self.client.withheld:
            self._refused("training", self.client.withheld.pop(0))

    def _refused(self, why: Literal["budget", "request", "update", "training"], reason: str) -> None:
        self._sink.emit(AnswerRefused(self._identity, self._under_way, why, reason[:300]))

    def _decline(self, error: UnknownClient) -> Abort:
        """Leave a round with a client whose key is not known here. This client stays in the run."""
        why = self._left_out.get(error.client, ["the coordinator has not shown its certificate"])[-1]
        reason = f"{error}: {why}"[:300]
        self.client.end_round()
        self._idle = True
        self._refused("request", reason)
        return Abort(reason)

    def _meet(self, identities: Identities) -> None:
        """Learn whose signing keys are whose. What the coordinator relays is believed as far as the certificates go.

        A client whose certificate is refused is left out until a better one is shown, and the run goes on.
        """
        ids = unpack_ids(identities.ids)
        if len(ids) != len(identities.proofs):
            raise PeerError(f"{len(identities.proofs)} certificates of {len(ids)} clients")
        for identity, proof in zip(ids, identities.proofs, strict=True):
            try:
                self._identities[identity] = self._signing_key(identity, proof)
            except PeerError as error:
                self._leave_out(identity, str(error))

    def _signing_key(self, identity: int, proof: bytes) -> bytes:
        """Whose key a proof shows to be client `identity`'s."""
        if identity >= self._settings.clients:
            raise PeerError("there is no such client")
        signing = proof
        if self._credentials is not None:
            found = identity_of(proof, self._credentials.authority)
            if client_identity(found.name) != identity:
                raise PeerError(f"the certificate is of {found.name}")
            self._pins.meet(found)
            signing = found.signing_public
        if identity == self._identity and signing != self._identities[identity]:
            raise PeerError("the coordinator shows another signing key of this client")
        return signing

    def _leave_out(self, identity: int, reason: str) -> None:
        """Do without a client, and say why, not without end."""
        if identity != self._identity:
            self._identities.pop(identity, None)
        if identity < self._settings.clients:
            reasons = self._left_out.setdefault(identity, [])
            if reason not in reasons and len(reasons) < _REASONS:
                reasons.append(reason)
                self._sink.emit(Noted(f"client {identity} is left out: {reason}"))


def _about_the_party(frame: bytes) -> Parting | Identities | None:
    try:
        found: Any = decode(frame, Parting | Identities, 1 << 21)  # type: ignore[arg-type]
    except PeerError:
        return None
    return found  # type: ignore[no-any-return]
