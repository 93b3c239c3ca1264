"""Which records a step sees: a Poisson sample, or a piece of a permutation.

The loader hands out physical batches and says of each whether it ends a logical one. Samples are never truncated; one
that is empty still makes a step, of noise alone. Who is sampled is secret, so the generator is a cryptographic one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from tacit.randomness import secure_rng
from tacit.training.company import MOST_PARTS, parts, some_of
from tacit.training.plan import Plan

Indices = NDArray[np.int64]

_UNSEEN = (
    "whether the loss keeps records apart is not checked, because it cannot be seen what of the batch belongs to a "
    "record: collate into tensors whose first dimension is that of records, or say attach(..., check=False) if it does"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records of a sample."""

    indices: Indices
    last: bool  # whether the sample is whole with it
    again: int = 0  # shown again, in other company, to see that its gradients stay the same: so many showings are left
    start: int = 0  # of these records among those that were shown together


class Sampler:
    """The samples of a plan, step by step."""

    def __init__(self, plan: Plan, rng: Generator | None = None) -> None:
        self._plan = plan
        self._rng = rng or secure_rng()
        self._order: Indices = np.empty(0, dtype=np.int64)

    def sample(self, step: int) -> Indices:
        """The records of a step. A record is in a Poisson sample with exactly `plan.probability`: see there."""
        plan = self._plan
        if plan.sampling == "poisson":
            return np.flatnonzero(self._rng.random(plan.records) < plan.probability)
        place = step % plan.steps_an_epoch
        if place == 0 or len(self._order) == 0:
            self._order = self._rng.permutation(plan.records)
        return np.sort(np.array_split(self._order, plan.steps_an_epoch)[place])

    def pieces(self, step: int) -> Iterator[Piece]:
        """A step's sample, cut to what memory holds; one empty piece where nobody was sampled."""
        indices = self.sample(step)
        size = self._plan.physical or max(1, len(indices))
        for start in range(0, max(1, len(indices)), size):
            yield Piece(indices[start : start + size], start + size >= len(indices))

    def state(self) -> dict[str, Any]:
        """The order of the epoch under way. Poisson samples need none: each is drawn afresh."""
        return {"order": self._order.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        order = np.asarray(state["order"], dtype=np.int64)
        if len(order) and not np.array_equal(np.sort(order), np.arange(self._plan.records)):
            raise ValueError("the stored order is no permutation of the records: the state is of another training")
        self._order = order.copy()


class Taker(Protocol):
    """What the loader tells of the batches that it hands out."""

    steps: int

    def begin(self, piece: Piece) -> None: ...

    def abandon(self) -> None: ...

    @property
    def unproved(self) -> bool: ...


class Loader:
    """The batches of an epoch, for the ordinary loop. An iteration goes on to the end of the epoch it begins in.

    The taker is told of each piece before it is handed out. The first batch of all is followed by some of its records
    again, in parts, where the taker wants that: see `company`.
    """

    def __init__(self, plan: Plan, data: Any, sampler: Sampler, taker: Taker) -> None:
        self._plan = plan
        self._fetch = _fetcher(plan, data)
        self._sampler = sampler
        self._taker = taker

    def __len__(self) -> int:
        """The batches of an epoch, where `physical` does not cut them; at most three more than its steps."""
        return self._plan.steps_an_epoch + MOST_PARTS * self._taker.unproved

    def __iter__(self) -> Iterator[Any]:
        self._taker.abandon()
        for _ in range(self._plan.steps_an_epoch - self._taker.steps % self._plan.steps_an_epoch):
            for piece in self._sampler.pieces(self._taker.steps):
                yield from self._hand_out(piece)

    def _hand_out(self, piece: Piece) -> Iterator[Any]:
        if len(piece.indices) == 0:
            self._taker.begin(piece)
            return
        batch = self._fetch(piece.indices)
        shown = self._again(batch, len(piece.indices))
        self._taker.begin(replace(piece, last=False) if shown else piece)
        yield batch
        for left, (part, some) in zip(range(len(shown), 0, -1), shown, strict=True):
            self._taker.begin(Piece(piece.indices[part], piece.last and left == 1, left, part.start))
            yield some

    def _again(self, batch: Any, records: int) -> list[tuple[slice, Any]]:
        """What of the first batch is shown again: see `company`."""
        if not self._taker.unproved or records < 2:
            return []
        found = [(part, some_of(batch, records, part)) for part in parts(records)]
        if any(some is None for _, some in found):
            warnings.warn(_UNSEEN, stacklevel=4)
            return []
        return found


def _fetcher(plan: Plan, data: Any) -> Callable[[Indices], Any]:
    collate: Callable[[list[Any]], Any] = default_collate
    if isinstance(data, DataLoader):
        if data.drop_last:
            raise ValueError("the loader drops records (drop_last): give the dataset itself, or drop_last=False")
        known = isinstance(data.sampler, RandomSampler | SequentialSampler)
        if not known and not isinstance(data.dataset, IterableDataset):
            raise ValueError(
                f"the loader samples by {type(data.sampler).__name__}, the plan by itself: give the dataset itself"
            )
        collate = data.collate_fn or default_collate
        data = data.dataset
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise ValueError(
            "the data must have a length and be read by index, because a sample is drawn from all of it: make a "
            "dataset with __len__ and __getitem__ of it, such as torch.utils.data.TensorDataset"
        )
    if len(data) != plan.records:
        raise ValueError(
            f"the data has {len(data)} records, the plan is for {plan.records}: make it with records=len(data) (and "
            "put tensors into a TensorDataset)"
        )
    if isinstance(data, TensorDataset) and collate is default_collate:
        tensors = data.tensors
        return lambda indices: [tensor.index_select(0, torch.from_numpy(indices)) for tensor in tensors]
    source: Dataset[Any] = data
    return lambda indices: collate([source[int(index)] for index in indices])
