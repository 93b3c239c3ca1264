"""Records planted at a client, in whole federations: is this one in the data, by all uploads of the client?

The coordinator sees each model and each upload of client 0, in the clear: `train.privacy` claims its epsilon without
the help of any other protection. It made some of the client's records, or all records of some owners: their gradients
are ten times the clipping norm, in one coordinate each. A coin for each of them decides whether it is in the data of a
federation, for all rounds. The score is how far the uploads moved its coordinate, over all rounds together.

    audit_records(settings, task, scope)    the claim of as many rounds as were run, against whole federations
    guess_records(...)                      the scores, of planted records that are in the data and that are not
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.audit.attacks.canaries import NOTHING, OWN, Planted, Spots
from tacit.audit.attacks.inversion import one_thread
from tacit.audit.attacks.mechanisms import Effort, judged
from tacit.audit.finding import Finding
from tacit.audit.scope import Scope
from tacit.audit.tradeoff import Columns, Curve
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.events import Kept
from tacit.kinds.horizontal.messages import ToCoordinator, Update
from tacit.kinds.horizontal.record_privacy import most_answers
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.torch_tasks.task import TorchTask
from tacit.kinds.horizontal.vector import Layout
from tacit.training.optimizer import PrivateOptimizer
from tacit.training.sampler import Loader, Piece

LENGTH = 10.0  # of a planted gradient, in clipping norms
_OWN = 2  # records of the client's own that are trained on as they are: more would only blur what is seen
_CLIENTS = 2
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Work:
    """How many federations, of how many rounds, with how many planted records."""

    federations: int
    rounds: int
    planted: int


@dataclass(slots=True, eq=False)
class Planting:
    """A task in which some records of client 0 are the attacker's; `silent` leaves out the noise, for a comparison."""

    task: TorchTask
    spots: Mapping[str, Spots]  # by parameter, the entries that planted records have, in turn
    present: Flags  # whether each of them is in the data
    silent: bool = False
    keeps: bool = field(init=False)

    def __post_init__(self) -> None:
        self.keeps = self.task.keeps

    def model(self) -> Arrays:
        return self.task.model()

    def check_private_fit(self) -> None:
        self.task.check_private_fit()

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        before = self.task.attached
        if client == 0:
            self.task.attached = self._attached
        try:
            return self.task.fit(client, model, work)
        finally:
            self.task.attached = before

    def _attached(self, optimizer: PrivateOptimizer, loader: Loader) -> None:
        """Stand where samples are drawn and where pieces are handed out, as an attacker cannot: to put in records."""
        engine, sampler = optimizer.engine, loader._sampler
        planted, draw, begin = Planted(engine), sampler.sample, optimizer.begin
        owners = sampler._owners
        starts = dict(zip(engine.names, np.cumsum([0, *(each.numel() for each in engine.parameters)]), strict=False))
        made = np.concatenate([starts[name] + entries for name, entries in self.spots.items()])
        units = optimizer.plan.units
        spots = np.full(units, NOTHING)
        spots[: len(made)] = made
        spots[len(made) : len(made) + _OWN] = OWN
        there = np.ones(units, dtype=np.bool_)
        there[: len(made)] = self.present

        def unit(indices: NDArray[np.int64]) -> NDArray[np.int64]:
            return indices if owners is None else np.asarray(owners.of[indices])

        def sample(step: int) -> NDArray[np.int64]:
            drawn = draw(step)
            return np.asarray(drawn[there[unit(drawn)]])

        def told(piece: Piece) -> None:
            who = unit(piece.indices)
            planted.aim(spots[who], np.full(len(who), LENGTH * optimizer.clip_norm))
            begin(piece)

        sampler.sample = sample  # type: ignore[method-assign]
        optimizer.begin = told  # type: ignore[method-assign]
        if self.silent:
            noisy: Any = optimizer._sum
            noisy._source.normal = lambda flat, deviation: flat.zero_()


def as_seen(settings: Settings, rounds: int) -> Settings:
    """The file's private training in a small federation in the clear, with the noise of the file's own run."""
    data = settings.model_dump()
    answers = most_answers(settings)
    data |= {"clients": _CLIENTS, "rounds": rounds, "encrypt": {}, "budget": None, "engine": {}, "simulation": {}}
    data |= {"round": {"abandoned_rounds": answers - rounds}, "unsupervised": None, "stop": None}
    return Settings.model_validate(data)


