"""One party's table, opened for a training or a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tacit.tables.cells import Cells, Floats, Ints, Numbers, Raw, Reading, canonical_texts, take
from tacit.tables.check import Checked, check
from tacit.tables.choose import Choice
from tacit.tables.fitted import Fitted, fit
from tacit.tables.ids import ids_of
from tacit.tables.labels import Labels, Wanted
from tacit.tables.problems import Problem, TableError, counted
from tacit.tables.roles import concerns, roles_of
from tacit.tables.settings import Data
from tacit.tables.sources import read

__all__ = ["NeededColumns", "Rows", "Table", "TableError", "checked", "open_rows", "open_table"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A party's rows for a training: each has an id, and a label if the party has labels."""

    where: str
    ids: list[str]
    cells: dict[str, Cells]
    choices: tuple[Choice, ...]
    readings: dict[str, Reading]
    labels: Labels | Floats | None
    notes: tuple[str, ...]  # short sentences: what was chosen, what may surprise
    left_out: int  # rows of the source that are not here: of an id that came before, or without a label

    def fit(self, rows: Ints, labels: Ints | None = None) -> Fitted:
        """The transforms, fitted on these rows only. `labels`: of these rows; by default the table's own classes."""
        if labels is None and isinstance(self.labels, Labels):
            labels = self.labels.codes[rows]
        return fit(self.choices, self.cells, self.readings, rows, labels)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """New rows, read as those of the training were."""

    ids: list[str]
    cells: dict[str, Cells]


class NeededColumns(Protocol):
    """The columns that a trained model needs of new rows, and how their texts are read."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def readings(self) -> Mapping[str, Reading]: ...


def open_table(data: Data, folder: Path, *, label: Wanted | None) -> Table:
    """A party's table for a training. TableError lists every problem that must be mended."""
    found = check(read(data, folder), data, label, summary=False)
    contents = found.contents
    if contents is None:
        raise TableError(found.problems)
    return Table(
        found.where,
        contents.ids,
        contents.cells,
        contents.choices,
        contents.readings,
        contents.labels,
        contents.notes,
        contents.left_out,
    )


def checked(data: Data, folder: Path, label: Wanted | None) -> Checked:
    """All problems of a party's table and a summary of its columns. It raises nothing for what the table holds."""
    try:
        return check(read(data, folder), data, label)
    except TableError as error:
        return Checked(error.problems[0].where, 0, error.problems)


def open_rows(data: Data, folder: Path, fitted: NeededColumns) -> Rows:
    """New rows for a prediction: columns by name in any order, read as the training's were. No label is needed."""
    raw = read(data, folder)
    needed = Data(frame=raw, id=data.id, ids=data.ids, columns=tuple(fitted.names))
    roles, problems = roles_of(raw, needed, label=False)
    problems += [problem for problem in raw.problems if concerns(problem, {"", *roles.ids, *fitted.names}, data)]
    if not raw.rows:
        problems.append(raw.problem("error", "no rows", "no rows under the header", "give a table with rows"))
        raise TableError(problems)
    identified = ids_of(raw, data, roles.ids) if roles.ids else None
    problems += identified.problems if identified is not None else ()
    cells = {}
    for name in fitted.names:
        if raw.has(name):
            cells[name], wrong = _read(raw, name, fitted.readings.get(name, Reading("number")))
            problems += wrong
    if identified is None or any(problem.severity == "error" for problem in problems):
        raise TableError(problems)
    if len(identified.rows) < raw.rows:
        cells = {name: take(column, identified.rows) for name, column in cells.items()}
    return Rows(identified.ids, cells)


def _read(raw: Raw, name: str, reading: Reading) -> tuple[Cells, list[Problem]]:
    source = raw.column(name)
    cells, unread = reading.apply(source)
    if isinstance(cells, Numbers):
        unread = sorted({*unread, *np.flatnonzero(np.isinf(cells.values)).tolist()})
    if not unread:
        return cells, []
    texts = canonical_texts(source)
    what = (
        counted(len(unread), f"cell is not a {reading.kind}", f"cells are not {reading.kind}s")
        + " as in the training's table"
    )
    remedy = "write them as that table does, or leave them blank"
    return cells, [raw.problem("error", "unread", what, remedy, name, unread, [texts[row] for row in unread])]
