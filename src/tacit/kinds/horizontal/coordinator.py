"""The coordinator of a horizontal federation, without I/O: samples clients, adds up what they learnt, moves the model.

    begin(now)                  open the next round: the model to each sampled client
    receive(sender, message)    an update, or a message of secure aggregation
    tick(now)                   close a round whose time is up

A client whose message is wrong loses its place and is counted; the round goes on. Too few updates abort the round: the
model stays, and the next one begins. A client that is proved to have broken secure aggregation is named, and left out
of the rest of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any

import numpy as np

from tacit.channel import sentence
from tacit.errors import PeerError, Unfit
from tacit.events import (
    BudgetReached,
    ClientBlamed,
    ClientRefused,
    Evaluated,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    SharesDisputed,
    Sink,
)
from tacit.kinds.horizontal.answered import Answers, check_answers, model_digest
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.evaluation import Clusters
from tacit.kinds.horizontal.messages import HEAD_BYTES, Inference, ToClient, ToCoordinator, Update, Work
from tacit.kinds.horizontal.optimizer import Optimizer
from tacit.kinds.horizontal.protection import SMALLEST_CLIP, LocalDP, masked_sum, secure_context
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.sums import LARGEST_NORM, Part, Sum, Together, check_samples, group_size
from tacit.kinds.horizontal.task import Arrays
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg.messages import Abort, Advertise, Agreed, Masked, Reveal, Shares, Survivors, unpack_ids
from tacit.secagg.server import Server
from tacit.secagg.server import State as SecureState
from tacit.secagg.unmask import Unmasking, unmask_ranges
from tacit.wire import encode

Outgoing = list[tuple[int, ToClient]]
_NAMED = 10  # clients in one event
SAMPLING = 10  # what a seed is for: each purpose draws from a stream of its own


_STAGES = {
    SecureState.ADVERTISING: "advertise keys",
    SecureState.SHARING: "share secrets",
    SecureState.UPLOADING: "train and upload",
    SecureState.AGREEING: "agree on survivors",
    SecureState.REVEALING: "reveal shares",
    SecureState.READY: "open the sum",
}


def sample(
    settings: Settings, number: int, available: Collection[int] | None = None, excluded: Collection[int] = ()
) -> list[int]:
    """Who is sent the model: of those that are available, and of the others only where these are too few. Never one
    that is excluded: if all others are too few for a round, these are sampled.

    Drawn from the seed, which everybody may know: no amplification is claimed for it.
    """
    draw = np.random.default_rng([settings.seed, SAMPLING, number])
    there = range(settings.clients) if available is None else sorted(available)
    if excluded:
        there = sorted(set(there).difference(excluded))
    if len(there) >= settings.sampled:
        chosen = draw.choice(len(there), settings.sampled, replace=False)
        return sorted(there[place] for place in chosen.tolist())
    absent = sorted(set(range(settings.clients)).difference(there, excluded))
    filled = draw.choice(len(absent), min(len(absent), settings.sampled - len(there)), replace=False)
    return sorted([*there, *(absent[place] for place in filled.tolist())])


class Phase(Enum):
    BETWEEN = auto()  # rounds
    COLLECTING = auto()
    FINISHED = auto()


class Coordinator:
    """The coordinator.

    Args:
        model: before the first round.
        evaluate: judges a model on the coordinator's own data.
        classes: the length of an inference vector, where the model is judged by those.
        unmasking: takes the masks off a sum, in ranges of columns; here, one after the other, by default.
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
        classes: int | None = None,
        unmasking: Unmasking = unmask_ranges,
    ) -> None:
        self._unmasking = unmasking
        self.layout = Layout.of(model)
        self.phase = Phase.BETWEEN
        self.round = 0  # of which `round` are over
        self.attempts = 0  # rounds begun, those that a stopped run abandoned included: the number of the next one
        self.uploads: Counter[int] = Counter()  # how often each client was sent the model, where that costs it
        self.sums = 0  # that were opened, or could have been, where that costs
        self.budget_reached = False
        self.excluded: frozenset[int] = frozenset()  # clients that are not sampled any more
        self._settings = settings
        self._answers = Answers(settings)
        self._unwilling: set[int] = set()  # who declined the present model
        self._model = self.layout.flatten(model).copy()
        if not np.isfinite(self._model).all():
            raise ValueError("the task's model holds NaN or infinite numbers: model() must return finite ones")
        self._sink = sink
        self._clock = clock
        self._evaluate = evaluate
        self._identities = identities
        self._classes = classes
        self.costs = Costs(settings, self.layout.size)
        self._optimizer = Optimizer(settings.server, self.layout.size)
        self._local = LocalDP.of(settings) if settings.encrypt.encrypt_type == "DP_ENCRYPT" else None
        self._clip = settings.encrypt.dp_encrypt.dp_norm_clip
        self._secure: Server | None = None
        if settings.masked:
            secure_context(settings, self.layout, self._model, 0)  # refused before the first round, if at all
        self._open()

    def _open(self) -> None:
        """Forget the last round."""
        self._sampled: frozenset[int] = frozenset()
        self._waiting: set[int] = set()  # who may still answer
        self._arrived: set[int] = set()
        self._refused: dict[int, str] = {}  # and why
        self._refused_late: dict[int, str] = {}  # for an update of an earlier round
        self._named: set[tuple[str, int]] = set()  # as blamed, or as one that disputes
        self._losses: list[tuple[float, int]] = []
        self._up: Counter[str] = Counter()  # largest message of each kind: what one client sends
        self._down: Counter[str] = Counter()  # and is sent
        self._stages: dict[str, float] = {}
        self._clusters: Clusters | None = None
        self._deadline = float("inf")

    @property
    def model(self) -> Arrays:
        return self.layout.unflatten(self._model)

    @property
    def over(self) -> bool:
        """Whether no round is left: all are done, or the budget allowed no more, in an earlier process too."""
        return self.round >= self._settings.rounds or self.budget_reached

    def check_left(self) -> None:
        """Raise Unfit if too few clients are left for a round."""
        left = self._settings.clients - len(self.excluded)
        if self.excluded and left < self._settings.least:
            raise Unfit(
                f"{len(self.excluded)} clients broke secure aggregation and are excluded, {left} are left, and a round "
                f"needs {self._settings.least}: start a new run without them"
            )

    def begin(self, now: float, available: Collection[int] | None = None) -> Outgoing:
        """Open the next round, or finish: after the last one, or before one that the budget does not allow.

        `available`: who is there to be sampled; everybody by default.
        """
        if self.phase is not Phase.BETWEEN:
            raise ValueError(f"a round begins between rounds, not while {self.phase.name}")
        settings = self._settings
        if self.over:
            self.phase = Phase.FINISHED
            return []
        if self.attempts >= settings.answers:
            raise Unfit(
                f"{self.attempts} rounds were begun and {self.round} finished: clients answer no more than "
                f"{settings.answers} times. To resume, raise round.abandoned_rounds in the file of every party"
            )
        self.check_left()
        sampled = sample(settings, self.attempts, self._willing(available), self.excluded)
        if not self._affordable(sampled):
            self.phase = Phase.FINISHED
            self.budget_reached = True
            return []
        self._open()
        self._sampled = frozenset(sampled)
        self._waiting = set(sampled)
        number = self.attempts
        self.attempts += 1
        self._answers.begin()
        if self.costs.local:
            self.uploads.update(sampled)  # whoever is sent the model may upload, and then it is out, of use or not
        if self.costs.central:
            self.sums += 1  # taken back if the round ends before the sum could be opened
        self._started = self._marked = self._clock()
        self.phase = Phase.COLLECTING
        if settings.unsupervised is not None and self._classes is not None:
            self._clusters = Clusters(settings, self._classes)
        clip = None
        match settings.encrypt.encrypt_type:
            case "NOT_ENCRYPT":
                self._sum = Sum(self._model, LARGEST_NORM, group_size(settings))
            case "DP_ENCRYPT" if self._local is not None:
                clip = self._clip
                self._sum = Sum(self._model, self._local.largest_norm(self.layout.size, clip), group_size(settings))
            case "PW_ENCRYPT" | "DDP_ENCRYPT":
                self._context = secure_context(settings, self.layout, self._model, number)
                window = settings.round.update_model_time_window / 1000
                # Clients know from the file how many are invited: of those that are excluded, some may have to be.
                filled = sorted(self.excluded)[: settings.sampled - len(sampled)]
                self._secure = Server(
                    self._context,
                    [*sampled, *filled],
                    identities=self._identities,
                    upload_window=window,
                    enough=settings.needed,
                    grace=settings.round.update_model_grace / 1000,
                )
                self._secure.start(now)
                for client in filled:
                    self._secure.receive(client, Abort("it is excluded"), now)
        self._deadline = now + settings.round.update_model_time_window / 1000
        self._sink.emit(RoundStarted(self.round, len(sampled)))
        shared = self._model.view()
        shared.flags.writeable = False
        self._down["Work"] = shared.nbytes + HEAD_BYTES
        return [(client, Work(number, shared, clip)) for client in sampled]

    def receive(self, sender: int, message: ToCoordinator, now: float) -> Outgoing:
        """Take a message from `sender`, whom the transport has identified."""
        try:
            if isinstance(message, Update | Inference) and (type(message.round), type(message.sender)) != (int, int):
                raise PeerError("a message whose round or sender is no number")
            if isinstance(message, Abort):
                return self._left_by_itself(sender, message, now)
            if isinstance(message, Update):
                return self._update(sender, message, now)
            if isinstance(message, Inference):
                self._inferred(sender, message)
                return []
            if isinstance(message, Masked) and sender in self._sampled:
                self._answers.uploaded(sender)
            if self._secure is None:
                if not self._settings.masked:
                    raise PeerError(f"{type(message).__name__} belongs to secure aggregation, which is not used here")
                return []  # the sum was opened before this one's share arrived
            late, stage = self._secure.late, self._secure.state
            outgoing = self._secure.receive(sender, message, now)
            if isinstance(message, Masked) and self._secure.late > late:
                self.refuse(sender, "its masked update came too late")
            self._count_up(message)
            return self._after_secure(outgoing, stage)
        except PeerError as error:
            number = message.round if isinstance(message, Update) else None
            belated = type(number) is int and number < self.attempts - (self.phase is Phase.COLLECTING)
            self.refuse(sender, str(error), max(0, self.round - 1) if belated else None)
            if not belated:  # one that is late for an earlier round may still be in time for this one
                self.left(sender)
            return []

    def receive_together(self, several: Together, now: float) -> Outgoing:
        """Take what several clients sent, checked and added up by a worker of this coordinator's own.

        Assumes: the worker is trusted as the coordinator itself is: it did the checks of `receive` on each message.
        """
        if several.round != self.attempts - 1 or self.phase is not Phase.COLLECTING:
            raise ValueError("a sum of another round: it was not taken in time")
        if isinstance(several.total, Part):
            return self._updates(several, several.total, now)
        if self._secure is None:
            raise ValueError("masked words, and no secure aggregation is under way")
        stage = self._secure.state
        for sender in several.senders:
            self._answers.uploaded(sender)
        outgoing = self._secure.receive_sum(several.senders, several.session, several.total, now)
        self._up["Masked"] = max(self._up["Masked"], several.largest)
        return self._after_secure(outgoing, stage)

    def refuse(self, client: int, reason: str, number: int | None = None) -> None:
        """A client loses its place in a round, this one unless another is named. One word about each is enough."""
        number = self.round if number is None else number
        refused = self._refused if number == self.round else self._refused_late
        if client in refused or not 0 <= client < self._settings.clients:
            return
        refused[client] = reason[:300]
        self._sink.emit(ClientRefused(number, client, refused[client]))

    def tick(self, now: float) -> Outgoing:
        """Close what is overdue."""
        if self.phase is not Phase.COLLECTING:
            return []
        if self._secure is not None:
            stage = self._secure.state
            return self._after_secure(self._secure.tick(now), stage)
        if now >= self._deadline:
            self._close()
        return []

    # --- updates in the clear or with noise

    def _update(self, sender: int, message: Update, now: float) -> Outgoing:
        if message.sender != sender:
            raise PeerError(f"client {sender} sent an update of client {message.sender}")
        if message.round != self.attempts - 1 or self.phase is not Phase.COLLECTING or self._secure is not None:
            raise PeerError("an update that is too late or out of turn")
        if sender in self._arrived:
            raise PeerError("a second update in one round")
        if sender not in self._sampled or sender in self._refused:  # one that was given up may be back in time
            raise PeerError("an update of a client that was not sampled")
        if not isinstance(message.vector, np.ndarray):
            raise PeerError("an update that is no array")
        if self._local is None:
            self._sum.add_model(message.vector, check_samples(message.samples, self._settings))
            if isinstance(message.loss, float) and abs(message.loss) < 1e30:
                self._losses.append((message.loss, message.samples or 0))
        else:
            if message.samples is not None or message.loss is not None:
                raise PeerError("an update with more than its protection lets out")
            self._sum.add_update(message.vector)
        self._waiting.discard(sender)
        self._arrived.add(sender)
        self._up["Update"] = max(self._up["Update"], message.vector.nbytes + HEAD_BYTES)
        self._close_early(now)
        return []

    def _updates(self, several: Together, part: Part, now: float) -> Outgoing:
        if not self._waiting.issuperset(several.senders) or part.count != len(several.senders):
            raise ValueError("a sum of clients that are not waited for")
        self._sum.add_part(part)
        self._losses += several.losses
        self._waiting.difference_update(several.senders)
        self._arrived.update(several.senders)
        self._up["Update"] = max(self._up["Update"], several.largest)
        self._close_early(now)
        return []

    def _close_early(self, now: float) -> None:
        """Close the round if nobody is waited for; if there are updates enough, the others have the grace left."""
        if not self._waiting:
            self._close()
        elif len(self._arrived) >= self._settings.needed:
            self._deadline = min(self._deadline, now + self._settings.round.update_model_grace / 1000)

    def _willing(self, available: Collection[int] | None) -> Collection[int] | None:
        """Of the clients that are there those that did not decline the present model."""
        if not self._unwilling:
            return available
        there = range(self._settings.clients) if available is None else available
        willing = [client for client in there if client not in self._unwilling]
        if len(there) >= self._settings.least > len(willing):
            raise Unfit(
                f"the model is the same as in earlier rounds, and {len(self._unwilling)} clients declined to answer it "
                f"again (round.repeats is {self._settings.round.repeats}): {len(willing)} are left, and a round needs "
                f"{self._settings.least}. To resume, raise round.repeats in the file of every party"
            )
        return willing

    def _left_by_itself(self, sender: int, message: Abort, now: float) -> Outgoing:
        """A client leaves out the rest of the round, and said why."""
        if self.phase is Phase.COLLECTING and sender in self._sampled:
            self.refuse(sender, sentence(message.reason))
            at_once = self._secure is not None and self._secure.state is SecureState.ADVERTISING
            if at_once and self._settings.encrypt.encrypt_type == "PW_ENCRYPT":
                self._unwilling.add(sender)
        return self.gone(sender, now)

    def gone(self, client: int, now: float) -> Outgoing:
        """A client will not come back to this round: under masks too, nobody waits for it."""
        if self._secure is None:
            self.left(client)
            return []
        stage = self._secure.state
        return self._after_secure(self._secure.receive(client, Abort("it left"), now), stage)

    def left(self, client: int) -> None:
        """A client is gone and not waited for."""
        self._waiting.discard(client)
        if self.phase is Phase.COLLECTING and self._secure is None and not self._waiting:
            self._close()

    def _close(self) -> None:
        self._mark("train and upload")
        if self._sum.count < self._settings.needed:
            self._abort(f"{self._sum.count} updates, {self._settings.needed} are needed")
            return
        count = self._sum.count
        self._finish(self._sum.mean(), count)

    # --- updates under masks

    def _after_secure(self, outgoing: Sequence[tuple[int, ToClient]], stage: SecureState) -> Outgoing:
        """Go on from `stage`, in which the aggregation was before its last message."""
        secure = self._secure
        if secure is None or self.phase is not Phase.COLLECTING:
            return []
        self._name(secure)
        if secure.state is not stage:
            self._mark(_STAGES[stage])
        for _, message in outgoing:
            self._count_down(message)
        if stage is SecureState.UPLOADING and outgoing and isinstance(told := outgoing[0][1], Survivors):
            self._answers.opened(unpack_ids(told.alive))
        if secure.state is SecureState.ABORTED:
            if self.costs.central and stage < SecureState.AGREEING:
                self.sums -= 1  # nobody was asked to reveal anything
            self._abort(secure.reason)
        elif secure.state is SecureState.READY:
            result = secure.finish(shards=self._settings.server_num, unmasking=self._unmasking)
            if len(result.survivors) < self._settings.needed:
                self._abort(f"{len(result.survivors)} updates, {self._settings.needed} are needed")
                return []
            inside = masked_sum(self._settings, self.layout.size)
            try:
                mean = inside.decode(result.words, len(result.survivors), self._context.digest())
            except PeerError as error:
                self._abort(str(error))
                return []
            self._mark(_STAGES[SecureState.READY])
            self._finish(mean, len(result.survivors))
        return list(outgoing)

    def _name(self, secure: Server) -> None:
        """Say who broke the protocol, and who says so of another without proof: of each once in a round."""
        for client, reason in secure.blamed.items():
            if ("blamed", client) not in self._named:
                self._named.add(("blamed", client))
                if self._settings.round.exclude:
                    self.excluded |= {client}
                self._sink.emit(ClientBlamed(self.round, client, reason[:300], self._settings.round.exclude))
        for holder, owners in secure.disputes.items():
            if ("disputes", holder) not in self._named:
                self._named.add(("disputes", holder))
                self._sink.emit(SharesDisputed(self.round, holder, list(owners[:_NAMED]), len(owners)))

    def _count_up(self, message: ToCoordinator) -> None:
        kind = type(message).__name__
        if isinstance(message, Advertise | Shares | Masked | Agreed | Reveal) and kind not in self._up:
            self._up[kind] = len(encode(message))  # those of one kind are of one size, or nearly

    def _count_down(self, message: ToClient) -> None:
        kind = type(message).__name__
        if not isinstance(message, Work) and kind not in self._down:
            self._down[kind] = len(encode(message))

    # --- inference vectors

    def _inferred(self, sender: int, message: Inference) -> None:
        """Take a client's vectors. Wrong ones are not scored; the client's update is none the worse."""
        if self._clusters is None or message.round != self.attempts - 1:
            return  # scored already, or too late
        if message.sender != sender:
            raise PeerError(f"client {sender} sent vectors of client {message.sender}")
        if sender not in self._sampled:
            raise PeerError("inference vectors of a client that was not sampled")
        with suppress(PeerError):  # counted among the malformed, and told with the score
            self._up["Inference"] = self._clusters.add(sender, message.vectors) + HEAD_BYTES
        if self._clusters.complete:
            self._score()

    def _score(self) -> None:
        if self._clusters is None or self._settings.unsupervised is None:
            return
        score = self._clusters.score()
        self._sink.emit(
            Evaluated(
                self.round,
                self._settings.unsupervised.eval_type,
                score.value,
                score.reason,
                score.clients,
                score.vectors,
                score.clusters,
            )
        )
        self._clusters = None

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
        if not np.array_equal(moved, self._model):
            self._answers.moved()
            self._unwilling = set()
        self._model = moved
        norm = float(np.linalg.norm(update))
        if self._settings.encrypt.dp_encrypt.adaptive and self._local is not None:
            chosen = self._settings.encrypt.dp_encrypt
            wanted = max(chosen.adaptive_factor * norm, SMALLEST_CLIP * chosen.dp_norm_clip)
            self._clip = min(self._clip, wanted)
        self._score()
        self._mark("move the model")
        metrics = _numbers(self._evaluate(self.model)) if self._evaluate else {}
        self._mark("evaluate")
        spent = self.spent()
        updates = next((each for each in spent if "updates" in each.covers), None)
        composed = next((each for each in spent if each.view == "composed"), None)
        total = sum(weight for _, weight in self._losses)
        self._sink.emit(
            RoundFinished(
                round=self.round,
                survivors=survivors,
                refused=len(self._refused),
                seconds=self._clock() - self._started,
                bytes_up=sum(self._up.values()),
                metrics=metrics,
                training_loss=sum(loss * weight for loss, weight in self._losses) / total if total else None,
                epsilon=updates.epsilon if updates else None,
                epsilon_of=" and ".join(updates.covers) if updates else "updates",
                delta=updates.delta if updates else None,
                update_norm=norm,
                evaluation_epsilon=self.costs.inference_epsilon(self._most_uploads),
                bytes_down=sum(self._down.values()),
                stages=self._stages,
                composed_epsilon=composed.epsilon if composed else None,
                composed_delta=composed.delta if composed else None,
            )
        )
        self._next()

    def _abort(self, reason: str) -> None:
        """End the round without a new model, and say why, with what kept most of the clients that lost their place."""
        self._score()
        for why, clients in Counter(self._refused.values()).most_common(1):
            reason = f"{reason} ({clients} refused: {why})"
        self._sink.emit(RoundAborted(self.round, reason, self._clock() - self._started))
        self._next()

    def _next(self) -> None:
        self.round += 1
        self._secure = None
        self.phase = Phase.BETWEEN

    def _mark(self, stage: str) -> None:
        """The time since the last mark was this stage's."""
        now = self._clock()
        self._stages[stage] = self._stages.get(stage, 0.0) + now - self._marked
        self._marked = now

    # --- what must survive a restart

    def state(self) -> dict[str, Any]:
        """Everything but the model. Taken while a round is under way, it says that this round was abandoned."""
        clients = sorted(self.uploads)
        return {
            "round": self.round,
            "attempts": self.attempts,
            "under_way": self.phase is Phase.COLLECTING,
            "budget_reached": self.budget_reached,
            "sums": self.sums,
            "clip": self._clip,
            "clients": np.array(clients, dtype=np.int64),
            "uploads": np.array([self.uploads[client] for client in clients], dtype=np.int64),
            "excluded": np.array(sorted(self.excluded), dtype=np.int64),
            **self._answers.state(self._sampled if self.phase is Phase.COLLECTING else ()),
            **self._optimizer.state(),
        }

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        """Go on from `state` and the model that belongs to it, between rounds."""
        if self.phase is not Phase.BETWEEN:
            raise ValueError(f"a coordinator is restored between rounds, not while {self.phase.name}")
        if model.keys() != set(self.layout.names):
            raise ValueError(f"a model of {', '.join(self.layout.names)} is due, got {', '.join(model)}")
        flat = self.layout.flatten({name: model[name] for name in self.layout.names}).copy()  # files sort their names
        if not np.isfinite(flat).all():
            raise ValueError("the stored model has NaN or infinite numbers")
        _check_state(state, self._settings)
        self._model = flat
        self.round, self.attempts, self.sums = state["round"], state["attempts"], state["sums"]
        self._clip = state["clip"]
        self.budget_reached = bool(state.get("budget_reached", False))
        self.uploads = Counter(dict(zip(state["clients"].tolist(), state["uploads"].tolist(), strict=True)))
        self.excluded = frozenset(state["excluded"].tolist()) if "excluded" in state else frozenset()
        self._answers.restore(state)
        self._optimizer.restore(state)

    def answered(self, clients: Collection[int]) -> dict[int, dict[str, Any]]:
        """What simulated clients had answered before the round under way: see `Client.restore`. They are taken to have
        paid for all that they were asked."""
        digest = model_digest(self.layout, self._model) if self._settings.masked else ""
        before = {"attempts": self.attempts - 1, "sums": max(0, self.sums - 1)}
        return {
            client: {**before, "uploads": max(0, self.uploads[client] - 1), **self._answers.of(client, digest)}
            for client in clients
        }

    # --- what it costs

    @property
    def _most_uploads(self) -> int:
        return max(self.uploads.values(), default=0)

    def spent(self) -> list[Spent]:
        """What the run cost so far: the client with the most uploads, and the sums. Infinite without secret noise."""
        return self.costs.spent(self._most_uploads, self.sums)

    def _affordable(self, sampled: list[int]) -> bool:
        beyond = self.costs.beyond(max(self.uploads[client] for client in sampled) + 1, self.sums + 1)
        if beyond is None or beyond.ledger.budget is None:
            return True
        limit, of = beyond.ledger.budget.epsilon, " and ".join(beyond.covers)
        self._sink.emit(BudgetReached(self.round, beyond.epsilon, limit, beyond.delta, of))
        return False