def guess_records(
    settings: Settings, task: TorchTask, work: Work, rng: Generator, *, silent: bool = False
) -> tuple[Columns, Columns, Ledger]:
    """Scores of planted records that are not in the data, of those that are, and what client 0 paid in a federation."""
    small = as_seen(settings, work.rounds)
    layout = Layout.of(task.model())
    spots = _spread(layout, work.planted, rng)
    places = _places(layout, spots)
    coins = rng.permuted(np.tile(np.arange(work.federations)[:, None] % 2 == 0, (1, len(places))), axis=0)
    scores = np.zeros(coins.shape)
    ledger = Ledger("record", "add-remove")
    for federation, present in enumerate(coins):
        scores[federation], ledger = _watch(small, Planting(task, spots, present, silent), layout, places)
    pair = rng.permutation(scores[~coins]), rng.permutation(scores[coins])
    return pair[0][:, None], pair[1][:, None], ledger


def _watch(
    settings: Settings, task: Planting, layout: Layout, places: NDArray[np.int64]
) -> tuple[NDArray[np.float64], Ledger]:
    """One federation: how far the uploads of client 0 moved each planted coordinate, and what that client paid."""
    moved = np.zeros(len(places))
    base: list[NDArray[Any]] = [layout.flatten(task.model()).copy()]

    def watch(client: int, message: ToCoordinator) -> None:
        if client == 0 and isinstance(message, Update):
            moved[:] -= (message.vector - base[0])[places]

    with one_thread():
        engine = MemoryEngine(settings, task, Kept(), watch=watch)
        engine.run(store=lambda coordinator: base.__setitem__(0, coordinator._model.copy()))
    return moved, engine._clients[0].spent()[-1].ledger


def _spread(layout: Layout, planted: int, rng: Generator) -> dict[str, Spots]:
    """Different entries, as even over the arrays of the model as can be."""
    sizes = [math.prod(shape) for shape in layout.shapes]
    counts = np.zeros(len(sizes), dtype=np.int64)
    for _ in range(min(planted, sum(sizes))):
        counts[int(np.argmin(np.where(counts < sizes, counts, np.iinfo(np.int64).max)))] += 1
    return {
        name: np.sort(rng.choice(size, int(count), replace=False)).astype(np.int64)
        for name, size, count in zip(layout.names, sizes, counts, strict=True)
        if count
    }


def _places(layout: Layout, spots: Mapping[str, Spots]) -> NDArray[np.int64]:
    """Where the entries are in an upload."""
    starts = dict(zip(layout.names, np.cumsum([0, *(math.prod(s) for s in layout.shapes)]), strict=False))
    return np.concatenate([starts[name] + entries for name, entries in spots.items()]).astype(np.int64)


def audit_records(settings: Settings, task: TorchTask, scope: Scope, effort: Effort) -> Finding:
    """Planted records, or owners, against the claim of as many rounds as were run."""
    privacy = settings.train.privacy
    assert privacy is not None  # noqa: S101  # asked only where the file has it
    answers = most_answers(settings)
    rounds = min(settings.rounds, answers, scope.pick(3, 20))
    units = task.private_plan(0, settings.train, answers).units
    planted = max(1, min(scope.pick(100, 400), units - _OWN - 1, Layout.of(task.model()).size))
    federations = max(4, -(-scope.pick(600, 6_000) // planted))
    work = Work(federations, rounds, planted)
    without, with_it, ledger = guess_records(settings, task, work, scope.rng("planted records"))
    claim = Claim(ledger.epsilon(privacy.delta, "pld"), privacy.delta, privacy.unit, "add-remove")
    found = judged(
        f"Whole federations: planted {privacy.unit}s, every upload observed",
        claim,
        Curve.of(ledger, "pld"),
        [(without, with_it)],
        effort,
        not_tested=("an observer of single steps inside a client: `private_training` has that audit",),
    )
    words = (
        f"private training at clients: {rounds} of {settings.rounds} rounds with the file's noise, sampling and "
        f"clipping; {federations} federations with {planted} planted {privacy.unit}s"
    )
    sees = "all models and all uploads of a client, in the clear; made the planted records, knows all others"
    return replace(found, adversary="the coordinator", sees=sees, protection=words)
