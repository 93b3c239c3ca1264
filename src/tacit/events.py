"""What happens in a run, typed. Whatever a user is shown was an event first.

A run hands each event to a `Sink`: the terminal, `events.jsonl`, metrics. Events hold what may be shown to the operator
of the coordinator, and nothing else: no update, no key, no client's own loss under a protection.

Rounds and epochs count from 0 here and in `events.jsonl`, and from 1 wherever people read them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, get_args

__all__ = [
    "Aligned",
    "AnswerRefused",
    "Answered",
    "Bars",
    "BudgetReached",
    "ClientBlamed",
    "ClientRefused",
    "Curve",
    "EndHeard",
    "EpochFinished",
    "Evaluated",
    "Event",
    "Kept",
    "Noted",
    "Nowhere",
    "Paused",
    "PortWatched",
    "RoundAborted",
    "RoundFinished",
    "RoundStarted",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "SharesDisputed",
    "Sink",
    "Stepped",
    "StoppedEarly",
    "Tabled",
    "Tee",
    "TrainingResumed",
    "TrainingStarted",
    "Tree",
    "Unpaused",
    "from_json",
    "to_json",
]


Cause = Literal["message", "late", "left", "certificate"]
"""Why a client lost its place: a wrong message, a late one, it left by itself, or its certificate is over."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The words for what a run goes through one after another, and for the size of its model.

    Events and their names are the same for all: `EpochFinished` is also told of a round of trees.
    """

    one: str = "epoch"
    each: str = "an epoch"
    many: str = "epochs"
    steps: bool = True  # whether one of them has several
    numbers: str = "parameters"  # what `TrainingStarted.parameters` counts

    @property
    def title(self) -> str:
        """At the beginning of a sentence."""
        return self.many[:1].upper() + self.many[1:]


EPOCHS = Counted()
ROUNDS = Counted("round", "a round", "rounds")


@dataclass(frozen=True, slots=True)
class RunStarted:
    name: str
    kind: str
    clients: int
    rounds: int
    protection: str
    parameters: int  # numbers in the model


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A run that had stopped is resumed. Rounds that were begun and not finished are done again."""

    round: int  # the next one; as many are finished
    abandoned: bool  # whether one was under way: what it released is paid for, and it is done again


@dataclass(frozen=True, slots=True)
class Noted:
    """Something the user should know."""

    text: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The coordinator begins no round until an operator ends the pause. Its clients tell of it too."""

    text: str  # who waits for what


@dataclass(frozen=True, slots=True)
class Unpaused:
    """A pause has ended."""

    seconds: float  # that it took, or since this process heard of it


@dataclass(frozen=True, slots=True)
class PortWatched:
    """How it stands at the port of the party that listens. Counts are since its start."""

    open: int  # connections
    unauthenticated: int  # of them
    refused: dict[str, int]  # connections, by reason
    handshakes_failed: int
    hellos_refused: int
    text: str  # what is new and worth a line; empty if only parties came and went


@dataclass(frozen=True, slots=True)
class RoundStarted:
    round: int
    sampled: int


@dataclass(frozen=True, slots=True)
class ClientRefused:
    """A client lost its place in a round. The reason names what was wrong with its message, not what was in it."""

    round: int
    client: int
    reason: str
    why: Cause = "message"


@dataclass(frozen=True, slots=True)
class ClientBlamed:
    """A client is proved to have broken secure aggregation: it shared or revealed something else than it published."""

    round: int
    client: int
    reason: str
    excluded: bool  # whether it is left out of the rest of the run


@dataclass(frozen=True, slots=True)
class SharesDisputed:
    """A client says that the shares that others sealed for it are invalid. It or they lie: nobody can tell who."""

    round: int
    holder: int
    owners: list[int]  # the first ten
    count: int  # of all of them


@dataclass(frozen=True, slots=True)
class RoundFinished:
    round: int
    survivors: int
    refused: int
    seconds: float
    bytes_up: int  # of one client's messages, on the wire
    metrics: dict[str, float] = field(default_factory=dict)  # on the coordinator's own data
    training_loss: float | None = None  # mean over clients; only if updates are in the clear
    epsilon: float | None = None  # of the updates so far: of the client with the most uploads, or of the sums
    delta: float | None = None
    update_norm: float | None = None  # of the released mean update
    evaluation_epsilon: float | None = None  # of one client's inference vectors so far, at delta 0
    bytes_down: int = 0  # to one client
    stages: dict[str, float] = field(default_factory=dict)  # seconds, in the order in which they happened
    epsilon_of: str = "updates"  # what `epsilon` covers: under local DP, inference vectors too
    composed_epsilon: float | None = None  # of sums and inference vectors together, if a run releases both
    composed_delta: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The clusters of the clients' inference results, scored; or why they could not be."""

    round: int
    eval_type: str
    score: float | None
    reason: str  # why there is no score; empty if there is one
    clients: int  # whose vectors were scored
    vectors: int
    clusters: int


@dataclass(frozen=True, slots=True)
class RoundAborted:
    """A round that changed nothing."""

    round: int
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """A federation ended before its last round because the coordinator's evaluation no longer improved."""

    round: int  # the last one
    reason: str
    best_round: int  # whose model the run ends with
    best: float  # the metric of that model


