"""A federation in memory: real clients and a real server over a link that a test can cut, delay, repeat or forge."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tacit.crypto.signing import SigningKey
from tacit.errors import Declined, PeerError
from tacit.randomness import seeded_rng
from tacit.secagg.client import Client
from tacit.secagg.messages import Advertise, Agreed, Masked, Reveal, Shares, ToClient, ToServer
from tacit.secagg.server import Aggregate, Server, State
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings

STAGES = (Advertise, Shares, Masked, Agreed, Reveal)
MODEL = bytes(range(32))


@dataclass
class Federation:
    """`tamper` may change, drop (None) or keep each message; `vanish` maps a client to the stage it leaves at."""

    settings: Settings
    vectors: dict[int, np.ndarray]
    seed: int = 0
    models: dict[int, bytes] = field(default_factory=dict)
    to_client: Callable[[int, ToClient], ToClient | None] = lambda to, message: message
    to_server: Callable[[int, ToServer], ToServer | None] = lambda sender, message: message
    vanish_before: dict[int, type] = field(default_factory=dict)
    vanish_after: dict[int, type] = field(default_factory=dict)
    delay: Callable[[], list[float]] = lambda: [0.0]  # one arrival time per copy; none: the message is lost

    def __post_init__(self) -> None:
        ids = sorted(self.vectors)
        rng = seeded_rng(self.seed)
        self.keys = {i: SigningKey.generate(rng) for i in ids} if self.settings.mode == "active" else {}
        identities = {i: key.public for i, key in self.keys.items()} or None
        self.context = Context(self.settings, MODEL, 3)
        self.server = Server(self.context, ids, identities=identities)
        self.clients = {
            i: Client(
                Context(self.settings, self.models.get(i, MODEL), 3),
                i,
                self.vectors[i],
                key=self.keys.get(i),
                identities=identities,
                rng=rng,
            )
            for i in ids
        }
        self.gone: set[int] = set()
        self.uploaded: set[int] = set()
        self.seen: list[tuple[int, ToServer]] = []  # what the server received
        self.told: list[tuple[int, ToClient]] = []  # what the clients received
        self.client_errors: dict[int, str] = {}
        self.server_errors: dict[int, str] = {}
        self.now = 0.0
        self._queue: list[tuple[float, int, str, int, object]] = []
        self._count = 0

    def run(self) -> Server:
        """Until the server is READY or ABORTED and nothing is under way."""
        self.server.start(self.now)
        for identity, client in self.clients.items():
            self._from_client(identity, client.start(self.now))
        for _ in range(100_000):
            if self._queue:
                at, _, direction, party, message = heapq.heappop(self._queue)
                if at > self.now and self.server.state < State.READY:
                    self._to_clients(self.server.tick(at))
                self.now = max(self.now, at)
                if direction == "server":
                    self._deliver_to_server(party, message)
                else:
                    self._deliver_to_client(party, message)
            elif self.server.state < State.READY:
                self.now += self.settings.cipher_time_window / 1000
                self._to_clients(self.server.tick(self.now))
            else:
                return self.server
        raise AssertionError("the federation does not end")

    def aggregate(self, shards: int = 1) -> Aggregate:
        assert self.run().state is State.READY, self.server.reason
        return self.server.finish(shards=shards)

    def expected(self, survivors: set[int] | tuple[int, ...] | None = None) -> list[int]:
        """The sum in plain Python integers."""
        kept = [self.vectors[i].tolist() for i in sorted(self.uploaded if survivors is None else survivors)]
        return [sum(column) % 2**self.settings.modulus_bits for column in zip(*kept, strict=True)]

    def _deliver_to_server(self, sender: int, message: ToServer) -> None:
        if isinstance(message, Masked) and self.server.state is State.UPLOADING:
            self.uploaded.add(sender)
        self.seen.append((sender, message))
        try:
            self._to_clients(self.server.receive(sender, message, self.now))
        except PeerError as error:
            if isinstance(message, Masked):
                self.uploaded.discard(sender)
            self.server_errors[sender] = str(error)

    def _deliver_to_client(self, to: int, message: ToClient) -> None:
        if to in self.gone:
            return
        self.told.append((to, message))
        try:
            self._from_client(to, self.clients[to].receive(message, self.now))
        except (PeerError, Declined) as error:
            self.client_errors[to] = str(error)

    def _to_clients(self, messages: list[tuple[int, ToClient]]) -> None:
        for to, message in messages:
            changed = self.to_client(to, message)
            if changed is not None:
                self._send("client", to, changed)

    def _from_client(self, sender: int, messages: list[ToServer]) -> None:
        for message in messages:
            if sender in self.gone or self.vanish_before.get(sender) is type(message):
                self.gone.add(sender)
                return
            changed = self.to_server(sender, message)
            if changed is not None:
                self._send("server", sender, changed)
            if self.vanish_after.get(sender) is type(message):
                self.gone.add(sender)

    def _send(self, direction: str, party: int, message: object) -> None:
        for delay in self.delay():
            self._count += 1
            heapq.heappush(self._queue, (self.now + delay, self._count, direction, party, message))


def vectors_for(settings: Settings, seed: int = 1) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    # Ids with gaps: nothing may depend on their being 0 .. n-1.
    ids = sorted(rng.choice(10 * settings.clients, settings.clients, replace=False).tolist())
    top = 2**settings.modulus_bits
    return {i: rng.integers(0, top, settings.columns, dtype=settings.word_type) for i in ids}


def federation(settings: Settings, **options) -> Federation:
    return Federation(settings, vectors_for(settings), **options)
