"""What a kind of training is, and which kinds there are.

A kind is one folder in `tacit.kinds`, or a package that offers one under the entry point `tacit.kinds`. It gives one
`Kind`: its settings, and a function for each verb. The verbs (`tacit.runs`) know no more of it than this.

    find(name)              the kind of that name; ConfigError if there is none
    kind_of(settings)       the kind of a file's settings
    names()                 of all kinds that are installed
    model_of(name, where)   the settings of a kind, for `config.load`
    fingerprint(settings)   a digest of what a resumed run must not change

A built-in name is never taken from outside. Entry points are read, which takes its time, only for a name that is not
built in and for the list of names: a package that offers a built-in name is reported there, and goes unnoticed before.

`execute` and `take_part` come in two steps. The call makes the parties: what is wrong with the file, the task or the
data is found before anything is told or sent. The function that it returns carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from tacit.config.explain import nearest
from tacit.config.load import fingerprint_without, flat
from tacit.config.source import ConfigError
from tacit.errors import BudgetError
from tacit.events import EPOCHS, Counted
from tacit.sections import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.audit.scope import Scope
    from tacit.audit.steps import Attacks
    from tacit.boundary import Boundary
    from tacit.config.local import Local
    from tacit.events import Event, Sink
    from tacit.net.site import Site
    from tacit.report.figure import Report
    from tacit.report.forecast import Forecast, PartyForecast
    from tacit.report.party_forecast import Own
    from tacit.report.recomputed import Check
    from tacit.store.party_folder import Store
    from tacit.store.record import Record
    from tacit.store.scores import Scores
    from tacit.tables.check import Checked

S = TypeVar("S", bound=Settings)
Status = Literal["done", "budget reached", "stopped", "failed"]
Templates = Mapping[str, Mapping[str, str]]  # of each folder to start from, the files by name


Paid = Callable[[Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True, slots=True)
class Most:
    """What a run brings one party to at most, unless it is interrupted: what a site's policy reserves and refuses."""

    ledgers: Sequence[Mapping[str, Any]] = ()  # as in `Result`; none: nothing that leaves has an epsilon
    uncovered: tuple[str, ...] = ()  # what leaves of its private data under no epsilon, though something else has one


@dataclass(frozen=True, slots=True)
class Here:
    """What surrounds the parties that this process carries out."""

    sink: Sink
    store: Store | None  # None: nothing is kept
    should_stop: Callable[[], bool]  # whether a signal asked for it
    happened: Callable[[], Iterable[Event]]  # all that was told, that of earlier processes of this run included
    paid: Paid = lambda ledgers: None
    """Is handed a party's ledgers, as in `Result`, once they are stored and before anything leaves that they pay for.
    Raises BudgetError, and then nothing may leave, where the site's own policy does not allow it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the parties came to, where nothing was raised.

    `ledger` is what ledger.json holds, plain data; empty for a party that shows none here:

        {"version": 1, "ledgers": [{
            "covers": ["model"],        what its epsilon is of, in the words of a report
            "view": "central",          or "local": of what is released in the end, or of each message
            "epsilon": 1.5,             "infinite" where it promises nothing
            "delta": 1e-5,
            "against": "for ...",       for whom it holds and against whom, in words; may be left out
            **ledger.to_json(),         of a `dp.accounting.Ledger`: unit, relation, budget, lines
        }]}

    No ledgers where nothing has an epsilon. A ledger that lacks one of these keys is refused (`runs.outcome`).
    """

    model: Mapping[str, NDArray[Any]]
    ledger: Mapping[str, Any]
    status: Status = "done"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Resume(Generic[S]):
    """How a stored run is taken up again."""

    free: Callable[[S], frozenset[str]]  # keys that may change
    finished: Callable[[S, Mapping[str, Any]], str | None]  # why a stored state has nothing left to do
    caught_up: Callable[[S, dict[str, Any], dict[str, Any]], dict[str, Any]]
    """An earlier state with all that was spent since, as the ledger says, which is of the last. Raises KeyError,
    TypeError or ValueError if the ledger does not say it."""
    length: str = "train.epochs"  # the key that says how long it runs
    sized: str = "its noise was sized"  # what depends on the length if it may not change
    parts: Callable[[S], tuple[str, ...]] = lambda settings: ()  # parties that store apart though all are here
    stateless: Callable[[str], bool] = lambda party: False  # whether a party over a network stores no state of the run


