"""Whose each record is: for a guarantee that holds for all records of an owner together."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.training.plan import Plan

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ownership:
    """The owners of records, numbered in the order in which they first come."""

    of: Indices  # the owner of each record
    records: tuple[Indices, ...]  # of each owner, ascending

    def draw(self, owners: Indices, most: int, rng: Generator) -> Indices:
        """At most so many records of each of some owners, one owner after the other; drawn where an owner has more.

        What is drawn of an owner depends on the number of its own records alone, see `plan.Plan`.
        """
        found = [self.records[owner] for owner in owners]
        drawn = [each if len(each) <= most else np.sort(rng.choice(each, most, replace=False)) for each in found]
        return np.concatenate(drawn) if drawn else np.empty(0, dtype=np.int64)

    def part(self, indices: Indices, rank: int, world: int) -> Indices:
        """The records of each of so many-th owners, beginning with the one of that rank."""
        owners = np.unique(self.of[indices])[rank::world]
        return indices[np.isin(self.of[indices], owners)]

    def pieces(self, indices: Indices, size: int | None) -> list[tuple[Indices, tuple[int, ...]]]:
        """Records of whole owners, at most `size` at a time, with where the records of each owner begin, and the end.

        `indices` have the records of an owner one after the other.
        """
        changes = np.flatnonzero(np.diff(self.of[indices])) + 1
        groups = np.split(indices, changes) if len(indices) else []
        made: list[list[Indices]] = [[]]
        for group in groups:
            if size is not None and made[-1] and sum(map(len, made[-1])) + len(group) > size:
                made.append([])
            made[-1].append(group)
        empty = np.empty(0, dtype=np.int64)
        return [(np.concatenate([empty, *each]), _starts(each)) for each in made]


def _starts(groups: list[Indices]) -> tuple[int, ...]:
    return tuple(int(end) for end in np.cumsum([0, *map(len, groups)]))


def ownership(plan: Plan, data: Any, owners: Any) -> Ownership | None:
    """Who owns the records of `data`; None for a plan whose unit is a record. ValueError if it is not of the plan."""
    if plan.unit == "record":
        if owners is not None:
            raise ValueError("owners are given, and the plan protects records: make it with unit='owner'")
        return None
    if owners is None:
        raise ValueError(
            "the plan protects owners: give attach(..., owners=...) an id for each record, or a function from a record "
            "to an id"
        )
    found = of_ids(ids_of(data, owners))
    if len(found.of) != plan.records:
        raise ValueError(f"owners has {len(found.of)} ids, the plan is for {plan.records} records: give one a record")
    if len(found.records) != plan.owners:
        raise ValueError(
            f"the records have {len(found.records)} owners, the plan is for {plan.owners}: make it with "
            f"owners={len(found.records)}"
        )
    return found


def ids_of(data: Any, owners: Any) -> list[Any]:
    """An id for each record: as given in order, or what a function gives for each record of `data`."""
    dataset = data.dataset if hasattr(data, "collate_fn") else data  # of a DataLoader
    if callable(owners):
        function: Callable[[Any], Any] = owners
        return [function(dataset[index]) for index in range(len(dataset))]
    try:
        return list(owners.tolist() if hasattr(owners, "tolist") else owners)
    except TypeError:
        raise ValueError(
            f"owners is a {type(owners).__name__}: give a sequence with an id for each record, or a function from a "
            "record to an id"
        ) from None


def _compared(given: Any, place: int) -> Hashable:
    """An id by its value. Tensors, and NaN, compare by identity: each record would have an owner of its own."""
    if isinstance(given, tuple):
        return tuple(_compared(each, place) for each in given)
    value = given.item() if hasattr(given, "item") and getattr(given, "ndim", 1) == 0 else given
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"record {place} has no owner (its id is {value!r}): give it an id of its own")
    if not isinstance(value, str | int | float | bytes):
        raise ValueError(
            f"the owner of record {place} is a {type(value).__name__}: give a number, a text, bytes or a tuple of these"
        )
    return value


def of_ids(ids: list[Any]) -> Ownership:
    """Number the owners. ValueError where a record has no owner, or an id that cannot be compared."""
    numbers: dict[Hashable, int] = {}
    of = np.empty(len(ids), dtype=np.int64)
    for place, given in enumerate(ids):
        of[place] = numbers.setdefault(_compared(given, place), len(numbers))
    order = np.argsort(of, kind="stable")
    ends = np.cumsum(np.bincount(of, minlength=len(numbers)))
    return Ownership(of, tuple(np.split(order, ends[:-1])) if len(ids) else ())
