"""Sums over nearly the same clients, subtracted: what a coordinator without colluders learns of single clients.

It asks for a sum over all clients, then for one without the first, one without the second and so on. Each time it
follows the protocol, and a client whose upload it leaves out looks like one that dropped out. If the updates are the
same as before, two sums differ by the update and the sample count of one client.

    same model      the model stays as it is: clients upload for it again at most `round.repeats` times in a run
    moved model     each round has a model that differs by one unit in the last place of one number

The clients are real ones (`tacit.kinds.horizontal.client.Client`) with the file's own data. They take one step on all
their records, the case that favours the attacker: batches in another order each round blur differences, though not the
sample counts, and what is left with the file's own batches and epochs is told too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Score
from tacit.audit.intervals import CONFIDENCE, resampled
from tacit.errors import BudgetError, PeerError
from tacit.kinds.horizontal.attacks.variants import protected_by
from tacit.kinds.horizontal.attacks.view import nothing_to_attack
from tacit.kinds.horizontal.masked import inside_of, secure_context
from tacit.kinds.horizontal.messages import ToClient, ToCoordinator, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections import MASKS, one_of
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.record_privacy import weighted
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Task
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.messages import Abort, Masked
from tacit.secagg.server import Server, State

Models = Literal["same model", "moved model"]
_ANY_WEIGHT = 100_000  # samples of a client
_ALL = 10**6  # records in a batch: all that a client has
RECOVERED = 0.1  # relative error below which an update counts as recovered
_WORDS = {
    "same model": "sums subtracted: the same model each round, and another client left out",
    "moved model": "sums subtracted: a model that hardly moved each round, and another client left out",
}


@dataclass(frozen=True, slots=True)
class Sum:
    """What the coordinator opened of one round."""

    vector: Flat  # of all updates, weighted if they are
    weight: float  # of all samples, or the number of clients


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the differences came to, for each client."""

    errors: tuple[float, ...]  # of the update, relative to its norm; 1, as of a guess of zero, without a difference
    counted: tuple[bool, ...]  # whether the number of samples is right
    opened: int  # sums

    def updates(self) -> Score:
        hits = sum(error < RECOVERED for error in self.errors)
        return _part(f"updates recovered (relative error below {RECOVERED:g})", hits, len(self.errors))

    def error(self, how: str = "") -> Score:
        errors = np.array(self.errors)
        metric = f"median relative error of an update{how}"
        return resampled(metric, lambda drawn: float(np.median(errors[drawn])), len(errors), 1.0, True)

    def samples(self) -> Score:
        return _part("sample counts found exactly", sum(self.counted), len(self.counted))


def _part(metric: str, hits: int, of: int) -> Score:
    low, high = clopper_pearson(hits, of, CONFIDENCE)
    return Score(metric, hits / of, low, high, CONFIDENCE, 0.0, of)


