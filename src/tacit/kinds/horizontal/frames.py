"""The messages of a federation as frames for a network, and back; coordinator and clients that speak in frames.

Secure aggregation's messages are frames already (`secagg.messages`). A model or an update is its little-endian numbers
in the layout that both sides know from the task: whatever has another size is refused. These numbers lie in memory
once: a frame that goes out has views of them (`in_parts`), and what comes in is a view of the frame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.channel import sentence
from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, PeerError
from tacit.events import Answered, AnswerRefused, Cause, Event, Noted, Sink
from tacit.kinds.horizontal.client import Client, Fit, clipped_words
from tacit.kinds.horizontal.coordinator import Phase
from tacit.kinds.horizontal.download import restored
from tacit.kinds.horizontal.forecast import largest_frames
from tacit.kinds.horizontal.messages import Inference, Outgoing, ToClient, ToCoordinator, Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.net.handshake import FROZEN_WEIGHTS, LEAST_RELEASE, Parting, shared
from tacit.net.identity import Credentials
from tacit.net.star import Answer, Frames, Terms
from tacit.secagg.messages import Abort, Advertise, Agreed, Agreements, Inbox, Masked, Reveal, Roster, Shares, Survivors
from tacit.secagg.session import UnknownClient
from tacit.wire import Finite, Message, Parted, decode, in_parts

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Id = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class WorkFrame(Message, frozen=True, tag=20):
    round: Number
    clip: Finite | None
    model: memoryview


class UpdateFrame(Message, frozen=True, tag=21):
    round: Number
    sender: Id
    vector: memoryview
    samples: Number | None
    loss: float | None


class InferenceFrame(Message, frozen=True, tag=22):
    round: Number
    sender: Id
    vectors: memoryview


_FromClient = UpdateFrame | InferenceFrame | Advertise | Shares | Masked | Agreed | Reveal | Abort
_FromCoordinator = WorkFrame | Roster | Inbox | Survivors | Agreements | Abort


def to_frame(message: ToClient | ToCoordinator) -> bytes:
    """The frame of a message, put together."""
    return bytes(parted(message))


def parted(message: ToClient | ToCoordinator) -> Parted:
    """The frame of a message, in which its numbers are views: they must not change until it has arrived."""
    match message:
        case Work():
            model = _view(message.model) if message.coded is None else memoryview(message.coded)
            return in_parts(WorkFrame(message.round, message.clip, model))
        case Update():
            vector = _view(message.vector)
            return in_parts(UpdateFrame(message.round, message.sender, vector, message.samples, message.loss))
        case Inference():
            return in_parts(InferenceFrame(message.round, message.sender, _view(message.vectors)))
        case _:
            return in_parts(message)


def kind_of(frame: bytes | memoryview) -> type[ToClient]:
    """Which message to a client a frame is."""
    message: Any = decode(frame, _FromCoordinator, len(frame))  # type: ignore[arg-type]
    return Work if isinstance(message, WorkFrame) else type(message)


def to_client(frame: bytes | memoryview, layout: Layout, limit: int, down: int | None = None) -> ToClient:
    """The message that the coordinator sent. A model has `down` bits for each number, if that is given."""
    message: Any = decode(frame, _FromCoordinator, limit)  # type: ignore[arg-type]
    if not isinstance(message, WorkFrame):
        return message  # type: ignore[no-any-return]
    if down is not None:
        return Work(message.round, restored(layout, message.model, down), message.clip, message.model)
    model = _numbers(message.model, layout.dtype, layout.size, "a model")
    return Work(message.round, model, message.clip)


def to_coordinator(frame: bytes | memoryview, layout: Layout, classes: int | None, limit: int) -> ToCoordinator:
    """The message that a client sent. Inference results have `classes` columns."""
    message: Any = decode(frame, _FromClient, limit)  # type: ignore[arg-type]
    match message:
        case UpdateFrame():
            vector = _numbers(message.vector, layout.dtype, layout.size, "an update")
            return Update(message.round, message.sender, vector, message.samples, message.loss)
        case InferenceFrame():
            width = classes or 1
            if len(message.vectors) % (8 * width):
                raise PeerError(f"inference results of {len(message.vectors)} bytes are not rows of {width} numbers")
            vectors = np.frombuffer(message.vectors, dtype="<f8").reshape(-1, width)
            return Inference(message.round, message.sender, vectors.astype(np.float64, copy=False))
        case _:
            return message  # type: ignore[no-any-return]


def _view(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


def _numbers(data: memoryview, dtype: str, count: int, what: str) -> Flat:
    """Read-only numbers; a view of the data, if these are where numbers of this type may be."""
    kind = np.dtype(dtype).newbyteorder("<")
    if len(data) != count * kind.itemsize:
        raise PeerError(f"{what} of {len(data)} bytes, {count * kind.itemsize} are due")
    numbers = np.frombuffer(data, dtype=kind)
    numbers = (numbers if numbers.flags.aligned else numbers.copy()).astype(dtype, copy=False)
    numbers.flags.writeable = False
    return numbers


def common(settings: Settings) -> dict[str, Any]:
    """What all parties must agree on. Where the coordinator is reached may differ, and how this process simulates."""
    return settings.model_dump(mode="json", exclude={"network"})


def terms_of(prepared: Prepared) -> Terms:
    settings = prepared.settings
    more = {FROZEN_WEIGHTS: prepared.frozen_digest, LEAST_RELEASE: settings.updates.least_release(settings)}
    return Terms(
        clients=settings.clients,
        sampled=settings.sampled,
        least=settings.least,
        window=settings.round.start_fl_job_time_window / 1000,
        limits=largest_frames(settings, prepared.layout, prepared.classes),
        shared=shared(common(settings) | {key: value for key, value in more.items() if value}),
        signs=settings.signs,
    )


class FramedCoordinator:
    """A coordinator whose messages are frames: the `Star` of a federation.

    Args:
        leaving: is put before the reason of a client that leaves a round by itself.
    """

    def __init__(
        self, prepared: Prepared, sink: Sink, clock: Callable[[], float], leaving: str = "it left the round: "
    ) -> None:
        self.terms = terms_of(prepared)
        self._classes = prepared.classes
        self._leaving = leaving
        self._identities: dict[int, bytes] = {}
        self.coordinator = prepared.coordinator(sink, clock, identities=self._identities)

    @property
    def begun(self) -> int:
        return self.coordinator.attempts

    @property
    def excluded(self) -> frozenset[int]:
        return self.coordinator.left_out

    @property
    def collecting(self) -> bool:
        return self.coordinator.phase is Phase.COLLECTING

    @property
    def stage(self) -> str:
        gathering = self.coordinator.gathering
        return gathering.stage if gathering is not None else ""

    @property
    def finished(self) -> bool:
        return self.coordinator.over

    @property
    def ending(self) -> Parting:
        if self.coordinator.budget_reached:
            return Parting("budget reached", "the next round would exceed the privacy budget")
        return Parting("done", self.coordinator.stopped_early)

    def check_left(self) -> None:
        self.coordinator.check_left()

    def meet(self, client: int, signing_key: bytes) -> None:
        self._identities[client] = signing_key

    def begin(self, now: float, available: Collection[int]) -> Frames:
        return _framed(self.coordinator.begin(now, available))

    def receive(self, client: int, frame: bytes | memoryview, now: float) -> Frames:
        message = to_coordinator(frame, self.coordinator.layout, self._classes, self.terms.limits[0])
        if isinstance(message, Abort) and self._leaving:
            self.refuse(client, f"{self._leaving}{sentence(message.reason)}", "left")
        return _framed(self.coordinator.receive(client, message, now))

    def tick(self, now: float) -> Frames:
        return _framed(self.coordinator.tick(now))

    def gone(self, client: int, now: float) -> Frames:
        return _framed(self.coordinator.gone(client, now))

    def refuse(self, client: int, reason: str, why: Cause) -> None:
        self.coordinator.refuse(client, reason, why=why)


def _own(answer: ToCoordinator) -> ToCoordinator:
    """An answer whose numbers nobody else has: the task may write over the arrays that it returned."""
    if isinstance(answer, Update) and not answer.vector.flags.owndata:
        return replace(answer, vector=answer.vector.copy())
    return answer


def _framed(outgoing: Outgoing) -> Frames:
    """The frames of messages that go out together. What goes to several clients becomes a frame once."""
    made: dict[Hashable, Parted] = {}
    frames = []
    for client, message in outgoing:
        same: Hashable = message.round if isinstance(message, Work) else ("at", id(message))
        if same not in made:
            made[same] = parted(message)
        frames.append((client, made[same]))
    return frames


class FramedClient:
    """A client whose messages are frames: a `Leaf` of a federation's star.

    Args:
        credentials: hold the key that it signs with, if clients sign; it makes one where there are none.
        store: is called with the client before anything paid for leaves.
        keep: is called after the answer to a model, with its round and the model: it must not take long.
        fit: the task's own by default.
    """

    def __init__(
        self,
        prepared: Prepared,
        identity: int,
        credentials: Credentials | None,
        store: Callable[[Client], None] = lambda client: None,
        keep: Callable[[int, Flat], None] = lambda round, model: None,
        *,
        fit: Fit | None = None,
    ) -> None:
        self.terms = terms_of(prepared)
        self.identity = identity
        key = (credentials.signing_key if credentials else SigningKey.generate()) if self.terms.signs else None
        self.signing_key = key.public if key else b""
        self._identities = {identity: key.public} if key else {}
        self.client = prepared.client(identity, fit=fit, key=key, identities=self._identities if key else None)
        self.rounds: set[int] = set()  # in which it took part
        self._layout = prepared.layout
        self._down = prepared.settings.round.down
        self._store = store
        self._keep = keep
        self._why: dict[int, str] = {}  # clients are left out
        self._round = 0  # that it was sent last
        self._work: Work | None = None  # that the last frame was
        self._idle = True  # until it is sent a model

    @property
    def answered(self) -> int:
        attempts: int = self.client.state()["attempts"]
        return attempts

    def meet(self, client: int, signing_key: bytes) -> None:
        self._identities[client] = signing_key

    def leave_out(self, client: int, reason: str) -> None:
        self._why[client] = reason
        if client != self.identity:
            self._identities.pop(client, None)

    def receive(self, frame: bytes | memoryview, now: float) -> Answer:
        message = to_client(frame, self._layout, self.terms.limits[1], self._down)
        self._work = message if isinstance(message, Work) else None
        if isinstance(message, Work):
            self.client.end_round()
            self._idle = False
            self._round = message.round
        elif self._idle:
            return Answer()  # of a round that this process, or this conversation, knows nothing of
        try:
            answers = self.client.receive(message, now)
        except UnusableUpdate as error:
            return self._answer([Abort(str(error)[:300])], [self._refused("update", str(error))])
        except UnknownClient as error:
            return self._decline(error)
        except BudgetError as error:
            return Answer(events=(self._refused("budget", str(error)),), error=error)
        except PeerError as error:
            return Answer(events=(self._refused("request", str(error)),), error=error)
        left = [answer for answer in answers if isinstance(answer, Abort)]  # it leaves out this round
        return self._answer(answers, [self._refused("request", each.reason) for each in left])

    def store(self) -> None:
        self._store(self.client)

    def sent(self, answer: Answer) -> None:
        if self._work is None or isinstance(answer.error, PeerError):
            return
        if answer.error is None:
            self.rounds.add(self._work.round)
        self._keep(self._work.round, self._work.model)

    def end_round(self) -> None:
        self.client.end_round()
        self._idle = True

    def _decline(self, error: UnknownClient) -> Answer:
        """Leave a round with a client whose key is not known here. This client stays in the run."""
        why = self._why.get(error.client, "the coordinator has not shown its certificate")
        reason = f"{error}: {why}"[:300]
        self.end_round()
        return self._answer([Abort(reason)], [self._refused("request", reason)])

    def _answer(self, answers: list[ToCoordinator], events: list[Event]) -> Answer:
        """The frames, and for this site what is sent and what it has cost so far."""
        if not answers:
            return Answer(events=tuple(events))
        sent: Counter[str] = Counter()
        frames = []
        for answer in answers:
            frames.append(parted(_own(answer)))
            sent[type(answer).__name__] += len(frames[-1])
        spent = self.client.spent() if any(isinstance(answer, Update | Masked) for answer in answers) else []
        epsilons = {" and ".join(each.covers): each.epsilon for each in spent}
        deltas = {" and ".join(each.covers): each.delta for each in spent}
        events.append(Answered(self.identity, self._round, dict(sent), epsilons, deltas))
        while self.client.withheld:
            events.append(self._refused("training", self.client.withheld.pop(0)))
        if self.client.clipped:
            events.append(Noted(f"client {self.identity}: {clipped_words(self.client.clipped, self._layout.size)}"))
            self.client.clipped = 0
        while self.client.notes:
            events.append(Noted(f"client {self.identity}: {self.client.notes.pop(0)}"))
        return Answer(tuple(frames), tuple(events))

    def _refused(self, why: Literal["budget", "request", "update", "training"], reason: str) -> AnswerRefused:
        return AnswerRefused(self.identity, self._round, why, reason[:300])