@dataclass(frozen=True, slots=True)
class Seat:
    """Which party a process is over a network."""

    name: str
    clients: tuple[int, ...] = ()  # of a federation
    coordinates: bool = False  # it is not started twice by mistake, and tells the others of an end that it reached

    @property
    def whole(self) -> str:
        """Whose folder it is: of several clients, the first and the last."""
        return self.name if len(self.clients) < 2 else f"{self.name} to {self.clients[-1]}"


@dataclass(frozen=True, slots=True)
class Join(Generic[S]):
    """One party over a network."""

    networked: Callable[[S], S]  # the settings as they are then
    seat: Callable[[S, str, str | None], Seat]  # of --party and --id, or ConfigError
    address: Callable[[S, str], str]  # of the party that all others connect to
    take_part: Callable[[S, Seat, Site, Here], Callable[[], Result]]
    forecast: Callable[[S, Own], PartyForecast]
    most: Callable[[S, Seat, Local, Path], Most | None] = lambda settings, seat, local, folder: Most()
    """None: the party holds no private data. The task may be made; nothing is trained or sent."""
    protection: Callable[[S], str] = lambda settings: ""  # the `encrypt_type` that a policy may name, if there is one


@dataclass(frozen=True, slots=True)
class Predict(Generic[S]):
    """Parties that use their parts of a model together."""

    receiver: Callable[[S], str]  # who gets the scores
    here: Callable[[S, Path, Mapping[str, Path], Sink], Scores]
    join: Callable[[S, str, Path, Path | None, Site, Sink], Scores | None]


@dataclass(frozen=True, slots=True)
class CardScale:
    """How points are counted on a scorecard; None: as the file says."""

    points: float | None = None
    odds: float | None = None
    pdo: float | None = None
    good: str | int | None = None  # the class that has more points: its label or, without labels, its number


@dataclass(frozen=True, slots=True)
class Scorecard(Generic[S]):
    """A trained model as points of each party's own columns."""

    parties: Callable[[S], tuple[str, ...]]
    of: Callable[[S, str, Mapping[str, NDArray[Any]], CardScale], Scores]  # one party's card, from its stored part
    good: Callable[[Mapping[str, Mapping[str, NDArray[Any]]], str], int]  # a class by its label, from all stored parts


@dataclass(frozen=True, slots=True)
class Kind(Generic[S]):
    """What can be done with a file of a kind."""

    name: str
    settings: type[S]
    starter: Callable[[], str]  # a commented file to start from
    forecast: Callable[[S], Forecast]  # what it will cost and show; the task may be made, nothing is trained
    boundary: Callable[[S], Boundary]  # everything that leaves a party
    execute: Callable[[S, Here], Callable[[], Result]]  # every party in this process
    report: Callable[[Sequence[Record[S]], bool], Report]  # of one run or several; whether it is for sharing
    attacks: Callable[[S, Scope], Attacks]  # the task is made; nothing is trained before a step is taken
    resume: Resume[S]
    unit: Literal["rounds", "epochs"] = "epochs"  # of which events tell: those of a federation, or those of a training
    counted: Counted = EPOCHS  # the words for them
    stopped_by: Literal["flag", "interrupt"] = "interrupt"  # lock step blocks in recv
    join: Join[S] | None = None
    predict: Predict[S] | None = None
    scorecard: Scorecard[S] | None = None
    recompute: Callable[[S, Sequence[Event], Sequence[dict[str, Any]]], Iterable[Check]] | None = None
    """What its epsilons come to if they are computed again from the file and the events (`runs.verification`)."""
    tables: Callable[[S, str | None, Local, Path], Mapping[str, Checked]] | None = None
    """Everything that is wrong with the table of one party, or of all that are here; None if it has no tables."""
    budget: Callable[[S], float | None] = lambda settings: None
    """The epsilon at which it ends, or which its noise was calibrated to; None if the file names none."""
    templates: Callable[[], Templates] = dict  # folders to start from, the first by default


