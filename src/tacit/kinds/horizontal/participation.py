"""What a client's own folder says: its rounds, what it sent, what that cost it, and what it refused.

A folder is of one client, or of several clients of one site that joined as one process.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tacit.events import Answered, AnswerRefused, Noted, RunFinished, RunStarted
from tacit.kinds.horizontal.settings import Settings
from tacit.store.files import Damaged
from tacit.store.log_lines import UPLOADS
from tacit.store.party_folder import Store
from tacit.store.reading import Account, client_ledgers
from tacit.store.record import Record


@dataclass(slots=True)
class OwnRound:
    """A client's part in a round that was begun, finished or not."""

    round: int
    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    epsilons: dict[str, float] = field(default_factory=dict)  # after its upload

    @property
    def uploaded(self) -> bool:
        return bool(self.messages.keys() & UPLOADS)


@dataclass(frozen=True, slots=True)
class Participant:
    """One client."""

    name: str
    rounds: tuple[OwnRound, ...]  # rising
    refusals: tuple[AnswerRefused, ...]
    counters: dict[str, int]
    ledgers: tuple[Account, ...]

    @property
    def uploads(self) -> int:
        return sum(each.uploaded for each in self.rounds)

    @property
    def messages(self) -> Counter[str]:
        return sum((each.messages for each in self.rounds), Counter())

    @property
    def bytes(self) -> Counter[str]:
        return sum((each.bytes for each in self.rounds), Counter())

    @property
    def epsilon(self) -> float:
        """The largest of its ledgers."""
        return max((each.epsilon for each in self.ledgers), default=0.0)


@dataclass(frozen=True, slots=True)
class Participation:
    """The run of a site's clients as their folder tells it."""

    path: Path
    settings: Settings
    started: RunStarted | None
    clients: tuple[Participant, ...]
    notes: tuple[str, ...]
    starts: int
    finished: RunFinished | None  # None while it runs, and where it was cut off
    environment: dict[str, str]
    model: str  # what is kept of the model, in words

    @property
    def status(self) -> str:
        return "running, or cut off" if self.finished is None else self.finished.status

    @property
    def most(self) -> Participant:
        """The client that paid most."""
        return max(self.clients, key=lambda client: (client.epsilon, client.uploads))


def is_of_clients(party: str | None) -> bool:
    """Whether a federation's folder is that of clients."""
    return party is not None and party.startswith("client-")


def participation(record: Record[Settings]) -> Participation:
    """Put together what the events and the stored counters say."""
    path, settings, party = record.path, record.settings, record.party or ""
    rounds: dict[int, dict[int, OwnRound]] = {}
    refusals: dict[int, list[AnswerRefused]] = {}
    notes: dict[str, None] = {}
    started, finished, starts = None, None, 0
    for event in record.events:
        match event:
            case RunStarted():
                started, finished, starts = event, None, starts + 1
            case Noted():
                notes[event.text] = None
            case Answered():
                own = rounds.setdefault(event.client, {})
                own.setdefault(event.round, OwnRound(event.round))
                own[event.round].messages.update(event.sent.keys())
                own[event.round].bytes.update(event.sent)
                own[event.round].epsilons |= event.epsilons
            case AnswerRefused():
                refusals.setdefault(event.client, []).append(event)
            case RunFinished():
                finished = event
    clients = []
    for identity in _identities(path, party, settings):
        counters, ledgers = client_ledgers(path / f"client-{identity}.json")
        own = rounds.get(identity, {})
        clients.append(
            Participant(
                f"client-{identity}",
                tuple(own[number] for number in sorted(own)),
                tuple(refusals.get(identity, ())),
                counters,
                ledgers,
            )
        )
    return Participation(
        path,
        settings,
        started,
        tuple(clients),
        tuple(notes),
        starts,
        finished,
        record.environment,
        _model(path, settings),
    )


def _identities(path: Path, party: str, settings: Settings) -> range:
    found = re.fullmatch(r"client-(\d{1,9})(?: to (\d{1,9}))?", party)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not first <= last < settings.clients:
        raise ValueError(f"{path / 'party'}: {party!r} is no client of a file with {settings.clients}")
    return range(first, last + 1)


def _model(path: Path, settings: Settings) -> str:
    try:
        number = Store(path).model_round()
    except Damaged as error:
        return f"{error}."
    if number is not None:
        rounds = {0: "before the first round", 1: "after 1 round"}.get(number, f"after {number} rounds")
        return f"model.safetensors is the last model that was sent here: the one {rounds}."
    if settings.share_model:
        return "No model was kept yet."
    return "No model is kept here: the file says share_model: false."
