"""Ids and plain numbers of a table, with nothing chosen, transformed or filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tacit.tables.cells import Floats, Numbers, Raw, Reading, canonical_texts
from tacit.tables.labels import Labels, labels_of
from tacit.tables.problems import Problem, TableError, counted
from tacit.tables.roles import roles_of
from tacit.tables.settings import Data
from tacit.tables.sources import read


@dataclass(frozen=True, slots=True, eq=False)
class PlainTable:
    """The rows of a table whose features are numbers."""

    ids: list[str]
    features: Floats  # NaN where a cell is missing, if that is allowed
    names: tuple[str, ...]  # of the features
    labels: Labels | None


def read_numbers(
    path: str | Path,
    *,
    id: str | None = None,
    label: str | Literal[True] | None = None,
    columns: Sequence[str] | None = None,
    missing: bool = False,
) -> PlainTable:
    """The ids, numbers and classes of a CSV or Parquet file. TableError lists all cells that are no numbers.

    Args:
        id: the column of the ids; by default the first.
        label: the column of the classes, or True for the second; by default there are none.
        columns: the features, in the order they are wanted; by default all other columns.
        missing: whether a feature may be missing; it is NaN then.
    """
    named = tuple(columns) if columns is not None else None
    data = Data(path=str(path), id=id, label=label if isinstance(label, str) else None, columns=named)
    raw = read(data, Path())
    roles, problems = roles_of(raw, data, label=label is not None)
    problems += raw.problems
    if not raw.rows:
        problems.append(raw.problem("error", "no rows", "no rows under the header", "give a table with rows"))
    if any(problem.severity == "error" for problem in problems):
        raise TableError(problems)
    rows = np.arange(raw.rows, dtype=np.int64)
    labelled = labels_of(raw, roles.label, "classes", rows) if roles.label is not None else None
    if labelled is not None:
        problems += [_required(problem) for problem in labelled.problems]
    features = np.empty((raw.rows, len(roles.features)))
    for place, name in enumerate(roles.features):
        features[:, place], wrong = _numbers(raw, name, missing)
        problems += wrong
    if problems:
        raise TableError(problems)
    labels = labelled.labels if labelled is not None and isinstance(labelled.labels, Labels) else None
    return PlainTable(canonical_texts(raw.column(roles.ids[0])), features, roles.features, labels)


def _required(problem: Problem) -> Problem:
    """A row without a label cannot be left out here: the rows are those of the file."""
    if problem.kind != "no label":
        return problem
    return replace(problem, severity="error", remedy="fill it in or remove the row")


def _numbers(raw: Raw, name: str, missing: bool) -> tuple[Floats, list[Problem]]:
    source = raw.column(name)
    cells, unread = Reading("number").apply(source)
    values = cells.values if isinstance(cells, Numbers) else np.full(raw.rows, np.nan)
    unread = unread or np.flatnonzero(np.isinf(values)).tolist()
    if unread:
        texts = canonical_texts(source)
        what = counted(len(unread), "cell is not a number", "cells are not numbers")
        remedy = "recode the column as numbers, or leave it out"
        return values, [raw.problem("error", "unread", what, remedy, name, unread, [texts[row] for row in unread])]
    absent = np.flatnonzero(np.isnan(values))
    if len(absent) and (not missing or len(absent) == len(values)):
        what = f"{counted(len(absent), 'value is', 'values are')} missing"
        return values, [raw.problem("error", "missing", what, "fill them in, or leave the column out", name, absent)]
    return values, []
