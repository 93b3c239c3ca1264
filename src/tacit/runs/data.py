"""The tables of a file: everything that is wrong with them, before anything is trained or sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.kind import kind_of
from tacit.sections import Settings
from tacit.tables import check
from tacit.tables.settings import Data
from tacit.tables.table import checked


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, as lines for the owner of the tables."""

    lines: tuple[str, ...]
    errors: int


def check_data(settings: Settings, party: str | None, local: Local, folder: Path) -> Found:
    """Check the table of one party, or of all that are here."""
    tables = kind_of(settings).tables
    if tables is None:
        raise ConfigError(f"kind {settings.kind} has no tables: its task brings the data")
    found = tables(settings, party, local, folder)
    lines: list[str] = []
    for name, each in found.items():
        lines += [f"{name}:", *check.lines(each), ""]
    ids = {name: each.contents.ids for name, each in found.items() if each.contents is not None}
    if len(ids) == len(found) > 1:
        overlap = check.compare_ids(ids)
        lines += [f"{overlap.common:,} ids are common to {', '.join(ids)}", *overlap.advice]
    return Found(tuple(lines), sum(len(each.errors) for each in found.values()))


def check_table(path: Path) -> Found:
    """Check a table by itself: its first column has the ids, and no label is looked for."""
    found = checked(Data(path=str(path)), Path(), None)
    return Found(tuple(check.lines(found)), len(found.errors))
