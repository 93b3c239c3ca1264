"""The coordinator of a star, on a server.

It waits for clients, opens rounds, hands their frames to the coordinator without I/O and sends what that returns. All
work on the model happens in one thread, in the order of arrival; the event loop only moves bytes. Windows are those of
the file: nobody is waited for beyond them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from tacit.errors import NotResumed, PeerAway, PeerError, Unfit, comes_back
from tacit.events import Noted, Paused, Sink, Unpaused
from tacit.net.handshake import Hello, Identities, Parting, Pause, parting_of
from tacit.net.identity import Identity
from tacit.net.pins import Pins
from tacit.net.site import Site
from tacit.net.star import COORDINATOR, Frames, Star, client_identity, client_name, numbered_client
from tacit.net.transport import Conversation
from tacit.net.upkeep import Upkeep, tell_list
from tacit.net.vitals import Figures
from tacit.secagg.messages import pack_ids
from tacit.wire import encode

T = TypeVar("T")
_TICK = 0.05  # seconds between two looks at the clock
_INTRODUCED = 100  # clients in one frame
_BEHIND = 1 << 20  # bytes of small messages that a client may not have confirmed yet
_FAREWELL = 30.0  # seconds for those that are connected to hear that it is over, ...
_BACK_SOON = 5.0  # ... or that the coordinator stops and comes back


class StarHost:
    """A coordinator that clients connect to.

    Args:
        site: where it listens and by which transport, who it is, what strangers and clients may take of it, and how
            long a lost client is waited for.
        listening: is called when clients can connect.
        pins: the keys of clients that were met earlier in this run.
    """

    def __init__(
        self,
        star: Star,
        site: Site,
        sink: Sink,
        *,
        clock: Callable[[], float] = time.monotonic,
        listening: Callable[[], None] = lambda: None,
        pins: Pins | None = None,
    ) -> None:
        self.star = star
        self._terms = star.terms
        self._bind = site.bind
        self._network = site.network
        self._pausing = site.pausing
        self._vitals = site.vitals
        self._sink = sink
        self._clock = clock
        self._listening = listening
        self._credentials = site.credentials
        self._proofs: dict[int, bytes] = {}  # what shows others whose signing keys are whose
        self._told: dict[int, set[int]] = {}  # which proofs a client was sent
        self._pins = pins or Pins()
        about = Conversation(
            COORDINATOR,
            self._terms.shared,
            self._terms.limits[0],
            site.credentials,
            pins=self._pins,
            network=site.network,
            sink=sink,
        )
        self.server = site.transport.server(self, self._expected, about)
        self._thread = ThreadPoolExecutor(1, "coordinator")
        self._changed = asyncio.Event()
        self._given_up: set[int] = set()  # who left, or was waited for in vain, and has not come back since
        self._lost: dict[int, float] = {}  # since when a client is without a connection
        self._ahead: set[int] = set()  # clients that answered rounds of which this coordinator has no state
        self._joined_at = 0.0  # when a client came last
        self._upkeep = Upkeep(site.credentials, about.say, self._list_changed, self._identities)
        self._begun = False  # whether this process has opened a round
        self._failed: Exception | None = None  # what went wrong here while a frame was taken in
        self._over: bytes | None = None  # the frame that tells new connections that it is over
        self._opening = 0  # bytes of the frame that began the last round
        self._said_at = 0.0
        self.port = 0

    def run(
        self,
        store: Callable[[], None] = lambda: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """All rounds. `store` is called in the coordinator's thread, before a round and after it."""
        asyncio.run(self.serve(store, should_stop))

    async def serve(
        self,
        store: Callable[[], None] = lambda: None,
        should_stop: Callable[[], bool] = lambda: False,
        ready: Callable[[int], None] = lambda port: None,
    ) -> None:
        """The same in an event loop. `ready` is told the port."""
        self.port = await self.server.start(self._bind, self._terms.clients)
        self._listening()
        ready(self.port)
        with self._vitals.watched(self._figures):
            await self._serve(store, should_stop)

    async def _serve(self, store: Callable[[], None], should_stop: Callable[[], bool]) -> None:
        ending = Parting("failed", "the coordinator failed")
        served = self.star.finished  # before this process began: it is only here to say so
        keeping = asyncio.create_task(self._upkeep.run())
        try:
            await self._rounds(store, should_stop)
            ending = self.star.ending
            self._pausing.end()  # a pause that nothing is left for
        except (KeyboardInterrupt, asyncio.CancelledError):
            ending = Parting("stopped", "the coordinator was stopped")
            raise
        except (PeerError, NotResumed, Unfit) as error:
            ending = Parting("stopped" if comes_back(error) else "failed", str(error)[:300])
            raise
        except BaseException as error:
            if comes_back(error):
                ending = Parting("stopped", f"a fault of the coordinator's machine ({type(error).__name__})")
            raise
        finally:
            await self._farewell(ending, served, should_stop)
            keeping.cancel()
            await self.server.stop()
            self._thread.shutdown(wait=False)

    async def _rounds(self, store: Callable[[], None], should_stop: Callable[[], bool]) -> None:
        while True:
            await self._gather(should_stop)
            opening = await self._call(self.star.begin, self._clock(), self._there())
            await self._call(self._pins.save)  # before others are told of them
            await self._call(store)
            if not opening and self.star.finished:
                return
            self._begun = True
            self._upkeep.warn_of_peers()
            absent = {client for client, _ in opening if self._absent(client)}
            self._open([(client, frame) for client, frame in opening if client not in absent])
            for client in sorted(absent):
                self._send(await self._call(self.star.gone, client, self._clock()))
            while self.star.collecting:
                if should_stop():
                    raise KeyboardInterrupt
                if self._failed is not None:
                    raise self._failed
                await self._give_up_lost()
                self._send(await self._call(self.star.tick, self._clock()))
                self._changed.clear()
                await _within(self._changed.wait(), _TICK)
            await self._call(store)

    def _there(self) -> list[int]:
        connected = {numbered_client(name) for name in self.server.peers if self.server.connected(name)}
        return sorted(connected.difference(self._ahead, self.star.excluded))

    async def _give_up_expired(self) -> None:
        """A client whose certificate is over takes part in no further round: the others would refuse it."""
        await self._turned_away(self.server.end_expired())

    async def _list_changed(self) -> None:
        """There is a newer revocation list: clients on it lose their place at once, and the others are told."""
        ended = self.server.end_revoked()
        for name in ended:  # before anything is waited for: a client may come back with new keys meanwhile
            self._proofs.pop(numbered_client(name), None)
        self._tell_list(name for name in self.server.peers if name not in ended)
        await self._turned_away(ended)
        for name in ended:
            if not self.server.connected(name):  # if it is back, `joined` has said that the old one is gone
                self._send(await self._taken(numbered_client(name), None))
        self._changed.set()

    async def _turned_away(self, ended: Mapping[str, str]) -> None:
        self._given_up.update(map(numbered_client, ended))
        for name, reason in ended.items():
            await self.refused(name, reason)

    def _tell_list(self, names: Iterable[str]) -> None:
        if self._credentials is not None:
            tell_list(self.server, self._credentials.revocations, names)

    def _identities(self) -> list[Identity]:
        """Of the clients that are there."""
        there = [peer.identity for name, peer in self.server.peers.items() if self.server.connected(name)]
        return [found for found in there if found is not None]

    async def _give_up_lost(self) -> None:
        """A client without a connection for too long does not hold up the round. It may be back for the next."""
        now = self._clock()
        lost = [client for client, since in self._lost.items() if now > since + self._network.lost_after]
        lost = [client for client in lost if client not in self._given_up]
        self._given_up.update(lost)
        for client in lost:
            self._send(await self._call(self.star.gone, client, now))
        if lost:
            named = ", ".join(map(str, sorted(lost)[:10])) + (", …" if len(lost) > 10 else "")
            whom = f"client {named}" if len(lost) == 1 else f"{len(lost)} clients ({named})"
            away = f"no connection to {whom} for {self._network.lost_after:g} s"
            self._sink.emit(Noted(f"{away}: the round does not wait"))

    def _absent(self, client: int) -> bool:
        """Whether a client is not waited for: it was never there, is not expected back, or does not read.

        What is queued for a client is bounded by that: it is sent no model before it has read the last one.
        """
        peer = self.server.peers.get(client_name(client))
        return client in self._given_up or peer is None or peer.pending > self._opening + _BEHIND

    async def _gather(self, should_stop: Callable[[], bool]) -> None:
        """Wait for as many clients as a round has, or until the window is over: then enough must be there.

        Who was waited for in vain, or is away for longer than a reconnection takes, is not waited for until it is back.
        """
        if self.star.finished:
            return
        self.star.check_left()
        least = self._terms.least
        deadline = self._clock() + self._terms.window
        said = -1
        while True:
            if await self._rested(should_stop):
                deadline, said = self._clock() + self._terms.window, -1
            now = self._clock()
            await self._give_up_expired()
            await self._give_up_lost()
            there, late = len(self._there()), now >= deadline
            self._check_state_known(late)
            away = len(self._given_up.union(self.star.excluded))
            wanted = max(least, min(self._terms.sampled, self._terms.clients - away))
            if there >= wanted or (there >= least and late):
                if late:
                    self._given_up.update(set(range(self._terms.clients)).difference(self._there()))
                return
            if late:
                raise PeerAway(
                    f"{there} clients are there, a round needs {least}, and start_fl_job_time_window is over"
                    + (f"; client {min(self._ahead)} says that it is in another run" if self._ahead else "")
                )
            if should_stop():
                raise KeyboardInterrupt
            if said < 0 or (there != said and self._clock() - self._said_at > 2):
                self._sink.emit(Noted(f"waiting for clients: {there} of {wanted} are there"))
                said, self._said_at = there, self._clock()
            self._changed.clear()
            await _within(self._changed.wait(), 4 * _TICK)

    async def _rested(self, should_stop: Callable[[], bool]) -> bool:
        """Wait while an operator pauses the run, and have the clients wait; whether there was a pause."""
        if not self._pausing.rests():
            return False
        began = self._clock()
        self._tell_pause(True)
        self._sink.emit(Paused("no round begins until `tacit unpause`"))
        while self._pausing.rests():
            if should_stop():
                raise KeyboardInterrupt
            await self._give_up_expired()
            await asyncio.sleep(_TICK)
        self._tell_pause(False)
        self._sink.emit(Unpaused(self._clock() - began))
        return True

    def _tell_pause(self, begins: bool) -> None:
        for name, peer in self.server.peers.items():
            if "pause" in peer.knows:
                self.server.send(name, encode(Pause(begins)))

    def _check_state_known(self, late: bool) -> None:
        """Refuse to begin where so many clients are in the middle of a run that no round could be had without them."""
        there = len(self._there())
        if self._begun or len(self._ahead) < 2 or len(self._ahead) <= there:
            return  # the word of a few is no reason to end
        if len(self._ahead) + there < self._terms.least and not late:
            return  # others may say otherwise
        if self._terms.clients - len(self._ahead) < self._terms.least:
            raise NotResumed(
                f"{len(self._ahead)} clients have answered rounds of which this coordinator has no state: it was "
                "started anew although there is an old run. Resume that run (--resume RUN, or --state DIR), or "
                "begin another one with all clients started anew"
            )

    async def _farewell(self, parting: Parting, served: bool, should_stop: Callable[[], bool]) -> None:
        """Tell all clients that it is over, and those that come back for it in time.

        A coordinator that is started again after the end stays until no client has come for `lost_after` seconds. No
        client can make it stay for long.
        """
        self._over = encode(parting)
        for name in self.server.peers:
            self.server.send(name, self._over)
        started = self._joined_at = self._clock()
        back_soon, lost_after = parting.status == "stopped", self._network.lost_after

        def unheard() -> bool:
            connected = any(p.pending for name, p in self.server.peers.items() if self.server.connected(name))
            return connected and self._clock() < started + (_BACK_SOON if back_soon else _FAREWELL)

        def expected() -> bool:
            since = [*self._lost.values(), *([self._joined_at] if served else [])]
            last = min(max(since, default=started - lost_after), started + _FAREWELL)
            return not back_soon and self._clock() < last + lost_after

        while unheard() or expected():
            if should_stop() and not back_soon:
                return
            await asyncio.sleep(_TICK)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def _taken(self, client: int, frame: bytes | memoryview | None) -> Frames:
        """Have the coordinator take what a client caused: a frame, or that it is gone.

        PeerError: the frame makes no sense. Whatever else goes wrong is not the client's fault: `_rounds` raises it.
        """
        try:
            if frame is None:
                return await self._call(self.star.gone, client, self._clock())
            return await self._call(self.star.receive, client, frame, self._clock())
        except Exception as error:
            if frame is not None and isinstance(error, PeerError):
                raise
            self._failed = self._failed or error
            self._changed.set()
            return []

    # --- what the server tells

    def _expected(self, name: str) -> bool:
        identity = client_identity(name)
        return identity is not None and identity < self._terms.clients

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None:
        identity, peer = numbered_client(name), self.server.peers.get(name)
        if peer is None:
            return  # it has left meanwhile
        self._given_up.discard(identity)
        self._lost.pop(identity, None)
        self._joined_at = self._clock()
        if peer.identity is not None:
            self._prove(identity, peer.identity.signing_public, certificate)
        elif not resumed:
            self._prove(identity, hello.signing_key, hello.signing_key)
        if not resumed:
            self._compare_progress(name, identity, hello.answered)
            self._told[identity] = set()
            self._tell_list([name])  # before it is shown any certificate
            # A new process: what the old one had under way is lost.
            self._send(await self._taken(identity, None))
            if self._pausing.paused and "pause" in peer.knows:
                self.server.send(name, encode(Pause(True)))
            if self._over is not None:
                self.server.send(name, self._over)
        self._changed.set()

    def _prove(self, identity: int, signing_key: bytes, proof: bytes) -> None:
        """Have others shown whose key this is. They may have refused what they were shown before, as it was expired."""
        if self._proofs.get(identity) != proof:
            self.star.meet(identity, signing_key)
            self._proofs[identity] = proof
            for told in self._told.values():
                told.discard(identity)

    def _compare_progress(self, name: str, identity: int, answered: int) -> None:
        if answered <= self.star.begun:
            self._ahead.discard(identity)
            return
        self._ahead.add(identity)
        self._given_up.add(identity)
        reason = f"it was started anew, and has no state of the {answered} rounds that this client answered"
        self.server.send(name, encode(Parting("stopped", reason)))

    async def arrived(self, name: str, frame: bytes | memoryview) -> None:
        identity = numbered_client(name)
        if (parting := parting_of(frame)) is None:
            self._send(await self._taken(identity, frame))
            if not self.star.collecting:
                self._changed.set()
            return
        self._given_up.add(identity)
        if parting.status == "stopped":
            self._lost.setdefault(identity, self._clock())  # it comes back, and may miss the end
        self.server.forget(name)
        self._send(await self._taken(identity, None))
        self._changed.set()

    async def refused(self, name: str, reason: str) -> None:
        await self._call(self.star.refuse, numbered_client(name), reason, "certificate")

    async def broke(self, name: str, reason: str) -> None:
        identity = numbered_client(name)
        self._given_up.add(identity)
        await self._call(self.star.refuse, identity, reason, "message")
        self._send(await self._taken(identity, None))
        self._changed.set()

    async def lost(self, name: str) -> None:
        peer = self.server.peers.get(name)
        if peer is None or (self._over is not None and not peer.pending):
            return  # it said that it leaves, or has heard that it is over
        self._lost[numbered_client(name)] = self._clock()
        self._changed.set()  # it may come back: its place is kept until the window is over

    def _figures(self) -> Figures:
        connected = sum(map(self.server.connected, self.server.peers))
        return Figures(connected, self._terms.least, self.star.stage, self.server.traffic)

    # --- what goes out

    def _send(self, frames: Frames) -> None:
        for client, frame in frames:
            self.server.send(client_name(client), frame)

    def _open(self, frames: Frames) -> None:
        """Begin a round: first each client is told whom it will meet."""
        if self._terms.signs:
            self._introduce([client for client, _ in frames])
        self._opening = max((len(frame) for _, frame in frames), default=self._opening)
        self._send(frames)

    def _introduce(self, clients: list[int]) -> None:
        """Tell each client whose signing keys it will meet and was not told yet."""
        for client in clients:
            told = self._told.setdefault(client, set())
            new = [other for other in clients if other in self._proofs and other not in told]
            told.update(new)
            for start in range(0, len(new), _INTRODUCED):
                some = sorted(new)[start : start + _INTRODUCED]
                message = Identities(pack_ids(some), [self._proofs[other] for other in some])
                self.server.send(client_name(client), encode(message))


async def _within(what: Any, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 may swallow a cancellation
            await what