@dataclass(frozen=True, slots=True)
class BudgetReached:
    round: int  # the one that was not begun
    epsilon: float  # it would have reached
    budget: float
    delta: float
    of: str = "updates"  # what that epsilon covers


@dataclass(frozen=True, slots=True)
class Answered:
    """A client sent messages of a round. Only the client itself tells of it, over a network."""

    client: int
    round: int  # rounds that were begun before it, whether they were finished or not
    sent: dict[str, int]  # bytes, by message
    epsilons: dict[str, float] = field(default_factory=dict)  # this client's so far, by what they cover
    deltas: dict[str, float] = field(default_factory=dict)  # at which they hold


@dataclass(frozen=True, slots=True)
class AnswerRefused:
    """A client did not do what it was asked, for a reason of its own. Only the client itself tells of it."""

    client: int
    round: int
    why: Literal["budget", "request", "update", "training"]
    reason: str


@dataclass(frozen=True, slots=True)
class EndHeard:
    """The coordinator told a client how the run ended. It is told once: a client that is killed now must know it."""

    client: int
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    status: Literal["done", "budget reached", "stopped", "failed"]
    rounds: int
    seconds: float
    text: str = ""
    unit: str = "rounds"  # or epochs, or as the kind counts


@dataclass(frozen=True, slots=True)
class TrainingStarted:
    """A training in epochs (or as the kind counts: `Counted`) begins: of one party, or of a few in lock step."""

    name: str
    kind: str
    parties: int
    epochs: int
    steps: int  # of an epoch
    protection: str  # in a few words
    parameters: int  # numbers in the model; of a split network, in this party's part; of trees, columns


@dataclass(frozen=True, slots=True)
class TrainingResumed:
    epoch: int  # the next one, or the one under way
    step: int  # of that epoch, already done


@dataclass(frozen=True, slots=True)
class Aligned:
    """The parties know which records they have in common."""

    own: int
    common: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stepped:
    """Some steps further, now and then."""

    epoch: int
    step: int  # of this epoch, done
    steps: int  # of an epoch
    loss: float | None = None  # of private records, if this party knows it: not covered by epsilon
    epsilon: float | None = None
    speed: float | None = None  # units a second
    unit: str = "records"


@dataclass(frozen=True, slots=True)
class EpochFinished:
    epoch: int
    seconds: float
    metrics: dict[str, float] = field(default_factory=dict)  # on data that no promise is about
    local: dict[str, float] = field(default_factory=dict)  # of private records, kept here: not covered by epsilon
    epsilon: float | None = None
    delta: float | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    stages: dict[str, float] = field(default_factory=dict)  # seconds


@dataclass(frozen=True, slots=True)
class Curve:
    """Points to draw, such as a ROC curve; derived from this party's records, like `EpochFinished.local`."""

    name: str
    x: str
    y: str
    points: list[list[float]]  # none if all lines have names of their own
    caption: str = ""
    lines: dict[str, list[list[float]]] = field(default_factory=dict)  # further ones; "chance" and "perfect" are dashed
    section: str = ""  # of a report; among what was learned if empty


@dataclass(frozen=True, slots=True)
class Bars:
    """Numbers with names, to draw as bars to either side of 0; derived from this party's records."""

    name: str
    unit: str
    caption: str
    bars: dict[str, float]  # in the order in which they are drawn
    section: str = ""


@dataclass(frozen=True, slots=True)
class Tabled:
    """A table to show, such as counts at thresholds; derived from this party's records."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[str | float]]  # as long as the header
    section: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of splits to draw; derived from this party's records. Node 0 is the root."""

    name: str
    caption: str
    words: list[str]  # of each node
    owners: list[str]  # whose split each node is; empty for leaves
    children: list[list[int]]  # of each node the two below it, later ones; none for leaves
    section: str = ""


Event = (
    RunStarted
    | TrainingStarted
    | TrainingResumed
    | Aligned
    | Stepped
    | EpochFinished
    | Curve
    | Bars
    | Tabled
    | Tree
    | RunResumed
    | Noted
    | Paused
    | Unpaused
    | PortWatched
    | RoundStarted
    | ClientRefused
    | ClientBlamed
    | SharesDisputed
    | Evaluated
    | RoundFinished
    | RoundAborted
    | BudgetReached
    | StoppedEarly
    | Answered
    | AnswerRefused
    | EndHeard
    | RunFinished
)
KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


class Sink(Protocol):
    """Where events go."""

    def emit(self, event: Event) -> None: ...


class Nowhere:
    """A sink that keeps nothing."""

    def emit(self, event: Event) -> None: ...


class Tee:
    """Several sinks as one."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def emit(self, event: Event) -> None:
        for sink in self._sinks:
            sink.emit(event)


class Kept:
    """A sink that keeps its events, for `run.history` and tests."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def to_json(event: Event) -> dict[str, Any]:
    return {"event": type(event).__name__, **asdict(event)}


def from_json(data: dict[str, Any]) -> Event:
    """The event that `to_json` wrote; other keys, such as the time of writing, are left out."""
    kind = KINDS.get(str(data.get("event")))
    if kind is None:
        raise ValueError(f"{data.get('event')!r} is not an event; known are {', '.join(KINDS)}")
    names = kind.__dataclass_fields__
    return kind(**{key: value for key, value in data.items() if key in names})
