"""The plan of a file for its task's records, and whose each record is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.config.owner_column import owner_reader
from tacit.kinds.private_training.settings import Settings
from tacit.training.ownership import ids_of, of_ids
from tacit.training.plan import Plan


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
    ids = ids_of(records, owner_reader(owner, "privacy.owner"))
    return Planned(settings.plan(len(records), len(of_ids(ids).records)), ids)