class Subtracting:
    """The coordinator, with clients that it drives through rounds."""

    def __init__(self, settings: Settings, task: Task) -> None:
        self._settings, self._task = settings, task
        prepared = Prepared.of(settings, task)
        self._layout = prepared.layout
        self._sums = inside_of(settings, self._layout.size)
        self._number = 0
        self.refused: set[str] = set()  # why clients did not answer
        self._learnt: dict[int, tuple[Flat, int]] = {}  # what the first sum hides: each client's update and samples
        self._clients = {identity: prepared.client(identity, fit=self._fit) for identity in range(settings.clients)}

    def _fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        fitted = self._task.fit(client, model, work)
        if work.round == 0:
            moved = self._layout.flatten(fitted.model).astype(np.float64) - self._layout.flatten(model)
            self._learnt[client] = (moved, int(fitted.samples))
        return fitted

    def open(self, model: Flat, without: Collection[int] = ()) -> Sum | None:
        """A round with this model in which the uploads of some are left out; None if its sum is not opened."""
        context = secure_context(self._settings, self._layout, model, self._number)
        server = Server(context, self._clients.keys())
        server.start(0.0)
        outgoing: list[tuple[int, ToClient]] = [(client, Work(self._number, model)) for client in self._clients]
        self._number, now = self._number + 1, 0.0
        while server.state < State.READY:
            if not outgoing:
                now += 1e6
                outgoing = list(server.tick(now))
                continue
            answers: list[tuple[int, ToClient]] = []
            for client, message in outgoing:
                for answer in self._answers(client, message, now):
                    if not (isinstance(answer, Masked) and client in without):
                        answers += server.receive(client, answer, now)  # type: ignore[arg-type]
            outgoing = answers
        if server.state is not State.READY:
            return None
        opened = server.finish()
        count = len(opened.survivors)
        weight = self._sums.weight(opened.words, count)
        try:
            mean = self._sums.decode(opened.words, count, context.digest())
        except PeerError:
            return None
        return Sum(mean * weight, weight)

    def _answers(self, client: int, message: ToClient, now: float) -> list[ToCoordinator]:
        try:
            return self._clients[client].receive(message, now)
        except (BudgetError, PeerError, UnusableUpdate) as error:
            self.refused.add(str(error))
            return [Abort("it refused")]

    def subtract(self, models: Models) -> Recovered:
        """One sum over all, then one without each client in turn, as long as there are rounds."""
        model = self._layout.flatten(self._task.model()).copy()
        total, opened = self.open(model), 1
        errors, counted = [], []
        for victim in self._clients:
            if models == "moved model":
                model = model.copy()
                model[0] = np.nextafter(model[0], np.asarray(np.inf, model.dtype))
            part = self.open(model, {victim}) if self._number < self._settings.answers else None
            opened += part is not None
            errors.append(1.0)
            counted.append(False)
            if total is None or part is None or victim not in self._learnt:
                continue
            weight = total.weight - part.weight
            update, samples = self._learnt[victim]
            guess = (total.vector - part.vector) / (weight or 1.0)
            errors[-1] = float(np.linalg.norm(guess - update) / (np.linalg.norm(update) or 1.0))
            counted[-1] = weighted(self._settings) and weight == samples
        return Recovered(tuple(errors), tuple(counted), opened - (total is None))


def audit_differences(settings: Settings, task: Task, models: Models, *, protection: str) -> Finding:
    """Subtract sums of a federation in which all clients are in each round, as it is and without what limits that.

    Without it: no limit on repeats, no least difference, and no noise.
    """
    if not settings.masked:
        raise ValueError(f"{settings.updates.name} opens no sums: take {one_of('masked')}")
    step = settings.model_copy(update={"train": settings.train.model_copy(update={"epochs": 1, "batch": _ALL})})
    off, on = _off_and_on(step, task, models)
    own_off, own_on = _off_and_on(settings, task, models)
    how = f", with {settings.train.epochs} local epochs of batches of {settings.train.batch}"
    also = [(off.error(), on.error()), (own_off.error(how), own_on.error(how))]
    if weighted(settings):
        also.append((off.samples(), on.samples()))
    least = settings.round.least_difference
    limits = f"repeats: {settings.round.repeats}" + ("" if least is None else f", least_difference: {least}")
    return Finding(
        attack=_WORDS[models],
        adversary="server that chooses whom it leaves out, without colluders",
        sees=f"sums over all clients but one: {on.opened} were opened, {off.opened} without the protection",
        protection=f"{protection}; round: {{{limits}}}; {settings.clients} clients in each round",
        proved=settings.updates.claim(settings),
        off=off.updates(),
        on=on.updates(),
        also=tuple(also),
        not_tested=("several sums that are solved together for one client, and clients that help the coordinator",),
    )


def _off_and_on(settings: Settings, task: Task, models: Models) -> tuple[Recovered, Recovered]:
    """ValueError where no sum is opened even without the protection: nothing found then says nothing of it."""
    without = Subtracting(_unlimited(settings), task)
    off = without.subtract(models)
    if not off.opened:
        raise ValueError(nothing_to_attack("no sum was opened", without.refused))
    return off, Subtracting(settings, task).subtract(models)


def _unlimited(settings: Settings) -> Settings:
    data: dict[str, Any] = settings.model_dump()
    data["round"] |= {"repeats": settings.answers, "least_difference": None}
    data["encrypt"] = protected_by(MASKS, data["encrypt"])
    if not weighted(settings):  # the file's limit on samples is none of its protection's
        data["encrypt"]["pw_encrypt"]["largest_weight"] = _ANY_WEIGHT
    data["budget"] = None
    return Settings.model_validate(data)
