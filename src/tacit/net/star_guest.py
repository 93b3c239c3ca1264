"""A client of a star, on a connection.

It answers what it is sent. What it answers is paid for in its ledger, and stored, before it leaves. A connection that
breaks comes back by itself; with a coordinator that was started again it begins anew. A coordinator that is away, also
one that said that it stops, is waited for with patience. While a pause lasts, the time does not count, whether there is
a connection or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tacit.channel import sentence
from tacit.errors import BudgetError, PeerAway, PeerError, comes_back
from tacit.events import EndHeard, Noted, Paused, Sink, Unpaused
from tacit.net.handshake import Identities, Parting, Pause, RevokedList
from tacit.net.identity import Identity
from tacit.net.pins import Pins
from tacit.net.revocation_list import LARGEST_LIST
from tacit.net.site import Site
from tacit.net.star import COORDINATOR, Leaf, client_identity, client_name
from tacit.net.transport import Conversation
from tacit.net.upkeep import Upkeep
from tacit.net.vitals import Figures
from tacit.secagg.messages import unpack_ids
from tacit.wire import decode, encode

T = TypeVar("T")
_OVERHEAD = 64  # bytes of a list's frame over the list
_REASONS = 3  # for which the log says that a client is left out
_STEADY = 5.0  # seconds after which a connection counts, though nothing was said


class StarGuest:
    """One client that connects to the coordinator.

    Args:
        site: where the coordinator is and by which transport, who this client is, and for how long a coordinator that
            is away is waited for.
        thread: where it works; clients of one process may share one.
        pins: the keys of other clients that were met earlier in this run.
    """

    def __init__(
        self, leaf: Leaf, site: Site, sink: Sink, *, thread: ThreadPoolExecutor | None = None, pins: Pins | None = None
    ) -> None:
        self.leaf = leaf
        self._terms = leaf.terms
        self._sink = sink
        self._credentials = site.credentials
        self._pins = pins or Pins()
        self._met: dict[int, Identity] = {}  # clients whose certificates were shown
        self._left_out: dict[int, list[str]] = {}  # clients whose proofs were refused, and why
        about = Conversation(
            client_name(leaf.identity),
            self._terms.shared,
            max(self._terms.limits[1], 0 if site.credentials is None else LARGEST_LIST + _OVERHEAD),
            site.credentials,
            signing_key=leaf.signing_key if site.credentials is None else b"",
            answered=lambda: leaf.answered,
            sink=sink,
        )
        self.connection = site.transport.connection(self, site.address, COORDINATOR, about)
        self._upkeep = Upkeep(site.credentials, about.say, self._list_changed)
        self._patience = site.network.waits
        self._away_since: float | None = None
        self._connected_at: float | None = None
        self._paused_at: float | None = None  # since when the coordinator is paused
        self._pause_holds = False  # not once another process of it answers, before that says that it is paused too
        self._vitals = site.vitals
        self._thread = thread or ThreadPoolExecutor(1, client_name(leaf.identity))
        self._parting: Parting | None = None
        self._said_waiting = ""
        self._failed: BaseException | None = None

    async def run(self, should_stop: Callable[[], bool] = lambda: False) -> Parting:
        """Take part until the coordinator says that it is over."""
        with self._vitals.watched(self._figures):
            return await self._run(should_stop)

    async def _run(self, should_stop: Callable[[], bool]) -> Parting:
        clock = asyncio.get_running_loop().time
        self._away_since = clock()
        conversation = asyncio.create_task(self.connection.run())
        keeping = asyncio.create_task(self._upkeep.run())
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
            keeping.cancel()
        return self._parting or Parting("failed", "the conversation ended")

    def _away(self, now: float) -> float:
        """Seconds since there was a connection to the coordinator that lasted, or carried anything, or a pause."""
        if self._pause_holds:
            self._away_since = now
        if self._connected_at is not None and now - self._connected_at > _STEADY:
            self._away_since = None
        return 0.0 if self._away_since is None else now - self._away_since

    async def _leave(self, status: str, reason: str) -> None:
        self.connection.send(encode(Parting(status, reason)))
        await self.connection.close(1.0)

    # --- what the connection tells

    async def connected(self, resumed: bool) -> None:
        if not resumed:
            self._pause_holds = False
            self.leaf.end_round()
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

    async def arrived(self, frame: bytes | memoryview) -> None:
        try:
            about = _about_the_party(frame)
            if isinstance(about, Parting) and about.status == "stopped":
                self.leaf.end_round()
                self._missing()
                self._sink.emit(Noted(f"waiting for the coordinator to come back: {sentence(about.reason)}"))
            elif isinstance(about, Parting):
                self._parting = Parting(sentence(about.status), sentence(about.reason))
                # Written before the coordinator hears that this client knows, after which it may be gone.
                self._sink.emit(EndHeard(self.leaf.identity, self._parting.status, self._parting.reason))
            elif isinstance(about, Pause):
                self._hear_pause(about.begins)
            elif isinstance(about, Identities):
                self._meet(about)
            elif isinstance(about, RevokedList):
                await self._upkeep.take(about.data, "the coordinator")
            else:
                self._away_since = None
                self._hear_pause(False)
                await self._answer(frame)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # `run` raises it to its caller
            self._failed = error

    def _hear_pause(self, begins: bool) -> None:
        """The coordinator is paused, or no longer. Words that say what is known already change nothing."""
        now = asyncio.get_running_loop().time()
        self._pause_holds = begins
        if begins and self._paused_at is None:
            self._paused_at = now
            self._sink.emit(Paused("the coordinator begins no round until its operator ends the pause"))
        elif not begins and self._paused_at is not None:
            self._sink.emit(Unpaused(now - self._paused_at))
            self._paused_at = None

    def _figures(self) -> Figures:
        connected = self._connected_at is not None
        return Figures(int(connected), 1, "", self.connection.traffic)

    async def _answer(self, frame: bytes | memoryview) -> None:
        answer = await self._call(self.leaf.receive, frame, asyncio.get_running_loop().time())
        if isinstance(answer.error, BudgetError):
            self.connection.send(encode(Parting("budget reached", "its privacy budget is spent")))
        if answer.error is None:
            await self._call(self._pins.save)
        if answer.frames:
            await self._call(self.leaf.store)  # what was paid, before anything of it leaves
        for each in answer.frames:
            self.connection.send(each)
        for event in answer.events:
            self._sink.emit(event)
        self.leaf.sent(answer)
        if answer.error is not None:
            raise answer.error

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _meet(self, identities: Identities) -> None:
        """Learn whose signing keys are whose. What the coordinator relays is believed as far as the certificates go.

        A client whose certificate is refused is left out until a better one is shown, and the run continues.
        """
        ids = unpack_ids(identities.ids)
        if len(ids) != len(identities.proofs):
            raise PeerError(f"{len(identities.proofs)} certificates of {len(ids)} clients")
        for identity, proof in zip(ids, identities.proofs, strict=True):
            try:
                self.leaf.meet(identity, self._signing_key(identity, proof))
            except PeerError as error:
                self._leave_out(identity, str(error))

    async def _list_changed(self) -> None:
        """There is a newer revocation list. Nobody on it is believed any more, the coordinator included."""
        for identity, found in list(self._met.items()):
            if self._credentials is not None and (why := self._credentials.revocations.reason_against(found)):
                del self._met[identity]
                self._leave_out(identity, why)
        self.connection.check_server()

    def _signing_key(self, identity: int, proof: bytes) -> bytes:
        """Whose key a proof shows to be client `identity`'s."""
        if identity >= self._terms.clients:
            raise PeerError("there is no such client")
        signing = proof
        if self._credentials is not None:
            found = self._credentials.identify(proof)
            if client_identity(found.name) != identity:
                raise PeerError(f"the certificate is of {found.name}")
            self._pins.meet(found, self._credentials.revocations)
            self._met[identity] = found
            signing = found.signing_public
        if identity == self.leaf.identity and signing != self.leaf.signing_key:
            raise PeerError("the coordinator shows another signing key of this client")
        return signing

    def _leave_out(self, identity: int, reason: str) -> None:
        """Do without a client, and say why, not without end."""
        if identity >= self._terms.clients:
            return
        reasons = self._left_out.setdefault(identity, [])
        if reason not in reasons and len(reasons) < _REASONS:
            reasons.append(reason)
            self._sink.emit(Noted(f"client {identity} is left out: {reason}"))
        self.leaf.leave_out(identity, reasons[-1])


def _about_the_party(frame: bytes | memoryview) -> Parting | Identities | Pause | RevokedList | None:
    try:
        found: Any = decode(frame, Parting | Identities | Pause | RevokedList, 1 << 21)  # type: ignore[arg-type]
    except PeerError:
        return None
    return found  # type: ignore[no-any-return]