def templates_in(package: str, *names: str) -> Templates:
    """The folders `templates/NAME` of a package. Python files have the suffix .py.txt there: they are no part of it."""
    found = {}
    for name in names:
        folder = files(package).joinpath("templates", name)
        texts = {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.is_file()}
        found[name] = {file.removesuffix(".txt"): texts[file] for file in sorted(texts)}
    return found


# --- the kinds that there are

_BUILT_IN = {
    name: f"tacit.kinds.{name}:KIND"
    for name in ("horizontal", "private_training", "vertical_logistic", "vertical_trees", "split")
}


@cache
def _outside() -> dict[str, str]:
    found = {each.name: each.value for each in entry_points(group="tacit.kinds")}
    if taken := sorted(found.keys() & _BUILT_IN.keys()):
        raise ConfigError(f"an installed package offers the kind {taken[0]}, which is built in: uninstall that package")
    return found


def names() -> list[str]:
    """Of all kinds."""
    return [*_BUILT_IN, *_outside()]


def find(name: Any, where: str = "") -> Kind[Any]:
    """The kind of that name. `where` the name stands comes before what is wrong with it."""
    place = _BUILT_IN.get(name) or _outside().get(name) if isinstance(name, str) else None
    if place is None:
        near = nearest(str(name), names())
        advice = f"did you mean {near}?" if near else f"give {' or '.join(names())}"
        raise ConfigError(f"{where}kind is {name!r}, which does not exist: {advice}")
    module, _, attribute = place.partition(":")
    try:
        kind = getattr(import_module(module), attribute, None)
    except Exception as error:
        if name in _BUILT_IN:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"{where}the kind {name} cannot be loaded from {place}, which an installed package offers ({reason}): "
            "repair or uninstall that package"
        ) from error
    if not isinstance(kind, Kind) or kind.name != name:
        raise ConfigError(f"{where}{place} is offered as the kind {name}, and is not one: uninstall that package")
    return kind


def kind_of(settings: S) -> Kind[S]:
    """The kind of a file's settings."""
    return cast("Kind[S]", find(settings.kind))


def model_of(name: Any, where: str) -> type[Settings]:
    """The settings of a kind; a file that names none is told which there are."""
    if name is None:
        raise ConfigError(f"{where}kind is missing: give {' or '.join(names())}")
    model: type[Settings] = find(name, where).settings
    return model


# --- what holds for every kind


def changeable(key: str, stored: Settings) -> bool:
    """Whether a resumed run may change this key: what its kind allows, and how a party treats its network."""
    return key in kind_of(stored).resume.free(stored) or key.partition(".")[0] == "network"


def fingerprint(settings: Settings) -> str:
    """A digest of the settings that a resumed run must not change."""
    return fingerprint_without({key for key, _ in flat(settings) if changeable(key, settings)}, settings)


@dataclass(slots=True)
class Ending:
    """How the work inside of `ended_early` ended."""

    status: Status = "done"
    text: str = ""


@contextmanager
def ended_early() -> Iterator[Ending]:
    """Take a stop by hand and a reached budget for an end: what is stored then is whole. Anything else is raised."""
    ending = Ending()
    try:
        yield ending
    except KeyboardInterrupt:
        ending.status, ending.text = "stopped", "by hand"
    except BudgetError as error:
        ending.status, ending.text = "budget reached", str(error)
