"""The coordinator over Flower's grid: who is there, what goes out, what came back.

A node says which client it is, and proves it where there are keys, before it is sent a model. Nobody is waited for
beyond the windows of the file. A node that is gone, or whose app failed, has left the round.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tacit.crypto.signing import verify
from tacit.errors import PeerError
from tacit.events import Noted, Sink
from tacit.flower.node import INTRODUCE, STAGES, Acquaintances, Introduction, introduced
from tacit.flower.refused import refuse_record_privacy
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.frames import FramedCoordinator, kind_of, to_frame
from tacit.kinds.horizontal.messages import ToClient, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.net.identity import Credentials
from tacit.net.star import Frames, client_name
from tacit.secagg.messages import Abort, pack_ids
from tacit.wire import decode, encode

_STAGE_OF = {kind: stage for stage, kind in STAGES.items()}
_PAUSE = 0.5  # seconds between two looks for replies
_NONCE = 32


class Post(Protocol):
    """What is needed of Flower: see `apps.GridPost`."""

    def nodes(self) -> Iterable[int]: ...

    def send(self, node: int, stage: str, group: str, parts: dict[str, bytes]) -> str | None:
        """Send; the message's name, or None where the node cannot be reached."""
        ...

    def collect(self, waiting: Iterable[str]) -> Iterable[tuple[str, list[bytes] | None]]:
        """Replies that came in, by the name of what they answer; None where the app failed or the node is gone."""
        ...


