"""Updates that come in one by one, added up: in memory of a few models, whatever their number.

    Group       a few updates, added in the model's own type; on any machine of the coordinator's own
    Part        what came of a group
    Sum         the parts, added in float64
    Together    a part, or masked words, with who is in it

What comes in wrong raises PeerError and leaves the sum as it was. Groups of the same clients give the same bits
wherever they are added up, if the sum takes the parts in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import PeerError
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.unmask import Words

LARGEST_GROUP = 64  # updates; float32 sums of more lose bits that matter
_GROUPS = 16  # that a round has at least, if it has as many clients: to spread over machines
_BLOCK = 1 << 17  # numbers: with fewer calls cost more, with more a block and what it meets leave the caches
_LINE = 64  # bytes of a cache line; numpy writes to memory that begins with one in half the time


def group_size(settings: Settings) -> int:
    """Updates in a group, for a round of this federation."""
    return max(1, min(LARGEST_GROUP, settings.sampled // _GROUPS))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The sum of a few updates, each times its weight: `unit` times `vector`."""

    vector: Flat
    unit: float
    weight: float  # of all, in that unit
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """What several clients sent, checked and added up by a worker of the coordinator's own trust domain."""

    round: int
    senders: tuple[int, ...]
    total: Part | Words
    session: bytes = b""  # of secure aggregation
    losses: tuple[tuple[float, int], ...] = ()  # with their weights
    largest: int = 0  # bytes of one message


class Group:
    """The sum of a few updates, each looked at before it goes in.

    Weights are relative to the first one, so that clients with equally many samples need no multiplication. It is done
    block by block, in the cache.
    """

    def __init__(
        self, base: Flat, largest_norm: float, memory: Flat | None = None, *, onto: Flat | None = None
    ) -> None:
        """`base` is the model that the clients were sent. The sum is in `memory`, or added to what is in `onto`, where
        weights are relative to nothing."""
        self._base = base
        self._largest_norm = largest_norm
        self._relative = onto is None
        if onto is not None:
            self._total = onto
        else:
            self._total = _aligned(len(base), base.dtype) if memory is None else memory
        self._scratch = _aligned(min(len(base), _BLOCK), base.dtype)
        self.clear()

    def clear(self) -> None:
        """Begin anew: the first update is written over what was added before."""
        self._unit, self._weight, self.count = 1.0, 0.0, 0

    @property
    def part(self) -> Part:
        """What was added so far; a view."""
        if self._first:
            self._total.fill(0)
        return Part(self._total, self._unit, self._weight, self.count)

    def add_update(self, update: Flat) -> None:
        """Take one update with weight 1, or refuse it."""
        self._check_form(update, "an update")
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(update, None, 1.0)

    def add_model(self, model: Flat, weight: float) -> None:
        """Take one trained model, whose update is its difference from the base, or refuse it."""
        self._check_form(model, "a model")
        if not 0 < weight < math.inf:
            raise PeerError(f"a model of weight {weight}")
        if self._first:
            self._unit = weight
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(model, self._base, weight / self._unit)

    @property
    def _first(self) -> bool:
        """Whether the next update is written over what is there, and not added."""
        return self.count == 0 and self._relative

    def _check_form(self, vector: Flat, what: str) -> None:
        if vector.shape != self._base.shape:
            raise PeerError(f"{what} of shape {vector.shape}, {self._base.shape} is due")
        if vector.dtype != self._base.dtype:
            raise PeerError(f"{what} of {vector.dtype}, {self._base.dtype} is due")

    def _add(self, vector: Flat, base: Flat | None, weight: float) -> None:
        """Add weight * (vector - base) in one pass over memory, looking at each block before it goes in.

        If it turns out bad on the way, what went in is taken out again: up to the last bit of a float32.
        """
        square, first = 0.0, self._first
        for start in range(0, len(vector), _BLOCK):
            block = self._total[start : start + _BLOCK]
            part = self._difference(vector, base, start, block if first else self._scratch[: len(block)])
            square += float(part @ part)
            if not square <= self._largest_norm**2:  # NaN is not
                if not first:
                    self._take_back(vector, base, weight, start)
                if math.isfinite(square):
                    raise PeerError(f"an update of a norm above {self._largest_norm:.3g}, the most that is accepted")
                raise PeerError("an update with NaN, infinite or enormous numbers")
            if weight != 1:
                np.multiply(part, weight, out=part)
            if not first:
                np.add(block, part, out=block)
        self._weight += weight
        self.count += 1

    @staticmethod
    def _difference(vector: Flat, base: Flat | None, start: int, out: Flat) -> Flat:
        """`vector - base` from column `start` on, as much as `out` has."""
        block = vector[start : start + len(out)]
        if base is None:
            np.copyto(out, block)
        else:
            np.subtract(block, base[start : start + len(out)], out=out)
        return out

    def _take_back(self, vector: Flat, base: Flat | None, weight: float, stop: int) -> None:
        for start in range(0, stop, _BLOCK):
            block = self._total[start : start + _BLOCK]
            part = self._difference(vector, base, start, self._scratch[: len(block)])
            np.subtract(block, weight * part, out=block)


