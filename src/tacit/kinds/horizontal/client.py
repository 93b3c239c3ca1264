"""One client of a horizontal federation, without I/O: feed it messages, send what it returns.

It infers and trains when it is sent a model, protects what it learnt, keeps its own ledgers and refuses what would
exceed a budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator

from tacit.crypto.signing import SigningKey
from tacit.dp.release import Event, Released
from tacit.errors import BudgetError, Declined, PeerError, TaskError
from tacit.kinds.horizontal.answered import Answered
from tacit.kinds.horizontal.bounded_participation import decline_beyond
from tacit.kinds.horizontal.carrier import Carrier, Participant, Round, carrier_of
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.evaluation import on_simplex
from tacit.kinds.horizontal.messages import Inference, ToClient, ToCoordinator, Work
from tacit.kinds.horizontal.protections import check_paid
from tacit.kinds.horizontal.protections.contract import ENORMOUS, SMALLEST_CLIP, Covers, Learned, UnusableUpdate
from tacit.kinds.horizontal.record_level import RecordLedger
from tacit.kinds.horizontal.record_privacy import most_answers
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Infers
from tacit.kinds.horizontal.vector import Layout
from tacit.randomness import seeded_rng
from tacit.secagg.messages import Abort

_TRAINING = 12  # what a seed is for: see `sampling.SAMPLING`
_LEFT_OUT = (
    "gradients of single records are not finite, and were left out: look for NaN in the data, log(0), 0/0 or overflow "
    "in the model and the loss, or lower the learning rate"
)
T = TypeVar("T")
Fit = Callable[[int, Arrays, FitWork], Fitted]


def noise_source(settings: Settings, identity: int) -> Callable[[int], Generator | None]:
    """Where a client's noise and keys come from, by round: the operating system, unless the file fixes them."""
    seed = settings.simulation.insecure_noise_seed

    def source(number: int) -> Generator | None:
        if seed is None:
            return None
        digest = hashlib.sha256(repr(("noise", seed, number, identity)).encode()).digest()
        return seeded_rng(int.from_bytes(digest, "big"))

    return source


def clipped_words(clipped: int, of: int) -> str:
    """What a site is told of numbers that were clipped."""
    return (
        f"{clipped} of {of} numbers that were learnt are beyond pw_encrypt.clip, and were clipped to it: raise it if "
        "they are many"
    )


