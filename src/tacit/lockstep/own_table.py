"""A party's table on its way into a training of the same rows and other columns.

data_of(settings, name, place)          what a file says of the table, or nothing if it is a task's
opened(settings, name, place, wanted)   the table: from its local file, from the shared file, or the task's
check_tables(settings, ...)             everything that is wrong with the tables that are here
new_rows(settings, name, ...)           rows to predict, read as those of the training were
aligned, common                         the rows that all parties have
people, fits, other_table               how a resumed run knows its table again
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import order_digest
from tacit.channel import Channel
from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.events import Nowhere, Sink
from tacit.lockstep import column_tasks
from tacit.lockstep.alignment import common_here, common_rows
from tacit.lockstep.held_out import Rows
from tacit.lockstep.parties import TableParties
from tacit.lockstep.run import Place, needed
from tacit.tables.cells import Numbers
from tacit.tables.check import Checked
from tacit.tables.choose import Choice
from tacit.tables.labels import Labels, Wanted
from tacit.tables.settings import Column, Data, data_from
from tacit.tables.table import NeededColumns, Table, checked, open_rows, open_table
from tacit.tables.table import Rows as NewRows

LabelKind = Callable[[str], Wanted | None]  # of a party's name: what its labels are, None if it has none


def data_of(settings: TableParties, name: str, place: Place, section: type[Data] = Data) -> tuple[Data, Path] | None:
    """What a file says of a party's table, and the folder of its paths; None if its data come from a task."""
    if place.local.data is not None:
        try:
            return data_from(place.local.data, "data", section), place.folder
        except ValueError as error:
            raise ConfigError(f"the local file of {name}: {error}") from None
    if settings.task is not None:
        return None
    if name not in settings.data:
        raise ConfigError(f"there are no data of {name}: add data: {{{name}: {{path: FILE}}}}, or a --local file")
    return settings.data[name], Path()


def opened(settings: TableParties, name: str, place: Place, wanted: LabelKind, section: type[Data] = Data) -> Table:
    """A party's table, with its labels if it has some; ValueError lists all that must be mended."""
    found = data_of(settings, name, place, section)
    if found is None:
        return _of_task(settings, name, wanted(name))
    data, folder = found
    table = open_table(data, folder, label=wanted(name))
    if table.left_out and not settings.align:
        raise ConfigError(
            f"{table.where}: {table.left_out} rows are left out (an id that comes twice, or no label), and without "
            "align the rows of all parties must be the same people in the same order: set align: true, or correct them"
        )
    return table


def here(settings: TableParties, name: str, wanted: LabelKind, section: type[Data] = Data) -> Table | None:
    """A party's table, if it is on this machine."""
    if settings.task is None and name not in settings.data:
        return None
    path = settings.data[name].path if settings.task is None else None
    if path is not None and not Path(path).exists():
        return None
    return opened(settings, name, Place(None, Nowhere()), wanted, section)


def check_tables(
    settings: TableParties,
    party: str | None,
    local: Local,
    folder: Path,
    wanted: LabelKind,
    section: type[Data] = Data,
) -> dict[str, Checked]:
    """Everything that is wrong with one party's table, or with all that are here."""
    if party is not None and party not in settings.parties:
        raise ConfigError(f"--party is {party!r}: give {' or '.join(settings.parties)}")
    found = {}
    if party is not None and not settings.brings_data(party):
        raise ConfigError(f"{party} is the dealer, which has no table")
    for name in settings.owners if party is None else (party,):
        place = Place(None, Nowhere(), local if party is not None else Local(), folder)
        if party is None and name not in settings.data and settings.task is None:
            continue
        if (given := data_of(settings, name, place, section)) is None:
            raise ConfigError(f"the data come from the task {settings.task}: there is no table to check")
        found[name] = checked(*given, wanted(name))
    if not found:
        raise ConfigError("no table is here: add data to the file, or give --party NAME --local FILE")
    return found


def new_rows(
    settings: TableParties,
    name: str,
    columns: NeededColumns,
    source: Path | None,
    place: Place,
    section: type[Data] = Data,
) -> NewRows:
    """Rows to predict, from the file that `--input` names."""
    given = data_of(settings, name, place, section)
    data = given[0] if given is not None else Data(path="")
    changes = {"path": str(needed(name, source).absolute()), "source": None, "frame": None}
    return open_rows(data.model_copy(update=changes), Path(), columns)


def labels_of(table: Table, rows: Rows) -> NDArray[Any]:
    """Codes of the classes, or numbers, of these rows."""
    if table.labels is None:
        raise ConfigError("the active has no labels: name their column as label")
    return (table.labels.codes if isinstance(table.labels, Labels) else table.labels)[rows]


# --- rows in common


def aligned(
    settings: TableParties,
    name: str,
    ids: list[str],
    channels: Mapping[str, Channel],
    sink: Sink,
    *,
    workers: int = 1,
) -> Rows:
    """This party's rows that all have; all of its rows if the file says that they fit as they are."""
    if not settings.align:
        return np.arange(len(ids))
    owners = {other: channel for other, channel in channels.items() if other in settings.owners}
    return common_rows(owners, name, settings.lead, ids, sink, workers=workers)


def common(settings: TableParties, made: Mapping[str, Table]) -> dict[str, Rows]:
    """Where each party has the rows that all have, in the order of the lead: if all tables are in this process."""
    if not settings.align:
        return {name: np.arange(len(table.ids)) for name, table in made.items()}
    return common_here({name: table.ids for name, table in made.items()}, settings.lead)


def people(table: Table, rows: Rows) -> str:
    """A digest of the columns' names and the rows' ids, by which a resumed run knows its table again."""
    return hashlib.sha256(json.dumps(list(table.cells)).encode() + order_digest(table.ids, rows)).hexdigest()


def fits(table: Table, rows: Rows, known: str) -> bool:
    """Whether these are numbers of the rows of this table that they were stored for."""
    return bool(rows.max(initial=0) < len(table.ids)) and known == people(table, rows)


def other_table(name: str) -> ConfigError:
    return ConfigError(
        f"the table of {name} has other rows or columns, or another order, than when this run was stopped: give "
        "the table as it was, or start all parties anew"
    )


# --- built-in data


def _of_task(settings: TableParties, name: str, wanted: Wanted | None) -> Table:
    """The columns of a task: numbers, as they are."""
    made = column_tasks.make_columns(settings, name)
    cells = {column: Numbers(np.ascontiguousarray(made.features[:, i])) for i, column in enumerate(made.columns)}
    column = Column(use="numeric", missing="refuse")
    choices = tuple(Choice(each, "numeric", column, "") for each in made.columns)
    labels: Labels | NDArray[np.float64] | None = None
    if wanted is not None:
        if made.labels is None:
            raise ConfigError(f"the task {settings.task} has no labels for {name}, which is the active")
        labels = _labels(np.asarray(made.labels), wanted)
    return Table(f"task {settings.task}", list(made.ids), dict(cells), choices, {}, labels, (), 0)


def _labels(values: NDArray[Any], wanted: Wanted) -> Labels | NDArray[np.float64]:
    if wanted == "number":
        return values.astype(np.float64)
    classes, codes = np.unique(values, return_inverse=True)
    return Labels(tuple(str(each) for each in classes.tolist()), codes.astype(np.int64))
