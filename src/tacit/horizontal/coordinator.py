"""The coordinator of a horizontal federation, without I/O: samples clients, adds up what they learnt, moves the model.

    begin(now)                  open the next round: the model to each sampled client
    receive(sender, message)    an update, or a message of secure aggregation
    tick(now)                   close a round whose time is up

A client whose message is wrong loses its place and is counted; the round goes on. Too few updates abort the round: the
model stays, and the next one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

import numpy as np

from tacit.dp.accounting import Ledger
from tacit.errors import PeerError
from tacit.events import BudgetReached, ClientRefused, RoundAborted, RoundFinished, RoundStarted, Sink
from tacit.horizontal.messages import ToClient, ToCoordinator, Update, Work
from tacit.horizontal.optimizer import Optimizer
from tacit.horizontal.protection import LocalDP, Sum, secure_encoding, secure_settings
from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Arrays
from tacit.horizontal.vector import Flat, Layout
from tacit.secagg.messages import Advertise, Masked, Reveal, Shares
from tacit.secagg.server import Server
from tacit.secagg.server import State as SecureState
from tacit.secagg.session import Context
from tacit.wire import encode

Outgoing = list[tuple[int, ToClient]]
LARGEST_NORM = 1e4  # of an update in the clear: a longer one is no honest step
SAMPLING = 10  # what a seed is for: each purpose draws from a stream of its own


class State(Enum):
    BETWEEN = auto()  # rounds
    COLLECTING = auto()
    FINISHED = auto()


class Coordinator:
    """The coordinator.

    Args:
        model: before the first round.
        evaluate: judges a model on the coordinator's own data.
        clock: seconds, for the durations it reports.
    """

    def __init__(
        self,
        settings: Settings,
        model: Arrays,
        sink: Sink,
        clock: Callable[[], float],
        *,
        evaluate: Callable[[Arrays], dict[str, float]] | None = None,
        identities: Mapping[int, bytes] | None = None,
    ) -> None:
        self.layout = Layout.of(model)
        self.state = State.BETWEEN
        self.round = 0  # of which `round` are over
        self.uploads: Counter[int] = Counter()
        self.budget_reached = False
        self._settings = settings
        self._model = self.layout.flatten(model).copy()
        if not np.isfinite(self._model).all():
            raise ValueError("the task's model holds NaN or infinite numbers: model() must return finite ones")
        self._sink = sink
        self._clock = clock
        self._evaluate = evaluate
        self._identities = identities
        self._optimizer = Optimizer(settings.server, self.layout.size)
        self._local = LocalDP.of(settings) if settings.encrypt.encrypt_type == "DP_ENCRYPT" else None
        self._clip = settings.encrypt.dp_encrypt.dp_norm_clip
        self._secure: Server | None = None
        if settings.encrypt.encrypt_type == "PW_ENCRYPT":
            secure_settings(settings, self.layout.size)  # refused before the first round, if at all
        self._open()

    def _open(self) -> None:
        """Forget the last round."""
        self._waiting: set[int] = set()
        self._arrived: set[int] = set()
        self._refused: set[int] = set()
        self._losses: list[tuple[float, int]] = []
        self._bytes: Counter[str] = Counter()  # largest message of each kind: what one client sends up
        self._deadline = float("inf")

    @property
    def model(self) -> Arrays:
        return self.layout.unflatten(self._model)

    def begin(self, now: float) -> Outgoing:
        """Open the next round, or finish: after the last one, or before one that the budget does not allow."""
        if self.state is not State.BETWEEN:
            raise ValueError(f"a round begins between rounds, not while {self.state.name}")
        settings = self._settings
        if self.round >= settings.rounds:
            self.state = State.FINISHED
            return []
        draw = np.random.default_rng([settings.seed, SAMPLING, self.round])
        sampled = sorted(draw.choice(settings.clients, settings.sampled, replace=False).tolist())
        if not self._affordable(sampled):
            self.state = State.FINISHED
            self.budget_reached = True
            return []
        self._open()
        self._waiting = set(sampled)
        if self._local is not None:
            self.uploads.update(sampled)  # whoever is sent the model may upload, and then it is out, of use or not
        self._started = self._clock()
        self.state = State.COLLECTING
        clip = None
        match settings.encrypt.encrypt_type:
            case "NOT_ENCRYPT":
                self._sum = Sum(self._model, LARGEST_NORM)
            case "DP_ENCRYPT" if self._local is not None:
                clip = self._clip
                self._sum = Sum(self._model, self._local.largest_norm(self.layout.size, clip))
            case "PW_ENCRYPT":
                context = Context(
                    secure_settings(settings, self.layout.size), self.layout.digest(self._model), self.round
                )
                window = settings.round.update_model_time_window / 1000
                self._secure = Server(context, sampled, identities=self._identities, upload_window=window)
                self._secure.start(now)
        self._deadline = now + settings.round.update_model_time_window / 1000
        self._sink.emit(RoundStarted(self.round, len(sampled)))
        shared = self._model.view()
        shared.flags.writeable = False
        return [(client, Work(self.round, shared, clip)) for client in sampled]

    def receive(self, sender: int, message: ToCoordinator, now: float) -> Outgoing:
        """Take a message from `sender`, whom the transport has identified."""
        try:
            if isinstance(message, Update):
                return self._update(sender, message)
            if self._secure is None:
                if self._settings.encrypt.encrypt_type != "PW_ENCRYPT":
                    raise PeerError(f"{type(message).__name__} belongs to secure aggregation, which is not used here")
                return []  # the sum was opened before this one's share arrived
            late = self._secure.late
            outgoing = self._secure.receive(sender, message, now)
            if isinstance(message, Masked) and self._secure.late > late:
                self.refuse(sender, "its masked update came too late")
            self._count_bytes(message)
            return self._after_secure(outgoing)
        except PeerError as error:
            number = min(message.round, self.round) if isinstance(message, Update) else self.round
            self.refuse(sender, str(error), number)
            if number == self.round:  # one that is late for an earlier round may still be in time for this one
                self.left(sender)
            return []

    def refuse(self, client: int, reason: str, number: int | None = None) -> None:
        """A client loses its place in a round, this one unless another is named. One word about each is enough."""
        number = self.round if number is None else number
        if number == self.round:
            if client in self._refused:
                return
            self._refused.add(client)
        self._sink.emit(ClientRefused(number, client, reason))

    def tick(self, now: float) -> Outgoing:
        """Close what is overdue."""
        if self.state is not State.COLLECTING:
            return []
        if self._secure is not None:
            return self._after_secure(self._secure.tick(now))
        if now >= self._deadline:
            self._close()
        return []

    # --- updates in the clear or with noise

    def _update(self, sender: int, message: Update) -> Outgoing:
        if message.sender != sender:
            raise PeerError(f"client {sender} sent an update of client {message.sender}")
        if message.round != self.round or self.state is not State.COLLECTING or self._secure is not None:
            raise PeerError(f"an update of round {message.round}, too late or out of turn")
        if sender in self._arrived:
            raise PeerError("a second update in one round")
        if sender not in self._waiting:
            raise PeerError("an update of a client that was not sampled")
        if not isinstance(message.vector, np.ndarray):
            raise PeerError("an update that is no array")
        if self._local is None:
            self._sum.add_model(message.vector, self._checked_samples(message.samples))
            if isinstance(message.loss, float) and abs(message.loss) < 1e30:
                self._losses.append((message.loss, message.samples or 0))
        else:
            if message.samples is not None or message.loss is not None:
                raise PeerError("an update with more than its protection lets out")
            self._sum.add_update(message.vector)
        self._waiting.discard(sender)
        self._arrived.add(sender)
        self._bytes["Update"] = max(self._bytes["Update"], message.vector.nbytes + 32)
        if not self._waiting:
            self._close()
        return []

    def _checked_samples(self, samples: object) -> int:
        most = self._settings.encrypt.pw_encrypt.largest_weight
        if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= most:
            raise PeerError(f"an update whose number of samples is not in 1 .. {most}")
        return samples

    def left(self, client: int) -> None:
        """A client is gone and not waited for."""
        self._waiting.discard(client)
        if self.state is State.COLLECTING and self._secure is None and not self._waiting:
            self._close()

    def _close(self) -> None:
        if self._sum.count < self._settings.needed:
            self._abort(f"{self._sum.count} updates, {self._settings.needed} are needed")
            return
        self._finish(self._sum.mean(), self._sum.count)

    # --- updates under masks

    def _after_secure(self, outgoing: Sequence[tuple[int, ToClient]]) -> Outgoing:
        secure = self._secure
        if secure is None or self.state is not State.COLLECTING:
            return []
        if secure.state is SecureState.ABORTED:
            self._abort(secure.reason)
        elif secure.state is SecureState.READY:
            result = secure.finish(shards=self._settings.server_num)
            if len(result.survivors) < self._settings.needed:
                self._abort(f"{len(result.survivors)} updates, {self._settings.needed} are needed")
                return []
            encoding = secure_encoding(self._settings, self.layout.size)
            try:
                mean = encoding.decode(result.words, len(result.survivors)).mean
            except PeerError as error:
                self._abort(str(error))
                return []
            self._finish(mean, len(result.survivors))
        return list(outgoing)

    def _count_bytes(self, message: ToCoordinator) -> None:
        if isinstance(message, Advertise | Shares | Masked | Reveal):
            kind = type(message).__name__
            if kind not in self._bytes:  # those of one kind are of one size, or nearly
                self._bytes[kind] = len(encode(message))

    # --- the end of a round

    def _finish(self, update: Flat, survivors: int) -> None:
        before = self._optimizer.state()
        with np.errstate(over="ignore", invalid="ignore"):
            update = update.astype(self.layout.dtype)
            moved = self._optimizer.step(self._model, update)
        if not np.isfinite(moved).all():
            self._optimizer.restore(before)
            self._abort("the step leads to NaN or infinite numbers: lower server.learning_rate or train.learning_rate")
            return
        self._model = moved
        norm = float(np.linalg.norm(update))
        if self._settings.encrypt.dp_encrypt.adaptive and self._local is not None:
            self._clip = min(self._clip, self._settings.encrypt.dp_encrypt.adaptive_factor * norm)
        epsilon = self.epsilon()
        total = sum(weight for _, weight in self._losses)
        self._sink.emit(
            RoundFinished(
                round=self.round,
                survivors=survivors,
                refused=len(self._refused),
                seconds=self._clock() - self._started,
                bytes_up=sum(self._bytes.values()),
                metrics=self._evaluate(self.model) if self._evaluate else {},
                training_loss=sum(loss * weight for loss, weight in self._losses) / total if total else None,
                epsilon=epsilon,
                delta=None if epsilon is None else self.delta,
                update_norm=norm,
            )
        )
        self._next()

    def _abort(self, reason: str) -> None:
        self._sink.emit(RoundAborted(self.round, reason, self._clock() - self._started))
        self._next()

    def _next(self) -> None:
        self.round += 1
        self._secure = None
        self.state = State.BETWEEN

    # --- what it costs

    @property
    def delta(self) -> float:
        """At which the run's epsilon is stated."""
        limit = self._settings.budget
        return (limit.delta if limit else None) or self._settings.delta

    def ledger(self) -> Ledger | None:
        """Of the client with the most uploads so far."""
        return None if self._local is None else self._ledger(max(self.uploads.values(), default=0))

    def epsilon(self) -> float | None:
        """What the uploads of that client cost it together; infinite where the noise can be computed."""
        ledger = self.ledger()
        if ledger is None:
            return None
        if self._settings.simulation.insecure_noise_seed is not None:
            return float("inf")
        return ledger.epsilon(self.delta)

    def _ledger(self, uploads: int) -> Ledger:
        ledger = Ledger("client", "replace-one")
        if uploads and self._local is not None:
            ledger.spend(self._local.event(self.layout.size), uploads)
        return ledger

    def _affordable(self, sampled: list[int]) -> bool:
        limit = self._settings.budget
        if limit is None or self._local is None:
            return True
        spent = self._ledger(max(self.uploads[client] for client in sampled) + 1).epsilon(self.delta)
        if spent > limit.epsilon:
            self._sink.emit(BudgetReached(self.round, spent, limit.epsilon, self.delta))
            return False
        return True
