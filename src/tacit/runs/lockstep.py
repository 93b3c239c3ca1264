"""A few parties in lock step: all of them in this process, or one of them over a network.

A kind says how a party is made (`party`): a function of its channels that trains to the end, keeps its own part in its
`Store` and tells its `Sink`. Of parties in one process, the events of `settings.lead` are shown; over a network all
others connect to `settings.hub`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from tacit.channel import Channel, run_parties
from tacit.engines.grpc.handshake import shared
from tacit.engines.grpc.hub import Hub
from tacit.engines.grpc.spoke import Spoke
from tacit.events import Event, Kept, Noted, Sink, Tee
from tacit.runs import kinds
from tacit.runs.directory import RunDirectory, Store
from tacit.runs.join import Site, manner
from tacit.runs.local import Local
from tacit.runs.outcome import Outcome, Status, concluded, history, write_page


@dataclass(frozen=True, slots=True)
class Part:
    """What a party has at the end."""

    model: Mapping[str, NDArray[Any]]
    ledger: Mapping[str, Any]  # as in ledger.json


@dataclass(frozen=True, slots=True)
class Place:
    """What surrounds a party: where it keeps its part, whom it tells, and what is its own."""

    store: Store | None
    sink: Sink
    local: Local = field(default_factory=Local)
    folder: Path = Path()  # that the local file's paths are relative to
    apart: bool = False  # over a network: what it draws is a secret of its own, and not the file's


class Kind(Protocol):
    """What a kind of parties in lock step adds to `kinds.Kind`."""

    told: tuple[type[Exception], ...]  # errors whose sentence the others may hear, over a network

    def party(self, settings: Any, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
        """The function of one party. Raises ValueError where its data or its settings do not fit."""


class _Quiet:
    """The sink of a party that is not the one shown: only what its user should know comes through."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def emit(self, event: Event) -> None:
        if isinstance(event, Noted):
            self._sink.emit(event)


def execute(settings: Any, *, sink: Sink, directory: RunDirectory | None) -> Outcome:
    """Run every party of a file in this process."""
    kept = Kept()
    both = Tee(kept, sink)
    kind = cast(Kind, kinds.of(settings))
    for note in settings.notes():
        both.emit(Noted(note))
    parties = {}
    for name in settings.parties:
        store = directory.part(name) if directory is not None else None
        place = Place(store, both if name == settings.lead else _Quiet(both))
        parties[name] = kind.party(settings, name, place)
    with concluded(both, kept) as ending:
        results = run_parties(parties)
    parts = results if ending.status == "done" else {}
    ledgers = {name: part.ledger for name, part in parts.items()}
    if directory is not None:
        if not parts:  # stopped, or at the budget: what was spent is spent
            ledgers = {name: directory.part(name).ledger() or {"ledgers": []} for name in settings.parties}
        directory.save_ledger(_together(ledgers))
        write_page(directory, both)
    return Outcome(
        ending.status,
        ending.text,
        dict(parts[settings.lead].model) if parts else {},
        _together(ledgers),
        history(kept, directory),
        directory.path if directory else None,
    )


def _together(ledgers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The ledgers of all parties, each with the name of its own."""
    found = []
    for name, own in ledgers.items():
        for ledger in own["ledgers"]:
            found.append({**ledger, "covers": [f"{what} of {name}" for what in ledger["covers"]]})
    return {"version": 1, "ledgers": found}


def join_party(settings: Any, name: str, site: Site, sink: Sink, directory: RunDirectory) -> tuple[Status, str]:
    """Be one party of a file over a network, to the end: how it ended, and why."""
    kept = Kept()
    both = Tee(kept, sink)
    kind = cast(Kind, kinds.of(settings))
    for note in settings.notes():
        both.emit(Noted(note))
    party = kind.party(settings, name, Place(Store(directory.path), both, site.local, site.folder, True))
    with (
        concluded(both, kept) as ending,
        meeting_place(settings, name, site, both) as ends,
        telling(ends, kind.told),
    ):
        party(ends.meet())
    write_page(directory, both)
    return ending.status, ending.text


@contextmanager
def telling(ends: Hub | Spoke, told: tuple[type[Exception], ...]) -> Iterator[None]:
    """Have all others hear why this party cannot go on. Of other errors they hear no more than the type."""
    try:
        yield
    except told as error:
        ends.fail(str(error))
        raise


def meeting_place(settings: Any, name: str, site: Site, sink: Sink) -> Hub | Spoke:
    """Where a party meets the others: it listens, or connects to who does."""
    others = [party for party in settings.parties if party != name]
    common = shared(common_settings(settings))
    if name == settings.hub:
        sink.emit(Noted(f"listening on {site.bind} {manner(site)}"))
        return Hub(
            name, others, site.bind, credentials=site.credentials, shared=common, sink=sink, network=site.network
        )
    sink.emit(Noted(f"connecting to {site.address} {manner(site)}"))
    rest = [party for party in others if party != settings.hub]
    return Spoke(name, settings.hub, rest, site.address, credentials=site.credentials, shared=common, sink=sink)


def common_settings(settings: Any) -> dict[str, Any]:
    """What all parties must agree on: not where anything lies, and not how many processes one takes."""
    data: dict[str, Any] = settings.model_dump(mode="json", exclude={"data", "task_options", "checks", "network"})
    data["parties"] = {name: {"role": party["role"]} for name, party in data["parties"].items()}
    if "paillier" in data:
        del data["paillier"]["workers"]
    return data
