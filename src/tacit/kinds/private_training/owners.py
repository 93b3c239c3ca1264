"""The plan of a file for its task's records, and whose each record is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.config.task import module_of
from tacit.kinds.private_training.settings import Settings
from tacit.training.ownership import ids_of, of_ids
from tacit.training.plan import Plan

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what `attach` needs beside it."""

    plan: Plan
    owners: list[Any] | None  # an id for each record, where the unit is an owner


def planned(settings: Settings, records: Any) -> Planned:
    """The plan for a task's records. With unit owner each record is read once, for its owner."""
    owner = settings.privacy.owner
    if owner is None:
        return Planned(settings.plan(len(records)), None)
    ids = ids_of(records, _reader(owner))
    return Planned(settings.plan(len(records), len(of_ids(ids).records)), ids)


def _reader(owner: str | int) -> Callable[[Any], Any]:
    """From a record to its owner: a function that the file names, or a column of the record."""
    if isinstance(owner, str) and ":" in owner:
        module, name = module_of(owner, {}, "", what="privacy.owner")
        function: Callable[[Any], Any] = getattr(module, name)
        return function

    def column(record: Any) -> Any:
        if isinstance(owner, int):
            if isinstance(record, list | tuple) and -len(record) <= owner < len(record):
                return record[owner]
            shape = f"has {len(record)} columns" if isinstance(record, list | tuple) else f"is a {_kind(record)}"
            raise ValueError(f"privacy.owner is column {owner}, a record {shape}: name one that is there")
        if not isinstance(record, Mapping):
            raise ValueError(
                f"privacy.owner is column {owner!r}, a record is a {_kind(record)} without names: give a number of a "
                "column, or package.module:function from a record to an id"
            )
        if owner not in record:
            names = ", ".join(map(str, list(record)[:_SHOWN]))
            raise ValueError(f"privacy.owner is column {owner!r}, records have {names}: name one that is there")
        return record[owner]

    return column


def _kind(record: Any) -> str:
    return type(record).__name__
