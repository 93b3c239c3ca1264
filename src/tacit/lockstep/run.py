"""A few parties in lock step: all of them in this process, or one of them over a network.

A kind gives a `Lockstep`, which says how a party is made: a function of its channels that trains to the end, keeps its
own part in its `Store` and tells its `Sink`. Of parties in one process, the events of `settings.lead` are
shown; over a network all others connect to `settings.hub`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from tacit.channel import LIMIT, Channel, Interrupted, run_parties
from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.errors import PeerAway
from tacit.events import Bars, Event, Noted, Nowhere, Sink, Tabled, Tree
from tacit.kind import Here, Paid, Result, Seat, ended_early
from tacit.lockstep.exchange import telling
from tacit.lockstep.parties import Parties
from tacit.lockstep.resumption import conclude, confirm
from tacit.net.ends import FAREWELL, Over
from tacit.net.handshake import LEAST_RELEASE, shared
from tacit.net.hub import Hub
from tacit.net.pins import Pins
from tacit.net.site import Site, manner
from tacit.net.spoke import Spoke
from tacit.store.directory import read_model
from tacit.store.party_folder import Store, party_of
from tacit.store.scores import Scores
from tacit.wire import Message

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0  # seconds before parties that were interrupted meet again
_LINGER = 3600.0  # seconds that a party which has finished waits at most for others that may need it
_STEADY = 60.0  # seconds of a conversation after which an interruption counts as the first


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
    part: Path | None = None  # of a prediction: the folder in which this party's part of the model lies
    paid: Paid = lambda ledgers: None  # as in `kind.Here`


Predictor = Callable[[Mapping[str, Channel]], Scores | None]


P = TypeVar("P", bound=Parties)


@dataclass(frozen=True, slots=True)
class Lockstep(Generic[P]):
    """What a kind of parties in lock step is made of; `verbs` makes the rest of it."""

    party: Callable[[P, str, Place], Callable[[Mapping[str, Channel]], Part]]
    """The function of one party. Raises ValueError if its data or its settings do not fit."""
    predictor: Callable[[P, str, Mapping[str, Any], Path | None, Place], Predictor]
    """One party of a prediction. Raises ValueError if its rows or its part do not fit, or rows are missing."""
    complete: Callable[[P, Mapping[str, Any]], bool]
    """Whether a party with this state has trained to the end; others may still need it."""
    over: Callable[[P, Mapping[str, Any]], str]  # why there is nothing left to do, once all are done
    free: Callable[[P], frozenset[str]]  # keys that a resumed run may change
    caught_up: Callable[[P, dict[str, Any], dict[str, Any]], dict[str, Any]] = lambda settings, state, ledger: state
    """As in `kind.Resume`."""
    told: tuple[type[Exception], ...] = ()  # errors whose sentence the others may hear, over a network
    private_keys: frozenset[str] = frozenset()  # that each party sets as it likes, as its data and its network
    least_release: str | None = None  # as in `handshake`: whose messages it has, if a neighbour has others


class _Quiet:
    """The sink of a party that is not the one shown: only what its user should know comes through, and its results once
    all are done, so that they do not stand among another's."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._results: list[Event] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, Noted):
            self._sink.emit(event)
        elif isinstance(event, Bars | Tabled | Tree):
            self._results.append(event)

    def tell_results(self) -> None:
        for event in self._results:
            self._sink.emit(event)


def execute(kind: Lockstep[P], settings: P, here: Here) -> Callable[[], Result]:
    """Every party of a file in this process."""
    for note in settings.notes():
        here.sink.emit(Noted(note))
    parties = {}
    quiet = {name: _Quiet(here.sink) for name in settings.parties if name != settings.lead}
    for name in settings.parties:
        store = here.store.part(name) if here.store is not None else None
        parties[name] = kind.party(settings, name, Place(store, quiet.get(name, here.sink)))

    def run() -> Result:
        results: Mapping[str, Part] = {}
        with ended_early() as ending:
            results = run_parties(parties)
            for sink in quiet.values():
                sink.tell_results()
            if here.store is not None:
                for name in sorted(settings.parties, key=lambda name: name == settings.lead):  # it says it for all
                    confirm(here.store.part(name))
        parts = results if ending.status == "done" else {}
        ledgers = {name: part.ledger for name, part in parts.items()}
        if here.store is not None:
            if not parts:  # stopped, or at the budget: what was spent is spent
                ledgers = {name: here.store.part(name).ledger() or {"ledgers": []} for name in settings.parties}
            here.store.save_ledger(_together(ledgers))
        return Result(dict(parts[settings.lead].model) if parts else {}, _together(ledgers), ending.status, ending.text)

    return run


