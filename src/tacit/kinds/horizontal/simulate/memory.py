"""All parties in this process: thousands of simulated clients, with faults on demand.

A client trains when its turn comes and its update is added up at once, so that memory is that of a few models, whatever
the number of clients. Time windows pass when nobody answers any more; no wall clock decides anything. `seed` drives
sampling, splits and faults; noise and keys come from the operating system unless `insecure_noise_seed` is set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, PeerError
from tacit.events import Noted, Sink
from tacit.kinds.horizontal.client import Client, clipped_words
from tacit.kinds.horizontal.coordinator import Coordinator, Phase
from tacit.kinds.horizontal.kept_arrays import KeptArrays
from tacit.kinds.horizontal.messages import Inference, Outgoing, ToCoordinator, Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.faults import Fate, fates_of, spoil
from tacit.kinds.horizontal.simulate.pool import Trainer
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.secagg.messages import Inbox, Masked

Watch = Callable[[int, ToCoordinator], None]


class MemoryEngine:
    """A federation in one process.

    Args:
        watch: is shown every message that leaves a client, with the client's number.
        folder: of the run, for what clients keep from round to round; in memory by default.
    """

    def __init__(
        self,
        settings: Settings,
        task: Task,
        sink: Sink,
        *,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.perf_counter,
        folder: Path | None = None,
    ) -> None:
        self._settings = settings
        self._watch = watch
        self._kept = KeptArrays(folder)
        self._trainer = Trainer(settings, task, self._kept)
        self._prepared = Prepared.of(settings, task)
        self._keys = signing_keys(settings)
        self._identities = {i: key.public for i, key in self._keys.items()} or None
        self.coordinator = self._prepared.coordinator(sink, clock, identities=self._identities)
        self._restored = False
        self._said_failed = False
        self._clipped = self._uploaded = 0  # numbers of updates: those beyond pw_encrypt.clip, and all
        self._sink = sink
        self._clients: dict[int, Client] = {}
        self._should_stop: Callable[[], bool] = lambda: False
        self._now = 0.0

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        """Continue a run that was stopped."""
        self.coordinator.restore(state, model)
        self._kept.restore(self.coordinator.round)
        self._restored = True

    def run(
        self,
        store: Callable[[Coordinator], None] = lambda coordinator: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """All rounds. `store` is called before a round's first message and after its last, to keep the state;
        `should_stop` is asked before every client, and ends the run with KeyboardInterrupt."""
        self._should_stop = should_stop
        try:
            while True:
                outgoing = self.coordinator.begin(self._now)
                store(self.coordinator)
                if self.coordinator.phase is Phase.FINISHED:
                    if self._clipped:
                        self._sink.emit(Noted(clipped_words(self._clipped, self._uploaded)))
                    return
                self._round(outgoing)
                self._kept.store(self.coordinator.round)
                store(self.coordinator)
        finally:
            self._trainer.close()

    def _round(self, outgoing: Outgoing) -> None:
        number = self.coordinator.attempts - 1
        fates = dict(zip((c for c, _ in outgoing), fates_of(self._settings, number, len(outgoing)), strict=True))
        late: list[tuple[int, ToCoordinator]] = []
        while self.coordinator.phase is Phase.COLLECTING:
            if not outgoing:
                # Nobody answers any more: whatever stage is open runs out of time. A window is long in simulated time.
                self._now += 1e6
                outgoing = self.coordinator.tick(self._now)
                for sender, belated in late:
                    outgoing += self.coordinator.receive(sender, belated, self._now)
                late = []
                continue
            self._trainer.expect([c for c, m in outgoing if isinstance(m, Work | Inbox) and fates[c] != "drops"])
            answers: Outgoing = []
            for client, message in outgoing:
                for answer in self._answer(client, message, fates[client]):
                    if fates[client] == "late" and isinstance(answer, Update | Inference | Masked):
                        late.append((client, answer))
                    else:
                        answers += self.coordinator.receive(client, answer, self._now)
            outgoing = answers
        for identity in fates:
            if identity in self._clients:
                self._clients[identity].end_round()

    def _answer(self, identity: int, message: object, fate: Fate) -> list[ToCoordinator]:
        """What a client sends, faults included."""
        if fate == "drops" and isinstance(message, Inbox if self._settings.masked else Work):
            return []  # before it uploads; under masks, after it shared its secrets
        if self._should_stop():
            raise KeyboardInterrupt
        if identity not in self._clients:
            self._clients[identity] = self._client(identity)
        client = self._clients[identity]
        try:
            answers = client.receive(message, self._now)  # type: ignore[arg-type]
        except (UnusableUpdate, PeerError) as error:  # its own training or its own checks failed: it loses its place
            self.coordinator.refuse(identity, str(error), why="left")
            self.coordinator.left(identity)
            return []
        except BudgetError:
            self.coordinator.refuse(identity, "its privacy budget is spent", why="left")
            self.coordinator.left(identity)
            return []
        if any(isinstance(answer, Masked) for answer in answers):
            self._clipped += client.clipped
            self._uploaded += self.coordinator.layout.size
        sent = [bad for answer in answers for bad in spoil(self._settings, identity, answer)]
        if self._watch is not None:
            for answer in sent:
                self._watch(identity, answer)
        return sent

    def _client(self, identity: int) -> Client:
        client = self._prepared.client(
            identity,
            fit=self._trainer.fit,
            key=self._keys.get(identity),
            identities=self._identities,
            failed=self._failed,
        )
        if self._restored:
            client.restore(self.coordinator.answered([identity])[identity])
        return client

    def _failed(self, where: str, error: Exception) -> None:
        """A mistake in the task. In a simulation its author sees it, however the clients are protected."""
        if where == "fit":
            raise error
        if not self._said_failed:
            self._said_failed = True
            self._sink.emit(Noted(f"infer() of the task raised {type(error).__name__}: {error}"))


def signing_keys(settings: Settings) -> dict[int, SigningKey]:
    """Of all clients, where they sign."""
    return {identity: SigningKey.generate() for identity in range(settings.clients)} if settings.signs else {}
