"""One pass over a table: all its problems at once, a summary of its columns, and what a training gets of it.

    checked = check(raw, data, label="classes")
    for line in lines(checked):         # a plain table, then every problem with its place, value and remedy
        print(line)

Errors block a run; warnings are said. A kind of problem in a column is one sentence, with its first three places and
how often it comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.tables.cells import Cells, Floats, Ints, Numbers, Raw, Reading, take
from tacit.tables.choose import Choice
from tacit.tables.column_summary import ColumnSummary, summary_of, table_lines
from tacit.tables.features import DROPPED, Feature, features_of, said
from tacit.tables.ids import ids_of
from tacit.tables.labels import Labelled, Labels, Wanted, labels_of
from tacit.tables.overlap import Overlap, compare_ids
from tacit.tables.problems import Problem, counted
from tacit.tables.roles import Roles, concerns, roles_of
from tacit.tables.settings import Data

__all__ = ["Checked", "Contents", "Overlap", "check", "compare_ids", "lines"]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a training gets of a table."""

    ids: list[str]
    cells: dict[str, Cells]
    choices: tuple[Choice, ...]
    readings: dict[str, Reading]
    labels: Labels | Floats | None
    notes: tuple[str, ...]
    left_out: int  # rows of the source that are not among these


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What is wrong with a table, and what is in it. Without errors there are contents."""

    where: str
    rows: int  # that a training may use
    problems: tuple[Problem, ...]
    summary: tuple[ColumnSummary, ...] = ()
    contents: Contents | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


def check(raw: Raw, data: Data, label: Wanted | None, *, summary: bool = True) -> Checked:
    """All problems of a table, for a party that has labels of this kind, or none."""
    roles, problems = roles_of(raw, data, label=label is not None)
    used = {"", *roles.ids, *roles.features, *((roles.label,) if roles.label else ())}
    used -= {name for name in roles.features if data.column(name).use == "drop"}
    problems = [problem for problem in raw.problems if concerns(problem, used, data)] + problems
    if not raw.rows:
        problems.append(raw.problem("error", "no rows", "no rows under the header", "give a table with rows"))
        return Checked(raw.where, 0, tuple(problems))
    ids: list[str] = []
    rows = np.arange(raw.rows, dtype=np.int64)
    if roles.ids:
        identified = ids_of(raw, data, roles.ids)
        ids, rows = identified.ids, identified.rows
        problems += identified.problems
    labelled = None
    if roles.label is not None and label is not None:
        labelled = labels_of(raw, roles.label, label, rows, data.column(roles.label).decimal)
        problems += labelled.problems
        if len(labelled.rows) < len(rows) and ids:
            chosen = np.searchsorted(rows, labelled.rows)
            ids = [ids[place] for place in chosen.tolist()]
        rows = labelled.rows
    return _with_features(raw, data, roles, problems, ids, rows, labelled, summary)


def _with_features(
    raw: Raw,
    data: Data,
    roles: Roles,
    problems: list[Problem],
    ids: list[str],
    rows: Ints,
    labelled: Labelled | None,
    summary: bool,
) -> Checked:
    sound = labelled is not None and not any(problem.severity == "error" for problem in labelled.problems)
    labels = labelled.labels if labelled is not None and sound else None
    features = features_of(raw, data, roles.features, rows, labels) if len(rows) else []
    problems = [*problems, *(problem for feature in features for problem in feature.problems)]
    columns = _summary(raw, roles, features, rows, labels) if summary else ()
    if any(problem.severity == "error" for problem in problems):
        return Checked(raw.where, len(rows), tuple(problems), columns)
    choices = tuple(feature.choice for feature in features if feature.choice is not None)
    contents = Contents(
        ids,
        {feature.name: feature.cells for feature in features},
        choices,
        {feature.name: feature.reading for feature in features},
        labels,
        _notes(problems, features, choices, roles, labels),
        raw.rows - len(rows),
    )
    return Checked(raw.where, len(rows), tuple(problems), columns, contents)


def _notes(
    problems: list[Problem],
    features: list[Feature],
    choices: tuple[Choice, ...],
    roles: Roles,
    labels: Labels | Floats | None,
) -> tuple[str, ...]:
    notes = [f"{problem}." for problem in problems if problem.kind not in DROPPED]
    if chosen := said(features, choices):
        notes.append(f"Columns: {chosen}.")
    if isinstance(labels, Labels) and labels.classes != tuple(map(str, range(len(labels.classes)))):
        codes = ", ".join(f"{text} is {code}" for code, text in enumerate(labels.classes[:5]))
        notes.append(f"Classes of {roles.label!r}: {codes}{', …' if len(labels.classes) > 5 else ''}.")
    return tuple(notes)


def _summary(
    raw: Raw, roles: Roles, features: list[Feature], rows: Ints, labels: Labels | Floats | None
) -> tuple[ColumnSummary, ...]:
    found = [summary_of(name, take(raw.column(name), rows), "id", secret=True) for name in roles.ids]
    if roles.label is not None:
        numbers = None if isinstance(labels, Labels) else labels
        cells = take(raw.column(roles.label), rows) if numbers is None else Numbers(numbers)
        found.append(summary_of(roles.label, cells, "label"))
    for feature in features:
        found.append(summary_of(feature.name, feature.cells, feature.choice.use if feature.choice else "?"))
    return tuple(found)


def lines(checked: Checked) -> list[str]:
    """A checked table for a terminal: its columns, then its problems, errors first."""
    found = [f"{checked.where}: {checked.rows} rows, {len(checked.summary)} columns", *table_lines(checked.summary)]
    warnings = [problem for problem in checked.problems if problem.severity == "warning"]
    found += [f"error: {problem}" for problem in checked.errors]
    found += [f"warning: {problem}" for problem in warnings]
    errors = counted(len(checked.errors), "error", "errors")
    found.append(f"{errors}, {counted(len(warnings), 'warning', 'warnings')}")
    return found
