"""A worker on Ray: many simulated clients, and the coordinator's checks on what they send.

Nothing of a client outlives a round: it is made anew from what the coordinator counted, so that a worker that dies
takes nothing with it but the round's keys.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, PeerError
from tacit.events import Cause
from tacit.kinds.horizontal.alone import alone_of
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.frames import to_client, to_frame
from tacit.kinds.horizontal.masked import secure_context
from tacit.kinds.horizontal.messages import HEAD_BYTES, Inference, ToClient, ToCoordinator, Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.contract import Loss, UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.faults import spoil
from tacit.kinds.horizontal.sums import Group, Part, Together
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.messages import Masked
from tacit.secagg.session import Context
from tacit.secagg.unmask import Words, masked_words

Kind = TypeVar("Kind", Update, Masked)
Before = Mapping[int, dict[str, Any]]  # what each client has answered before: see `Client.restore`


@dataclass(frozen=True, slots=True)
class Head:
    """A round, without its model."""

    round: int
    clip: float | None


@dataclass(slots=True)
class Report:
    """What came of some clients: their small messages as frames, who lost its place and why, and who is in the sum."""

    frames: list[tuple[int, list[bytes]]] = field(default_factory=list)
    refused: list[tuple[int, str, Cause]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    senders: tuple[int, ...] = ()
    session: bytes = b""
    losses: tuple[tuple[float, int], ...] = ()
    largest: int = 0
    clipped: int = 0  # numbers of updates that were beyond pw_encrypt.clip
    unit: float = 1.0
    weight: float = 0.0

    def together(self, number: int, total: Flat | Words, *, masked: bool) -> Together:
        """The sum as the coordinator takes it."""
        whole = total if masked else Part(total, self.unit, self.weight, len(self.senders))
        return Together(number, self.senders, whole, self.session, self.losses, self.largest)


class Worker:
    """One process of the cluster.

    Args:
        path: where the driver finds modules.
        keys: the signing keys of all clients, where they sign.
    """

    def __init__(self, settings: Settings, path: Sequence[str], keys: Mapping[int, SigningKey]) -> None:
        sys.path += [entry for entry in path if entry not in sys.path]
        self._settings = settings
        task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
        self._prepared = Prepared.of(settings, task)
        self._layout = self._prepared.layout
        self._keys = keys
        self._identities = {i: key.public for i, key in keys.items()} or None
        self._clients: dict[int, Client] = {}
        self._report = Report()

    def pid(self) -> int:
        return os.getpid()

    # --- in the clear, or with noise

    def train(self, head: Head, before: Before, model: Flat) -> tuple[Report, Flat | None]:
        """Train these clients, one after the other, and add up what they send."""
        self._begin(before)
        mechanism = alone_of(self._settings, len(model))
        group, work = Group(model, mechanism.largest_norm(head.clip)), Work(head.round, model, head.clip)
        senders: dict[int, None] = {}
        losses: list[Loss] = []

        def take(identity: int, update: Update) -> None:
            if identity in senders:
                raise PeerError("a second update in one round")
            loss = mechanism.add(group, update)
            if loss is not None:
                losses.append(loss)
            senders[identity] = None

        for identity in before:
            for answer in self._answers(identity, work):
                self._kept(identity, answer, Update, take)
        part, report = group.part, self._report
        report.senders, report.losses = tuple(senders), tuple(losses)
        report.unit, report.weight = part.unit, part.weight
        report.largest = model.nbytes + HEAD_BYTES
        return report, part.vector if senders else None

    # --- under masks

    def start(self, head: Head, before: Before, model: Flat) -> Report:
        """Make these clients, which take part in a secure aggregation from here on."""
        self._begin(before)
        self._context: Context = secure_context(self._settings, self._layout, model, head.round)
        work = Work(head.round, model, head.clip)
        return self._collect((identity, work) for identity in before)

    def answer(self, messages: Sequence[tuple[int, bytes]]) -> Report:
        """Hand messages to clients; their answers."""
        self._report = Report()
        return self._collect((identity, self._decoded(frame)) for identity, frame in messages)

    def upload(self, messages: Sequence[tuple[int, bytes]]) -> tuple[Report, Words | None]:
        """Hand the messages over to which clients upload, and add up what they send."""
        self._report = Report()
        senders: dict[int, None] = {}
        total: Words | None = None
        sessions: set[bytes] = set()

        def take(identity: int, message: Masked) -> None:
            nonlocal total
            if identity in senders:
                return  # the same once more
            words = masked_words(message, self._context.settings)
            if sessions and message.session not in sessions:
                raise PeerError("a message of another session: another round, cohort, model or configuration")
            if total is None:
                total = words.copy()
            else:
                total += words
            sessions.add(message.session)
            senders[identity] = None

        for identity, frame in messages:
            for answer in self._answers(identity, self._decoded(frame)):
                self._kept(identity, answer, Masked, take)
        report = self._report
        report.senders, report.session = tuple(senders), next(iter(sessions), b"")
        report.largest = self._context.settings.vector_bytes + HEAD_BYTES
        report.clipped = sum(self._clients[identity].clipped for identity in senders)
        return report, total

    # --- clients

    def _begin(self, before: Before) -> None:
        self._report = Report()
        self._clients = {identity: self._client(identity, state) for identity, state in before.items()}

    def _client(self, identity: int, state: dict[str, Any]) -> Client:
        client = self._prepared.client(
            identity, key=self._keys.get(identity), identities=self._identities, failed=self._failed
        )
        client.restore(state)
        return client

    def _failed(self, where: str, error: Exception) -> None:
        """A mistake in the task: its author sees it, as in memory."""
        if where == "fit":
            raise error
        self._report.notes.append(f"infer() of the task raised {type(error).__name__}: {error}")

    def _collect(self, messages: Iterable[tuple[int, ToClient]]) -> Report:
        for identity, message in messages:
            frames = [to_frame(answer) for answer in self._answers(identity, message)]
            if frames:
                self._report.frames.append((identity, frames))
        return self._report

    def _decoded(self, frame: bytes) -> ToClient:
        return to_client(frame, self._layout, len(frame))

    def _answers(self, identity: int, message: ToClient) -> list[ToCoordinator]:
        """What a client sends, faults included; nothing where it leaves."""
        try:
            answers = self._clients[identity].receive(message, 0.0)
        except (UnusableUpdate, PeerError) as error:
            self._report.refused.append((identity, str(error), "left"))
            return []
        except BudgetError:
            self._report.refused.append((identity, "its privacy budget is spent", "left"))
            return []
        return [bad for answer in answers for bad in spoil(self._settings, identity, answer)]

    def _kept(self, identity: int, answer: ToCoordinator, kind: type[Kind], take: Callable[[int, Kind], None]) -> None:
        """Add up what can be added; pass on what is small."""
        if isinstance(answer, kind):
            try:
                take(identity, answer)
            except PeerError as error:
                self._report.refused.append((identity, str(error), "message"))
        elif isinstance(answer, Inference):
            self._report.frames.append((identity, [to_frame(answer)]))