def _together(ledgers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The ledgers of all parties, each with the name of its own."""
    found = []
    for name, own in ledgers.items():
        for ledger in own["ledgers"]:
            found.append({**ledger, "covers": [f"{what} of {name}" for what in ledger["covers"]]})
    return {"version": 1, "ledgers": found}


def take_part(kind: Lockstep[P], settings: P, seat: Seat, site: Site, here: Here) -> Callable[[], Result]:
    """Be one party of a file over a network, to the end.

    If another party is stopped, killed or started again, this one waits for it, and all resume together from what they
    have stored. Only an error that no restart can mend ends the run.
    """
    if here.store is None:
        raise ValueError("a party over a network keeps its part: give it a store")
    for note in settings.notes():
        here.sink.emit(Noted(note))
    party = _Party(kind, settings, seat.name, site, here.sink, here.store, here.paid)

    def run() -> Result:
        with (
            ended_early() as ending,
            meeting_place(kind, settings, seat.name, site, here.sink, party.pins) as ends,
            site.vitals.watched(ends.figures, ends.loop),
            telling(ends.fail, kind.told),
        ):
            party.live(ends, here.should_stop)
        return Result({}, {}, ending.status, ending.text)

    return run


def predict_here(kind: Lockstep[P], settings: P, run: Path, sources: Mapping[str, Path], sink: Sink) -> Scores:
    """Predict with every party in this process."""
    unknown = [name for name in sources if name not in settings.parties]
    if unknown:
        raise ConfigError(f"--input: {unknown[0]} is not a party of the file, which has {', '.join(settings.parties)}")
    parties = {}
    for name in settings.parties:
        path = model_path(run, name)
        place = Place(None, sink if name == settings.lead else Nowhere(), part=path.parent)
        parties[name] = kind.predictor(settings, name, read_model(path), sources.get(name), place)
    found = run_parties(parties)[settings.lead]
    if found is None:
        raise ConfigError(f"{settings.lead} made no scores")
    return found


def predict_as(
    kind: Lockstep[P], settings: P, name: str, run: Path, source: Path | None, site: Site, sink: Sink
) -> Scores | None:
    """Be one party of a prediction over a network: the scores, if this party gets them."""
    path = model_path(run, name)
    place = Place(None, sink, site.local, site.folder, apart=True, part=path.parent)
    own = kind.predictor(settings, name, read_model(path), source, place)
    with meeting_place(kind, settings, name, site, sink) as ends, telling(ends.fail, kind.told):
        return own(ends.meet())


def needed(name: str, source: Path | None) -> Path:
    """The rows of a party that must bring some."""
    if source is None:
        raise ConfigError(f"there are no rows of {name}: give --input {name}=FILE, or with --party {name} --input FILE")
    return source


def model_path(run: Path, name: str) -> Path:
    """Where a party's part of the model lies: in a run of all parties, or in its own."""
    whose = party_of(run) if run.is_dir() else None
    if whose is not None and whose != name:
        raise ConfigError(f"{run}: this is the run of {whose}, and not of {name}: name the right one")
    for path in (run / name / "model.safetensors", run / "model.safetensors"):
        if path.is_file():
            return path
    raise ConfigError(f"{run}: there is no model of {name}: give the folder of a finished run with --run")


class _Heeding:
    """A channel that raises an interrupt once more: it may have fallen where it was swallowed, as in a destructor."""

    def __init__(self, channel: Channel, asked: Callable[[], bool]) -> None:
        self._channel = channel
        self._asked = asked

    def send(self, message: Message) -> None:
        self._look()
        self._channel.send(message)

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        self._look()
        return self._channel.recv(kind, limit)

    def close(self) -> None:
        self._channel.close()

    def _look(self) -> None:
        if self._asked():
            raise KeyboardInterrupt


class _Party(Generic[P]):
    """One party over a network: from its directory, again after each interruption."""

    def __init__(
        self, kind: Lockstep[P], settings: P, name: str, site: Site, sink: Sink, store: Store, paid: Paid
    ) -> None:
        self._settings = settings
        self._name = name
        self._site = site
        self._sink = sink
        self._store = store
        self._paid = paid
        self.pins = site.pins
        self._kind = kind
        self._function = self._made()
        self._pause = _FIRST_PAUSE

    def _made(self) -> Callable[[Mapping[str, Channel]], Part]:
        place = Place(self._store, self._sink, self._site.local, self._site.folder, True, paid=self._paid)
        return self._kind.party(self._settings, self._name, place)

    def live(self, ends: Hub | Spoke, asked: Callable[[], bool]) -> None:
        """Take part until all are done, or until this party is `asked` to stop."""
        while True:
            began = time.monotonic()
            try:
                met = ends.meet(self._patience())
                self.pins.save()
                channels = {name: _Heeding(channel, asked) for name, channel in met.items()}
                self._function(channels)
                conclude(channels, self._name, self._settings.hub)
                return self._confirmed(ends)
            except Interrupted as error:
                self._sink.emit(Noted(f"{error}: waiting for it, to resume together"))
                self._rest(time.monotonic() - began)
                self._function = self._made()
            except (Over, PeerAway) as error:
                if not self._complete():
                    raise
                if isinstance(error, Over):
                    return self._confirmed(ends)
                self._sink.emit(
                    Noted(f"{error}; this party has finished, and ends: no other party connected to be told")
                )
                return ends.pause("it has finished")

    def _patience(self) -> float | None:
        """How long to wait for the others; not for ever where this party has finished, and they may have too."""
        waits = self._site.network.waits
        return min(waits, _LINGER) if self._complete() else waits

    def _rest(self, lasted: float) -> None:
        """Pause before the next conversation, longer each time: a party may fail at once, and be started each time."""
        self._pause = _FIRST_PAUSE if lasted > _STEADY else min(_LONGEST_PAUSE, 2 * self._pause)
        time.sleep(self._pause)

    def _complete(self) -> bool:
        found = self._store.stored()
        return found is not None and self._kind.complete(self._settings, found[0])

    def _confirmed(self, ends: Hub | Spoke) -> None:
        """All are done. The hub stores that last: until then it tells a party that was killed before it heard it."""
        if self._name == self._settings.hub:
            try:
                ends.close()
            finally:
                confirm(self._store)
        else:
            confirm(self._store)
            ends.close(FAREWELL)


def meeting_place(
    kind: Lockstep[P], settings: P, name: str, site: Site, sink: Sink, pins: Pins | None = None
) -> Hub | Spoke:
    """Where a party meets the others: it listens, or connects to who does."""
    others = [party for party in settings.parties if party != name]
    least = {} if kind.least_release is None else {LEAST_RELEASE: kind.least_release}
    common, network = shared(common_settings(kind, settings) | least), site.network
    if name == settings.hub:
        sink.emit(Noted(f"listening on {site.bind} {manner(site)}"))
        return Hub(
            name,
            others,
            site.bind,
            credentials=site.credentials,
            shared=common,
            patience=network.waits,
            lost_after=network.lost_after,
            sink=sink,
            network=network,
            pins=pins,
            transport=site.transport,
        )
    sink.emit(Noted(f"connecting to {site.address} {manner(site)}"))
    return Spoke(
        name,
        settings.hub,
        [party for party in others if party != settings.hub],
        site.address,
        credentials=site.credentials,
        shared=common,
        patience=network.waits,
        lost_after=network.lost_after,
        sink=sink,
        pins=pins,
        transport=site.transport,
    )


def common_settings(kind: Lockstep[P], settings: P) -> dict[str, Any]:
    """What all parties must agree on: not where anything lies, and not how many processes one takes."""
    private = kind.private_keys | {"network", "task_options"}
    data = settings.model_dump(mode="json", exclude={key for key in private if "." not in key})
    data["parties"] = {name: {"role": party["role"]} for name, party in data["parties"].items()}
    for key in private:
        section, _, name = key.partition(".")
        if name:
            data[section].pop(name, None)
    return data