class FleetEngine:
    """A coordinator whose clients are nodes of a Flower fleet; see `MemoryEngine`.

    Args:
        credentials: of the coordinator, to judge clients' certificates by; None where clients have none.
    """

    def __init__(
        self,
        settings: Settings,
        task: Task,
        sink: Sink,
        post: Post,
        credentials: Credentials | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        refuse_record_privacy(settings)
        if settings.signs and credentials is None:
            raise ValueError(
                "mode is active, so that clients sign the keys of each round, and the coordinator has no authority to "
                "judge them by: name its --local file in the run's configuration (local), or take mode: semi_honest"
            )
        self._sink, self._post = sink, post
        self._credentials, self._clock, self._sleep = credentials, clock, sleep
        self._star = FramedCoordinator(Prepared.of(settings, task), sink, time.perf_counter, leaving="")
        self._terms = self._star.terms
        self.coordinator = self._star.coordinator
        self._node_of: dict[int, int] = {}  # by client
        self._client_of: dict[int, int] = {}  # by node
        self._certificates: dict[int, bytes] = {}
        self._asked: dict[str, tuple[int, bytes]] = {}  # introductions that are awaited: node, nonce
        self._known: set[int] = set()  # nodes that were asked who they are
        self._waiting: dict[str, int] = {}  # answers that are awaited: client

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        self.coordinator.restore(state, model)

    def run(
        self,
        store: Callable[[Coordinator], None] = lambda coordinator: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """All rounds, as the engine in memory does them."""
        while True:
            self._gather(should_stop)
            frames = self._star.begin(self._clock(), sorted(self._node_of))
            store(self.coordinator)
            if self._star.finished:
                return
            self._waiting = {}
            self._send(frames)
            while self._star.collecting:
                if should_stop():
                    raise KeyboardInterrupt
                self._collect()
                self._send(self._star.tick(self._clock()))
                if self._star.collecting:
                    self._sleep(_PAUSE)
            store(self.coordinator)

    # --- who is there

    def _gather(self, should_stop: Callable[[], bool]) -> None:
        """Wait for as many clients as a round has, or until the window is over: then enough must be there."""
        if self._star.finished:
            return
        self._star.check_left()
        left_out = self._star.excluded
        wanted = min(self._terms.sampled, self._terms.clients - len(left_out))
        deadline = self._clock() + self._terms.window
        said = -1
        while True:
            self._meet()
            there, late = len(self._node_of.keys() - left_out), self._clock() >= deadline
            if there >= wanted or (late and there >= self._terms.least):
                return
            if late:
                raise PeerError(
                    f"{there} clients are there, a round needs {self._terms.least}, and start_fl_job_time_window is "
                    "over: start their SuperNodes, then run again"
                )
            if should_stop():
                raise KeyboardInterrupt
            if there != said:
                self._sink.emit(Noted(f"waiting for clients: {there} of {wanted} are there"))
                said = there
            self._sleep(_PAUSE)

    def _meet(self) -> None:
        """Ask new nodes who they are, forget those that are gone, and hear who answered."""
        there = set(self._post.nodes())
        for node in set(self._client_of) - there:
            client = self._client_of.pop(node)
            del self._node_of[client]
            self._known.discard(node)
        for node in there - self._known:
            nonce = secrets.token_bytes(_NONCE)
            name = self._post.send(node, "query.introduce", "introduction", {"nonce": nonce})
            if name is not None:
                self._known.add(node)
                self._asked[name] = (node, nonce)
        for name, frames in list(self._post.collect(self._asked)):
            node, nonce = self._asked.pop(name)
            try:
                if frames is None or len(frames) != 1:
                    raise PeerError("its app failed: see the SuperNode's log")
                self._introduced(node, nonce, decode(frames[0], Introduction, 10_000))
            except PeerError as error:
                self._sink.emit(Noted(f"node {node} takes no part: {error}"))

    def _introduced(self, node: int, nonce: bytes, who: Introduction) -> None:
        """Guarantee: where there are keys, the node holds the signing key of the client that it says it is."""
        if who.client >= self._terms.clients:
            raise PeerError(f"it says that it is client {who.client} of {self._terms.clients}")
        if who.client in self._node_of:
            raise PeerError(f"client {who.client} is there already, on node {self._node_of[who.client]}")
        if self._credentials is not None:
            identity = self._credentials.identify(who.certificate)
            if identity.name != client_name(who.client):
                raise PeerError(f"it says that it is client {who.client}, and has the certificate of {identity.name}")
            verify(identity.signing_public, who.signature, INTRODUCE, introduced(nonce, node, who.client))
            self._star.meet(who.client, identity.signing_public)
            self._certificates[who.client] = who.certificate
        self._node_of[who.client], self._client_of[node] = node, who.client

    # --- what goes out and comes back

    def _send(self, frames: Frames) -> None:
        met = self._acquaintances([client for client, _ in frames])
        made: dict[int, tuple[type[ToClient], bytes]] = {}  # one frame goes to many
        left: list[int] = []
        for client, frame in frames:
            if id(frame) not in made:
                whole = bytes(frame)
                made[id(frame)] = (kind_of(whole), whole)
            if not self._sent(client, *made[id(frame)], met):
                left.append(client)
        for client in left:
            self._send(self._star.gone(client, self._clock()))

    def _sent(self, client: int, kind: type[ToClient], frame: bytes, met: bytes) -> bool:
        node = self._node_of.get(client)
        if node is None:
            return False
        parts = {"frame": frame, "known": met if kind is Work else b""}
        name = self._post.send(node, _STAGE_OF[kind], str(self.coordinator.round + 1), parts)
        if name is not None and kind is not Abort:
            self._waiting[name] = client
        return name is not None

    def _acquaintances(self, clients: list[int]) -> bytes:
        if not self._terms.signs:
            return b""
        there = sorted(client for client in set(clients) if client in self._certificates)
        return encode(Acquaintances(pack_ids(there), [self._certificates[client] for client in there]))

    def _collect(self) -> None:
        for name, frames in list(self._post.collect(self._waiting)):
            client = self._waiting.pop(name)
            if frames is None:
                self._star.refuse(client, "its app failed, or its node is gone", "left")
                self._send(self._star.gone(client, self._clock()))
                continue
            for frame in frames:
                self._send(self._taken(client, frame))

    def _taken(self, client: int, frame: bytes) -> Frames:
        try:
            return self._star.receive(client, frame, self._clock())
        except PeerError as error:  # as if it had left, and said why
            return self._star.receive(client, to_frame(Abort(str(error)[:300])), self._clock())
