"""Which records a step sees: a Poisson sample of records or of owners, or a piece of a permutation.

The loader hands out physical batches and says of each whether it ends a logical one. Samples are truncated only where
the plan says so, which it pays for; one that is empty still makes a step, of noise alone. Who is sampled is secret, so
the generator is a cryptographic one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from tacit.training.generators import Generators
from tacit.training.independence import Watch
from tacit.training.ownership import Ownership
from tacit.training.plan import Plan
from tacit.training.ranks import Alone
from tacit.training.record_source import Indices, Items, source

_UNSEEN = (
    "whether records keep apart is not checked, because another record changes the shapes of the collated batch: "
    "collate into tensors whose first dimension is that of records"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records of a sample."""

    indices: Indices
    last: bool  # whether the sample is whole with it
    padding: int = 0  # records at the end that count nothing, so that all batches have one size
    again: bool = False  # shown again and changed, to see that records keep apart: it adds nothing
    starts: tuple[int, ...] | None = None  # of owners: the first of each one's records, and the end


class Sampler:
    """The samples of a plan, step by step. `owners`: of the records, for a plan whose unit is an owner.

    All `ranks` draw the same samples, and each takes its part of them.
    """

    def __init__(
        self,
        plan: Plan,
        rng: Generator | None = None,
        owners: Ownership | None = None,
        ranks: Alone | None = None,
    ) -> None:
        self._plan = plan
        self._ranks = ranks or Alone()
        self._rng = rng or self._ranks.sampling()
        self._owners = owners
        self.drawn = b""  # the last sample, of all ranks
        self._order: Indices = np.empty(0, dtype=np.int64)

    def sample(self, step: int) -> Indices:
        """The records of a step, before any are cut off. A unit is in a Poisson sample with exactly `plan.probability`:
        see there."""
        if self._owners is None:
            return self._units(step)
        return self._owners.draw(self._units(step), self._plan.records_per_owner or 1, self._rng)

    def _units(self, step: int) -> Indices:
        plan = self._plan
        if plan.sampling == "poisson":
            return np.flatnonzero(self._rng.random(plan.units) < plan.probability)
        place = step % plan.steps_an_epoch
        if place == 0 or len(self._order) == 0:
            self._order = self._rng.permutation(plan.units)
        return np.sort(np.array_split(self._order, plan.steps_an_epoch)[place])

    def pieces(self, step: int) -> Iterator[Piece]:
        """A step's sample, cut to what memory holds; one empty piece where nobody was sampled."""
        indices, rank, world = self.sample(step), self._ranks.rank, self._ranks.world
        self.drawn = indices.tobytes()
        if self._owners is not None:
            made = self._owners.pieces(self._owners.part(indices, rank, world), self._plan.physical)
            for place, (chosen, starts) in enumerate(made):
                yield Piece(chosen, place == len(made) - 1, starts=starts)
            return
        indices = self._cut(indices)[rank::world]
        most = -(-(self._plan.truncate or 0) // world)
        size = self._plan.physical or most or max(1, len(indices))
        for start in range(0, max(1, len(indices)), size):
            chosen = indices[start : start + size]
            missing = size - len(chosen) if self._plan.truncate is not None and len(chosen) else 0
            filled = np.concatenate([chosen, np.full(missing, chosen[0])]) if missing else chosen
            yield Piece(filled, start + size >= len(indices), missing)

    def _cut(self, found: Indices) -> Indices:
        """At most `plan.truncate` of a sample, at random."""
        most = self._plan.truncate
        if most is None or len(found) <= most:
            return found
        return np.sort(self._rng.choice(found, most, replace=False))

    def state(self) -> dict[str, Any]:
        """The order of the epoch under way. Poisson samples need none: each is drawn afresh."""
        return {"order": self._order.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        order = np.asarray(state["order"], dtype=np.int64)
        if len(order) and not np.array_equal(np.sort(order), np.arange(self._plan.units)):
            raise ValueError(
                f"the stored order is no permutation of the {self._plan.unit}s: the state is of another training"
            )
        self._order = order.copy()


class Taker(Protocol):
    """What the loader tells of the batches that it hands out."""

    steps: int
    under_way: bool  # whether a sample was begun that is neither whole nor abandoned

    def begin(self, piece: Piece) -> None: ...

    def settle(self) -> None: ...

    def abandon(self) -> None: ...


class Loader:
    """The batches of an epoch, for the ordinary loop. An iteration ends with the epoch in which it begins.

    The taker is told of each piece before it is handed out. Where the watch asks for it, a batch is followed by changed
    copies of itself: see `independence`.
    """

    def __init__(self, plan: Plan, data: Any, sampler: Sampler, taker: Taker, watch: Watch | None = None) -> None:
        self._plan = plan
        self._source = source(plan, data)
        self._sampler = sampler
        self._taker = taker
        self._watch = watch
        self._iterations = 0

    def __len__(self) -> int:
        """The batches of an epoch, where `physical` does not cut them; those that are shown again are not counted."""
        return self._plan.steps_an_epoch

    def __iter__(self) -> Iterator[Any]:
        self._taker.abandon()
        self._iterations += 1
        own = self._iterations
        for _ in range(self._plan.steps_an_epoch - self._taker.steps % self._plan.steps_an_epoch):
            for piece in self._sampler.pieces(self._taker.steps):
                for batch in self._hand_out(piece):
                    yield batch
                    self._refuse_earlier(own)
                if not piece.last and not self._taker.under_way:
                    break  # abandoned: without this piece the rest would be a sample that one of its records chose

    def _refuse_earlier(self, iteration: int) -> None:
        """ValueError where an earlier iteration goes on: its pieces would be added to another sample, and a record that
        is in both would count twice."""
        if iteration != self._iterations:
            self._taker.abandon()
            raise ValueError(
                "another iteration over the loader was begun meanwhile, which ended this one: iterate over it once at "
                "a time, and evaluate on another loader"
            )

    def _hand_out(self, piece: Piece) -> Iterator[Any]:
        if len(piece.indices) == 0:
            self._taker.begin(piece)
            return
        items = self._source.read(piece.indices)
        if self._watch is not None and self._watch.armed:
            yield from self._watched(self._watch, piece, items)
            return
        batch = self._source.batch(items)
        self._taker.begin(piece)
        yield batch

    def _watched(self, watch: Watch, piece: Piece, items: Items) -> Iterator[Any]:
        """A batch, and what the watch asks for after it. Generators end where they would have ended without that."""
        collating = Generators.now()
        batch = self._source.batch(items)
        self._taker.begin(piece)
        passing = Generators.now() if self._source.own else collating
        yield batch
        if watch.asks() is None:
            return
        after = Generators.now()
        watch.drew(not after.same(passing), after)
        while (places := watch.asks()) is not None:
            again = self._source.changed(items, places, collating)
            if again is None:
                watch.skip()
                continue
            passing.restore()
            self._taker.begin(Piece(piece.indices[places], piece.last, again=True))
            yield again
        if watch.unseen:
            warnings.warn(_UNSEEN, stacklevel=5)
        self._taker.settle()
        watch.leave(after)
