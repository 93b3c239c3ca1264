"""A coordinator without colluders that wants single updates out of sums: it leaves out a client and subtracts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from tacit.crypto.signing import SigningKey
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.masked import inside_of, secure_context
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.protections.secure_aggregation import WeightedSum
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Fitted
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Abort, Agreed, Masked, Reveal, Survivors
from tacit.secagg.server import Server
from tacit.secagg.server import State as Stage


class Secrets:
    """Each client learns numbers of its own, from a number of samples of its own; others from another model, and the
    same from one that was moved by little."""

    size = 50

    def model(self) -> dict[str, np.ndarray]:
        return {"weights": np.zeros(self.size)}

    def update(self, client: int, weights: np.ndarray) -> np.ndarray:
        return np.random.default_rng([client, region(weights)]).normal(0, 1, self.size)

    def samples(self, client: int) -> int:
        return 7 + 3 * client

    def fit(self, client, model, work) -> Fitted:
        return Fitted({"weights": model["weights"] + self.update(client, model["weights"])}, self.samples(client))


class Hostile:
    """Real clients, and what is opened of them. It follows the protocol in each round: nobody can be blamed.

    Args:
        restarts: whether every client is started again after each message that it sent, from what it stored then.
    """

    def __init__(self, settings: Settings, *, restarts: bool = False) -> None:
        self.settings, self.task = settings, Secrets()
        self.layout = Layout.of(self.task.model())
        keys = {i: SigningKey.generate() for i in range(settings.clients)} if settings.mode == "active" else {}
        self._keys, self._public = keys, {i: key.public for i, key in keys.items()} or None
        self._restarts = restarts
        self.stored: dict[int, str] = {}
        self.clients = {i: self._client(i) for i in range(settings.clients)}
        self.reasons: dict[int, str] = {}  # why a client left the last round
        self.sent: list[str] = []  # messages of the last round
        self.number = 0

    def _client(self, identity: int) -> Client:
        key = self._keys.get(identity)
        client = Client(self.settings, identity, self.task.fit, self.layout, key=key, identities=self._public)
        if identity in self.stored:
            client.restore(json.loads(self.stored[identity]))
        return client

    def open(
        self,
        model: np.ndarray,
        without: Collection[int] = (),
        *,
        absent: Collection[int] = (),
        asked: Collection[int] | None = None,
    ) -> tuple[np.ndarray, float] | None:
        """The weighted sum and the samples of all clients but those whose upload is left out; None if none opens.

        Args:
            absent: who is not sent the model.
            asked: who is shown the list of survivors; all of them by default.
        """
        context = secure_context(self.settings, self.layout, model, self.number)
        server = Server(context, range(self.settings.clients), identities=self._public)
        server.start(0.0)
        outgoing: Any = [(client, Work(self.number, model)) for client in self.clients if client not in absent]
        self.number, self.reasons, self.sent, now = self.number + 1, {}, [], 0.0
        while server.state < Stage.READY:
            if not outgoing:
                now += 1e6
                outgoing = server.tick(now)
                continue
            answers: Any = []
            for client, message in outgoing:
                if asked is not None and client not in asked and isinstance(message, Survivors):
                    continue
                for answer in self._answers(client, message, now):
                    if isinstance(answer, Abort):
                        self.reasons[client] = answer.reason
                    if not (isinstance(answer, Masked) and client in without):
                        answers += server.receive(client, answer, now)
            outgoing = answers
        if self._restarts:
            self.clients = {identity: self._client(identity) for identity in self.clients}
        return self._decoded(server) if server.state is Stage.READY else None

    def _answers(self, client: int, message: Any, now: float) -> list[Any]:
        before = json.dumps(self.clients[client].state())
        answers = self.clients[client].receive(message, now)
        self.sent += [type(answer).__name__ for answer in answers]
        self.stored[client] = json.dumps(self.clients[client].state())  # as an engine does, before an answer leaves
        if any(isinstance(answer, Masked) for answer in answers):
            assert self.stored[client] != before
        return answers

    def _decoded(self, server: Server) -> tuple[np.ndarray, float]:
        sums = inside_of(self.settings, self.layout.size)
        assert isinstance(sums, WeightedSum)
        opened = server.finish()
        found = sums.encoding.decode(opened.words, len(opened.survivors))
        return found.mean * found.weight, found.weight

    def recovered(self, models: Iterator[np.ndarray]) -> dict[int, float]:
        """Ask for all clients with each model that is new, and for all but another one with a model that is known: the
        relative error of each update that two sums give, where its number of samples is right to the last one."""
        totals: dict[int, Any] = {}
        errors: dict[int, float] = {}
        victims = iter(self.clients)
        for model in models:
            near = region(model)
            if near not in totals:
                totals[near] = self.open(model)
                continue
            victim = next(victims, None)
            if victim is None:
                break
            total, part = totals[near], self.open(model, {victim})
            if total is None or part is None:
                continue
            samples, truth = total[1] - part[1], self.task.update(victim, model)
            if samples == self.task.samples(victim):
                errors[victim] = float(np.linalg.norm((total[0] - part[0]) / samples - truth) / np.linalg.norm(truth))
        return errors


def region(model: np.ndarray) -> int:
    """Models of one region are near each other."""
    return int(np.floor(model[0]))


OPENING = {Agreed.__name__, Reveal.__name__}
