"""The columns that the file of a vertical training names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.config.task import made

if TYPE_CHECKING:
    from tacit.lockstep.cancer import Part as Columns
    from tacit.lockstep.parties import TableParties


_COLUMNS = {"cancer": "tacit.lockstep.cancer"}


def make_columns(settings: TableParties, name: str) -> Columns:
    """One party's columns of the data that the file of a vertical training names."""
    given = {"parties": settings.owners, "active": settings.lead, "seed": settings.seed}
    options = {"align": settings.align, **settings.task_options}
    parts = made(settings.task or "", _COLUMNS, "make_parts", given, options, ("__getitem__",))
    part: Columns = parts[name]
    return part
