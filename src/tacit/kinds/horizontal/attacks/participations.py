"""A coordinator that asks the same clients in every round: how many uploads it gets of one, and what clients forget.

The clients are real ones, and each is started again after every round from what it stored before its last message left.
The noise of the run is sized for `round.participations` uploads: one more breaks the promise.
"""

from __future__ import annotations

import json
from collections import Counter

import numpy as np

from tacit.audit.finding import Finding
from tacit.errors import BudgetError, PeerError
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.masked import secure_context
from tacit.kinds.horizontal.messages import ToClient, ToCoordinator, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Masked
from tacit.secagg.server import Server, State

_FURTHER = 3  # rounds that are asked for beyond the cap


def audit_participations(settings: Settings, layout: Layout, *, protection: str) -> Finding:
    """Ask as many clients as a round has, the same ones in each round, and count what each uploads.

    Assumes: a file with `round.participations` whose round is small, in mode semi_honest: no client signs.
    """
    most = settings.round.participations
    if most is None or settings.signs:
        raise ValueError("the file has no round.participations, or clients sign: nothing is asked")
    asking = _Asking(settings, layout)
    rounds = min(settings.answers, most + _FURTHER)
    for number in range(rounds):
        asking.ask(number)
    found = sorted(set(asking.uploads.values()))
    broken = [
        f"a client uploads {count} times, and the noise is sized for {settings.most_sums}"
        for count in found
        if count > most
    ]
    return Finding(
        attack="ask the same clients in every round",
        adversary="server, which may cheat",
        sees=f"what {settings.sampled} clients upload in {rounds} rounds, each started again after every round",
        protection=protection,
        not_tested=("clients whose stored state is put back by hand",),
        broken=tuple(broken),
        watched=sum(asking.uploads.values()),
    )


class _Asking:
    """The coordinator, and what the clients have stored."""

    def __init__(self, settings: Settings, layout: Layout) -> None:
        self._settings, self._layout = settings, layout
        self._model = np.zeros(layout.size, dtype=layout.dtype)
        self._prepared = Prepared.of(settings, _Nothing(layout.unflatten(self._model)))
        self._stored: dict[int, str] = {}
        self.uploads: Counter[int] = Counter()

    def ask(self, number: int) -> None:
        """One round, as far as it gets."""
        clients = {identity: self._client(identity) for identity in range(self._settings.sampled)}
        server = Server(secure_context(self._settings, self._layout, self._model, number), clients.keys())
        server.start(0.0)
        outgoing: list[tuple[int, ToClient]] = [(client, Work(number, self._model)) for client in clients]
        now = 0.0
        while server.state < State.READY:
            if not outgoing:
                now += 1e6
                outgoing = list(server.tick(now))
                continue
            answers: list[tuple[int, ToClient]] = []
            for client, message in outgoing:
                for answer in self._answers(client, clients[client], message, now):
                    answers += server.receive(client, answer, now)  # type: ignore[arg-type]
            outgoing = answers

    def _client(self, identity: int) -> Client:
        client = self._prepared.client(identity, random=lambda number: None)
        if identity in self._stored:
            client.restore(json.loads(self._stored[identity]))
        return client

    def _answers(self, identity: int, client: Client, message: ToClient, now: float) -> list[ToCoordinator]:
        try:
            answers = client.receive(message, now)
        except (PeerError, BudgetError):
            return []
        self._stored[identity] = json.dumps(client.state())  # as a client does, before an answer leaves
        self.uploads[identity] += any(isinstance(answer, Masked) for answer in answers)
        return answers


class _Nothing:
    """A task whose clients learn nothing."""

    def __init__(self, model: Arrays) -> None:
        self._model = model

    def model(self) -> Arrays:
        return self._model

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        return Fitted({name: np.array(array) for name, array in model.items()}, 1)