def _numbers(metrics: object) -> dict[str, float]:
    """What a task's `evaluate` returned."""
    if not isinstance(metrics, dict):
        raise TypeError(f"evaluate() must return a dict of numbers, got {type(metrics).__name__}")
    for name, value in metrics.items():
        if not isinstance(value, int | float | np.number):
            raise TypeError(f"evaluate() must return numbers, and {name!r} is {type(value).__name__}")
    return {str(name): float(value) for name, value in metrics.items()}


def _check_state(state: dict[str, Any], settings: Settings) -> None:
    """Refuse a state that no run can have stored: with less spent than it must be, above all."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"the stored state cannot be: {what}")

    for name in ("round", "attempts", "sums"):
        require(type(state.get(name)) is int and state[name] >= 0, f"{name} is {state.get(name)!r}")
    require(state["round"] <= state["attempts"], f"{state['round']} rounds finished of {state['attempts']} begun")
    require(state["sums"] <= state["attempts"], f"{state['sums']} sums of {state['attempts']} rounds")
    clip = state.get("clip")
    require(type(clip) is float and 0 < clip <= settings.encrypt.dp_encrypt.dp_norm_clip, f"clip is {clip!r}")
    clients, uploads = state.get("clients"), state.get("uploads")
    whole = all(isinstance(a, np.ndarray) and a.dtype == np.int64 and a.ndim == 1 for a in (clients, uploads))
    require(whole and len(clients) == len(uploads) == len(set(clients.tolist())), "its uploads have no clients")  # type: ignore[union-attr, arg-type]
    require(all(0 <= client < settings.clients for client in clients.tolist()), "it names strangers")  # type: ignore[union-attr]
    require(all(0 < count <= state["attempts"] for count in uploads.tolist()), "its uploads are impossible")  # type: ignore[union-attr]
    excluded = state.get("excluded", np.empty(0, dtype=np.int64))
    require(isinstance(excluded, np.ndarray) and excluded.dtype == np.int64, "its excluded clients are no numbers")
    require(all(0 <= client < settings.clients for client in excluded.tolist()), "it excludes unknown clients")
    check_answers(state, settings)