class Client:
    """One client.

    Args:
        fit: the task's training.
        layout: of the model, known from the task.
        infers: the task, where the model is judged by what it infers.
        key, identities: for secure aggregation in active mode.
        carrier: of the federation, which clients of one process may share.
        random: gives the generator of noise and keys for a round; from the operating system by default.
        failed: is told where the task's "fit" or "infer" raised, and the error. It stays with the client: under a
            protection that would let others see it, what leaves is noise around nothing. It may raise.
    """

    def __init__(
        self,
        settings: Settings,
        identity: int,
        fit: Fit,
        layout: Layout,
        *,
        infers: Infers | None = None,
        key: SigningKey | None = None,
        identities: Mapping[int, bytes] | None = None,
        carrier: Carrier | None = None,
        random: Callable[[int], Generator | None] = lambda number: None,
        failed: Callable[[str, Exception], None] = lambda where, error: None,
    ) -> None:
        self._failed = failed
        self.identity = identity
        self._settings = settings
        self._fit = fit
        self._layout = layout
        self._infers = infers
        self._key = key
        self._identities = identities
        self._random = random
        self._carrier = carrier or carrier_of(settings, layout)
        self._round: Round | None = None  # that is under way, or was answered last
        self.withheld: list[str] = []  # why what left in the last round was noise around nothing, in words of ours
        self.notes: list[str] = []  # what else this site should know of the last round; nothing of it leaves
        self.clipped = 0  # numbers of the last update that were beyond pw_encrypt.clip; nothing of it leaves
        self._declined = False  # whether it leaves out the round that is under way
        self._costs = Costs(settings, layout.size)
        self._answered = Answered(settings)
        self._records = RecordLedger(settings)
        self.restore({"attempts": 0, "uploads": 0, "sums": 0})

    def state(self) -> dict[str, Any]:
        """What must survive a restart, as plain data: what was answered, and what it cost."""
        counters = {"attempts": self._attempts, "uploads": self._uploads, "sums": self._sums}
        return counters | self._answered.state() | self._records.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up `state`. A round that was under way is not taken up: its keys are gone."""
        self._attempts, self._uploads, self._sums = state["attempts"], state["uploads"], state["sums"]
        self._answered.restore(state)
        self._records.restore(state)
        self.local = self._costs.local_ledger(self._uploads)
        self.central = self._costs.central_ledger(self._sums)
        self.end_round()

    def spent(self) -> list[Spent]:
        """What this client paid so far."""
        return self._costs.spent(self._uploads, self._sums) + self._records.spent()

    def receive(self, message: ToClient, now: float) -> list[ToCoordinator]:
        """What to send in answer: Abort where this client leaves out the round, and says why.

        Raises BudgetError, and sends nothing, where an upload would exceed the budget.
        """
        try:
            if isinstance(message, Work):
                return self._work(message, now)
            if self._declined:
                return []
            if self._round is None:
                raise PeerError(f"{type(message).__name__} without a round of secure aggregation")
            return self._round.receive(message, now)
        except Declined as error:
            self.end_round()
            self._declined = True
            return [Abort(str(error)[:300])]

    @property
    def idle(self) -> bool:
        """Whether nothing is left to answer until the next model."""
        return self._round is None or self._round.done

    def end_round(self) -> None:
        """Drop what belongs to a round that is over."""
        self._round = None
        self.withheld, self.notes, self.clipped = [], [], 0
        self._declined = False

    def _work(self, work: Work, now: float) -> list[ToCoordinator]:
        self._check(work)
        self.end_round()
        self._attempts = work.round + 1
        decline_beyond(self._settings, self._sums)
        self._answered.begin(self._layout, work.model)
        self._pay()
        rng = self._random(work.round)
        self._round = self._carrier.round(
            Participant(
                self.identity,
                work,
                rng,
                learn=partial(self._learn, work),
                infer=partial(self._infer, work, rng),
                paid=self._paid("updates"),
                uploads=self._uploads_masked,
                opens=self._answered.open if self._settings.round.least_difference is not None else None,
                key=self._key,
                identities=self._identities,
                clips=self._clips,
            )
        )
        return self._round.start(now)

    def _clips(self, clipped: int) -> None:
        self.clipped = clipped

    def _check(self, work: Work) -> None:
        """Before anything is paid or trained."""
        if work.model.shape != (self._layout.size,) or work.model.dtype != np.dtype(self._layout.dtype):
            raise PeerError(f"a model of {work.model.shape} numbers, this task has {self._layout.size}")
        if not work.largest <= ENORMOUS:  # NaN is not
            raise PeerError("a model with NaN, infinite or enormous numbers")
        if type(work.round) is not int:
            raise PeerError("work for a round that is no number")
        if not self._attempts <= work.round < self._settings.answers:
            # Answering one round twice would let the coordinator subtract two sums.
            raise PeerError(
                f"work for round {work.round}, and {self._attempts} to {self._settings.answers - 1} are left: it was "
                "asked before, or the coordinator began anew while this client resumed its run"
            )
        smallest = SMALLEST_CLIP * self._carrier.first_clip
        if work.clip is not None and (type(work.clip) is not float or not work.clip >= smallest):
            raise PeerError(f"a clipping norm of {work.clip!r}, it must be {smallest:g} or more")

    def _pay(self) -> None:
        """Before anything is drawn. A masked upload is paid when it is sent: before that it is only looked up."""
        beyond = self._costs.beyond(self._uploads + 1, self._sums + 1)
        if beyond is not None:
            raise BudgetError(
                f"this round would bring the {beyond.view} epsilon of {' and '.join(beyond.covers)} to "
                f"{beyond.epsilon:.4g} at delta {beyond.delta:.3g}, above the budget: this client answers no more"
            )
        self._records.check()
        for cost in self._costs.local:
            self.local.spend(cost.event, cost.count)
        self._uploads += 1

    def _paid(self, covers: Covers) -> tuple[Event, ...]:
        """The events that `_pay` paid for."""
        return tuple(cost.event for cost in self._costs.local if cost.covers == covers)

    def _uploads_masked(self) -> None:
        """A masked update is about to leave: from here on others can open the sum without this client."""
        decline_beyond(self._settings, self._sums)
        for cost in self._costs.central:
            self.central.spend(cost.event, cost.count)
        self._sums += 1
        self._answered.uploads()

    def _infer(self, work: Work, rng: Generator | None) -> list[Inference]:
        """The inference vectors of this round, where the file asks for them."""
        wanted = self._settings.unsupervised
        if wanted is None or self._infers is None:
            return []
        classes = self._infers.classes
        vectors = None
        try:
            rows = self._infers.infer(self.identity, self._layout.unflatten(work.model), wanted.vectors)
            vectors = on_simplex(rows, wanted.vectors, classes)
        except Exception as error:
            self._failed("infer", error)
        protection = self._settings.vectors
        if not protection.protects:
            return [] if vectors is None else [Inference(work.round, self.identity, vectors)]
        if vectors is None:  # to stay silent would tell: what leaves is noise around nothing
            self.withheld.append("its inference failed: noise around the uniform vector was sent")
            vectors = np.full((wanted.vectors, classes), 1 / classes)
        released = protection.protect(self._settings, vectors, rng)
        event, sent = (released.event, released.value) if isinstance(released, Released) else (None, released)
        check_paid(event, self._paid("inference vectors"), "an inference vector")
        return [Inference(work.round, self.identity, sent)]

    def _learn(self, work: Work, protect: Callable[[Learned], T]) -> T:
        """Train, and protect what was learnt; a zero update where that is unusable and silence would tell so."""
        try:
            learned = self._train(work)
        except BudgetError:
            raise
        except Exception as error:
            if not isinstance(error, UnusableUpdate):
                self._failed("fit", error)
            return protect(self._nothing(work, error))
        try:
            return protect(learned)
        except UnusableUpdate as error:
            return protect(self._nothing(work, error))

    def _train(self, work: Work) -> Learned:
        model = self._layout.unflatten(work.model)
        seed = (self._settings.seed, _TRAINING, work.round, self.identity)
        settings = self._settings
        fit_work = FitWork(work.round, settings.train, seed, answers=most_answers(settings))
        fitted = self._fit(self.identity, model, fit_work)
        if not isinstance(fitted, Fitted):
            raise TypeError(f"fit must return Fitted(model, samples, loss), got {type(fitted).__name__}")
        self._pay_records(fitted)
        samples: object = fitted.samples
        if not isinstance(samples, int | np.integer) or samples < 1:
            raise UnusableUpdate("its training used no samples")
        try:
            self._layout.check(fitted.model)
        except ValueError as error:  # names, shapes and types
            raise UnusableUpdate(str(error)) from None
        loss, arrays = fitted.loss, dict(fitted.model)
        del fitted, model  # a trained model may be large, and is copied
        trained = self._layout.drain(arrays)
        if settings.train.privacy is not None:  # how many records there are, and their loss, no epsilon covers
            return Learned(work.model, trained, 1)
        return Learned(work.model, trained, int(samples), loss)

    def _pay_records(self, fitted: Fitted) -> None:
        """Before anything else is looked at: what the training left at the client, and later uploads, depend on it."""
        if self._settings.train.privacy is None or (not fitted.events and fitted.samples == 0):
            return
        self._records.pay(fitted.events)
        if fitted.left_out:
            self._failed("fit", TaskError(_LEFT_OUT))
            self.notes.append(_LEFT_OUT)

    def _nothing(self, work: Work, error: Exception) -> Learned:
        """What a client learnt whose training failed, if its protection hides that; else raise the error."""
        if not self._settings.updates.hides_failure:
            raise error
        reason = str(error) if isinstance(error, UnusableUpdate) else f"its training raised {type(error).__name__}"
        self.withheld.append(f"{reason}: noise around a zero update was sent")
        return Learned(work.model, work.model, 1)
