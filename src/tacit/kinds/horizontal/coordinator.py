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
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any

import numpy as np

from tacit.channel import sentence
from tacit.errors import PeerError, Unfit
from tacit.events import BudgetReached, Cause, Evaluated, RoundAborted, RoundFinished, RoundStarted, Sink, StoppedEarly
from tacit.kinds.horizontal import record_level
from tacit.kinds.horizontal.answered import Answers, model_digest
from tacit.kinds.horizontal.carrier import Carrier, Failed, Gathering, Host, Mean, Opening, carrier_of
from tacit.kinds.horizontal.coordinator_state import check_state
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.download import download, same_download
from tacit.kinds.horizontal.evaluation import Clusters, numbers_of
from tacit.kinds.horizontal.messages import HEAD_BYTES, Inference, Outgoing, ToCoordinator, Update, Work
from tacit.kinds.horizontal.optimizer import Optimizer
from tacit.kinds.horizontal.sampling import sample
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.stopping import Stopping
from tacit.kinds.horizontal.sums import Together
from tacit.kinds.horizontal.tally import Tally
from tacit.kinds.horizontal.task import Arrays
from tacit.kinds.horizontal.vector import Flat, Layout, is_finite, read_only
from tacit.secagg.messages import Abort, Masked
from tacit.secagg.unmask import Unmasking, unmask_ranges


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
        carrier: of the federation.
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
        carrier: Carrier | None = None,
    ) -> None:
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
        self._host = Host(identities, unmasking, self._answers)
        self._model = self.layout.own(model)
        if not is_finite(self._model):
            raise ValueError("the task's model holds NaN or infinite numbers: model() must return finite ones")
        self._sink = sink
        self._clock = clock
        self._evaluate = evaluate
        self._classes = classes
        self.costs = Costs(settings, self.layout.size)
        self._optimizer = Optimizer(settings.server, self.layout.size)
        # Without an evaluation nothing is watched: a run is refused by `check_stop`, an audit plays on without.
        self._stopping = Stopping(settings.stop) if settings.stop is not None and evaluate is not None else None
        self._carrier = carrier or carrier_of(settings, self.layout)
        self._clip = self._carrier.first_clip
        self._sampled: frozenset[int] = frozenset()  # of the round under way, or of the last one
        self._tally = Tally(0, sink, clock)  # likewise
        self.gathering: Gathering | None = None  # while a round is under way
        self._clusters: Clusters | None = None

    @property
    def model(self) -> Arrays:
        """Read-only: the task judges it, and clients are sent the same memory."""
        return self.layout.unflatten(read_only(self._model))

    @property
    def over(self) -> bool:
        """Whether no round is left: all are done, the budget allowed no more, or the model no longer improves; in an
        earlier process too."""
        return self.round >= self._settings.rounds or self.budget_reached or bool(self.stopped_early)

    @property
    def stopped_early(self) -> str:
        """Why the run ended before its last round; empty if it did not."""
        return self._stopping.reason if self._stopping is not None else ""

    def check_stop(self) -> None:
        """ValueError if the file stops by a metric that the task does not return. Before the first round."""
        if self._settings.stop is not None:
            Stopping(self._settings.stop).check(self._metrics())

    @property
    def left_out(self) -> frozenset[int]:
        """Clients that are not sampled any more: excluded, or at the cap of `round.participations`."""
        return self.excluded | self._answers.participations.at_cap

    def check_left(self) -> None:
        """Raise Unfit if too few clients are left for a round."""
        settings, left_out = self._settings, self.left_out
        left = settings.clients - len(left_out)
        if not left_out or left >= settings.least:
            return
        found = [f"{len(self.excluded)} clients broke secure aggregation and are excluded"] if self.excluded else []
        remedy = "start a new run without them"
        if capped := left_out - self.excluded:
            found.append(
                f"{len(capped)} clients took part as often as a client does (round.participations is "
                f"{settings.round.participations})"
            )
            remedy = "start a new run with a larger round.participations, more clients or fewer rounds"
        raise Unfit(f"{', '.join(found)}, {left} are left, and a round needs {settings.least}: {remedy}")

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
        left_out = self.left_out
        sampled = sample(settings, self.attempts, self._answers.willing(available), left_out)
        if not self._affordable(sampled):
            self.phase = Phase.FINISHED
            self.budget_reached = True
            self._take_best()
            return []
        self._sampled = frozenset(sampled)
        number = self.attempts
        self.attempts += 1
        self._answers.begin()
        if self.costs.local or settings.train.privacy is not None:
            self.uploads.update(sampled)  # a client that is sent the model may upload: count it, of use or not
        if self.costs.central:
            self.sums += 1  # taken back if the round ends before the sum could be opened
        self._tally = Tally(self.round, self._sink, self._clock)
        self.phase = Phase.COLLECTING
        self._clusters = None
        if settings.unsupervised is not None and self._classes is not None:
            self._clusters = Clusters(settings, self._classes)
        sent = download(self.layout, self._model, settings.round.down)
        opening = Opening(number, sent.model, self._clip, sampled, left_out)
        self.gathering = self._carrier.gathering(opening, self._host, self._tally, now)
        self._sink.emit(RoundStarted(self.round, len(sampled)))
        self._tally.down["Work"] = sent.nbytes + HEAD_BYTES
        work = Work(number, sent.model, self._carrier.sent_clip(self._clip), sent.coded)
        return [(client, work) for client in sampled]

    def receive(self, sender: int, message: ToCoordinator, now: float) -> Outgoing:
        """Take a message from `sender`, whom the transport has identified."""
        try:
            if isinstance(message, Update | Inference) and (type(message.round), type(message.sender)) != (int, int):
                raise PeerError("a message whose round or sender is no number")
            if isinstance(message, Update) and message.sender != sender:
                raise PeerError(f"client {sender} sent an update of client {message.sender}")
            if isinstance(message, Inference):
                self._inferred(sender, message)
                return []
            if isinstance(message, Masked) and sender in self._sampled:
                self._answers.uploaded(sender)  # also if its sum was opened without it
            if isinstance(message, Abort) and self.phase is Phase.COLLECTING and sender in self._sampled:
                self.refuse(sender, sentence(message.reason), why="left")  # out of the rest of the round, as it says
            if self.gathering is not None:
                return self._after(self.gathering.receive(sender, message, now))
            if not isinstance(message, Abort):
                self._carrier.stray(message)
            return []
        except PeerError as error:
            number = message.round if isinstance(message, Update) else None
            belated = type(number) is int and number < self.attempts - (self.phase is Phase.COLLECTING)
            self.refuse(sender, str(error), *((max(0, self.round - 1), "late") if belated else ()))
            if not belated:  # one that is late for an earlier round may still be in time for this one
                self.left(sender)
            return []

    def receive_together(self, several: Together, now: float) -> Outgoing:
        """Take what several clients sent, checked and added up by a worker of this coordinator's own.

        Assumes: the worker is trusted as the coordinator itself is: it did the checks of `receive` on each message.
        """
        if several.round != self.attempts - 1 or self.gathering is None:
            raise ValueError("a sum of another round: it was not taken in time")
        return self._after(self.gathering.receive_together(several, now))

    def refuse(self, client: int, reason: str, number: int | None = None, why: Cause = "message") -> None:
        """A client loses its place in a round, this one unless another is named. One word about each is enough."""
        if 0 <= client < self._settings.clients:
            number = self.round if number is None else number
            self._tally.refuse(client, reason, number, late=number != self.round, why=why)

    def tick(self, now: float) -> Outgoing:
        """Close what is overdue."""
        return [] if self.gathering is None else self._after(self.gathering.tick(now))

    def gone(self, client: int, now: float) -> Outgoing:
        """A client will not come back to this round: under masks too, nobody waits for it."""
        return [] if self.gathering is None else self._after(self.gathering.gone(client, now))

    def left(self, client: int) -> None:
        """A client is gone and not waited for."""
        if self.gathering is not None:
            self.gathering.left(client)
            self._after([])

    def _after(self, outgoing: Outgoing) -> Outgoing:
        """Take up the result of the round, if it is over."""
        if self.gathering is None:
            return outgoing
        if self._settings.round.exclude:
            self.excluded |= frozenset(self.gathering.blamed)
        over = self.gathering.over
        if over is not None:
            self.gathering = None
        match over:
            case Mean(update, survivors):
                self._finish(update, survivors)
            case Failed(reason, opened):
                if self.costs.central and not opened:
                    self.sums -= 1
                self._abort(reason)
        return outgoing

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
            self._tally.up["Inference"] = self._clusters.add(sender, message.vectors) + HEAD_BYTES
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
            update = update.astype(self.layout.dtype, copy=False)
            norm = float(np.linalg.norm(update))
            moved = self._optimizer.step(self._model, update)
        if not is_finite(moved):
            self._optimizer.restore(before)
            self._abort("the step leads to NaN or infinite numbers: lower server.learning_rate or train.learning_rate")
            return
        if not same_download(self.layout, moved, self._model, self._settings.round.down):
            self._answers.moved()
        self._model = moved
        self._clip = self._carrier.next_clip(self._clip, norm)
        self._score()
        tally = self._tally
        tally.mark("move the model")
        metrics = self._metrics()
        tally.mark("evaluate")
        if self._stopping is not None:
            self._stopping.look(self.round, metrics, self._model)
        spent = self.spent()
        updates = next((each for each in spent if "updates" in each.covers), None)
        composed = next((each for each in spent if each.view == "composed"), None)
        self._sink.emit(
            RoundFinished(
                round=self.round,
                survivors=survivors,
                refused=len(tally.refused),
                seconds=tally.seconds,
                bytes_up=sum(tally.up.values()),
                metrics=metrics,
                training_loss=tally.training_loss,
                epsilon=updates.epsilon if updates else None,
                epsilon_of=" and ".join(updates.covers) if updates else "updates",
                delta=updates.delta if updates else None,
                update_norm=norm,
                evaluation_epsilon=self.costs.inference_epsilon(self._most_uploads),
                bytes_down=sum(tally.down.values()),
                stages=tally.stages,
                composed_epsilon=composed.epsilon if composed else None,
                composed_delta=composed.delta if composed else None,
            )
        )
        self._next()

    def _abort(self, reason: str) -> None:
        """End the round without a new model, and say why, with what kept most of the clients that lost their place."""
        self._score()
        for why, clients in Counter(self._tally.refused.values()).most_common(1):
            reason = f"{reason} ({clients} refused: {why})"
        self._sink.emit(RoundAborted(self.round, reason, self._tally.seconds))
        self._next()

    def _metrics(self) -> dict[str, float]:
        return numbers_of(self._evaluate(self.model)) if self._evaluate else {}

    def _next(self) -> None:
        self.round += 1
        self.phase = Phase.BETWEEN
        if self.over:
            self._take_best()

    def _take_best(self) -> None:
        """The run ends, with the best model if the file has its metric watched."""
        best = self._stopping.best if self._stopping is not None else None
        if best is None:
            return
        if not np.array_equal(best.model, self._model):
            self._model = best.model.copy()
            self._answers.moved()
        if self.stopped_early:
            self._sink.emit(StoppedEarly(self.round - 1, self.stopped_early, best.round, best.value))

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
            **(self._stopping.state() if self._stopping is not None else {}),
        }

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        """Continue from `state` and the model that belongs to it, between rounds."""
        if self.phase is not Phase.BETWEEN:
            raise ValueError(f"a coordinator is restored between rounds, not while {self.phase.name}")
        if model.keys() != set(self.layout.names):
            raise ValueError(f"a model of {', '.join(self.layout.names)} is due, got {', '.join(model)}")
        flat = self.layout.own({name: model[name] for name in self.layout.names})  # files sort their names
        if not is_finite(flat):
            raise ValueError("the stored model has NaN or infinite numbers")
        check_state(state, self._settings, self._carrier.first_clip)
        self._model = flat
        self.round, self.attempts, self.sums = state["round"], state["attempts"], state["sums"]
        self._clip = state["clip"]
        self.budget_reached = bool(state.get("budget_reached", False))
        self.uploads = Counter(dict(zip(state["clients"].tolist(), state["uploads"].tolist(), strict=True)))
        self.excluded = frozenset(state["excluded"].tolist()) if "excluded" in state else frozenset()
        self._answers.restore(state)
        self._optimizer.restore(state)
        if self._stopping is not None:
            self._stopping.restore(state, self.layout.size)

    def answered(self, clients: Collection[int]) -> dict[int, dict[str, Any]]:
        """What simulated clients had answered before the round under way: see `Client.restore`. They are taken to have
        paid for all that they were asked."""
        sent = download(self.layout, self._model, self._settings.round.down)
        digest = model_digest(self.layout, sent.model) if self._answers.counts else ""
        before, opened = {"attempts": self.attempts - 1}, max(0, self.sums - 1)
        return {
            client: {
                **before,
                "sums": opened if self._settings.round.participations is None else self._answers.participations[client],
                "uploads": max(0, self.uploads[client] - 1),
                **self._answers.of(client, digest),
            }
            for client in clients
        }

    # --- what it costs

    @property
    def _most_uploads(self) -> int:
        return max(self.uploads.values(), default=0)

    def spent(self) -> list[Spent]:
        """What the run cost so far: the client with the most uploads, and the one in most sums, which are all of them
        unless clients take part less often. Infinite without secret noise."""
        sums = self._answers.participations.sums(self.sums)
        return self.costs.spent(self._most_uploads, sums) + record_level.promised(self._settings)

    def _affordable(self, sampled: list[int]) -> bool:
        sums = self._answers.participations.sums(self.sums, sampled)
        beyond = self.costs.beyond(max(self.uploads[client] for client in sampled) + 1, sums + 1)
        if beyond is None or beyond.ledger.budget is None:
            return True
        limit, of = beyond.ledger.budget.epsilon, " and ".join(beyond.covers)
        self._sink.emit(BudgetReached(self.round, beyond.epsilon, limit, beyond.delta, of))
        return False