class Sum:
    """The sum of a round.

    Float32 updates are added in float32, a group at a time, and those sums in float64: the relative error stays below
    2^-18, and most of the work is done on half the bytes. The first group is added up in the first half of the memory
    of the float64 sum, and a later one in memory of its own, unless it is a single update: that goes where it belongs.
    """

    def __init__(self, base: Flat, largest_norm: float, group: int = LARGEST_GROUP) -> None:
        """`base` is the model that the clients were sent; `group`, the updates that are added in its own type."""
        self._base = base
        self._largest_norm = largest_norm
        self._size = group
        self._group: Group | None = None  # not needed where parts come in
        # The sum, and before that in the same place the first group, in the model's own type. Memory is taken where it
        # is written to: if that group is all there is, the second half of a float64 sum never is.
        self._room = np.empty(len(base) + _LINE // 8)
        self._start = (-self._room.ctypes.data % _LINE) // 8
        self._total = self._room[self._start : self._start + len(base)]
        self._merged = False  # whether it holds anything
        self.weight = 0.0
        self.count = 0

    def add_update(self, update: Flat) -> None:
        """Take one update with weight 1, or refuse it."""
        self._open().add_update(update)
        self.count += 1

    def add_model(self, model: Flat, weight: float) -> None:
        """Take one trained model, whose update is its difference from the base, or refuse it."""
        self._open().add_model(model, weight)
        self.count += 1

    def add_part(self, part: Part) -> None:
        """Take a group that was added up elsewhere."""
        if part.vector.shape != self._base.shape or part.vector.dtype != self._base.dtype:
            raise ValueError(f"a part of {part.vector.shape} {part.vector.dtype}, {self._base.shape} is due")
        self._close()
        self._merge(part)
        self.count += part.count

    def mean(self) -> Flat:
        """The weighted mean, in the model's own type. The sum is empty afterwards: its memory is the mean's."""
        if self._merged or self._group is None:
            self._close()
            total, unit, weight = self._total, 1.0, self.weight
        else:  # one group is all there is
            part = self._group.part
            total, unit, weight = part.vector, part.unit, part.unit * part.weight
        room, start, kind = self._room, self._start, self._base.dtype
        _divide(total, unit, weight, room[start:].view(kind)[: len(self._base)])
        del total
        self._room = self._total = np.empty(0)
        self._group, self._merged, self.weight, self.count = None, False, 0.0, 0
        room.resize(start + -(-self._base.nbytes // 8), refcheck=False)  # all views of it are gone
        return room[start:].view(kind)[: len(self._base)]

    def _open(self) -> Group:
        """The group that takes the next update."""
        if self._group is not None and self._group.count == self._size:
            self._close()
        if self._group is None:
            base = self._base
            if not self._merged:
                room = self._room[self._start :].view(base.dtype)[: len(base)]
                self._group = Group(base, self._largest_norm, memory=room)
            else:
                self._group = Group(base, self._largest_norm, onto=self._total if self._size == 1 else None)
        return self._group

    def _close(self) -> None:
        """Add the group to the sum."""
        if self._group is None:
            return
        part, first = self._group.part, not self._merged
        if part.vector is self._total:
            self.weight += part.weight
        elif part.count:
            self._merge(part)
        if first:
            self._group = None  # its memory is the sum's
        else:
            self._group.clear()

    def _merge(self, part: Part) -> None:
        """From the end on: the first group lies where the sum begins, and is read before it is written over."""
        scratch = np.empty(min(len(self._total), _BLOCK))
        for start in reversed(range(0, len(self._total), _BLOCK)):
            total, added = self._total[start : start + _BLOCK], part.vector[start : start + _BLOCK]
            if part.unit != 1:
                added = np.multiply(added, part.unit, out=scratch[: len(added)])
            np.add(total if self._merged else 0.0, added, out=total)
        self.weight += part.unit * part.weight
        self._merged = True


def _divide(total: Flat, unit: float, weight: float, mean: Flat) -> None:
    """Write the mean, perhaps to the beginning of the sum's own memory: no number is written over before it is read."""
    scratch = np.empty(min(len(total), _BLOCK))
    for start in range(0, len(total), _BLOCK):
        part = total[start : start + _BLOCK]
        part = np.multiply(part, unit, out=scratch[: len(part)]) if unit != 1 else part
        np.divide(part, weight, out=mean[start : start + _BLOCK], dtype=np.float64, casting="same_kind")


def _aligned(size: int, dtype: np.dtype[Any]) -> Flat:
    """Numbers that begin with a cache line, as yet without values."""
    room = np.empty(size * dtype.itemsize + _LINE, dtype=np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size * dtype.itemsize].view(dtype)
