"""Which columns of a table are its ids, its label and its features."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tacit.tables.assembly import TWICE, first_of
from tacit.tables.cells import Raw
from tacit.tables.problems import Problem
from tacit.tables.settings import Data


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns by name. `label` is None if none is asked for, or if it is not there."""

    ids: tuple[str, ...]
    label: str | None
    features: tuple[str, ...]


def roles_of(raw: Raw, data: Data, *, label: bool) -> tuple[Roles, list[Problem]]:
    """What each column is for, and a problem for each name that the file gives and the table does not have."""
    ids = (raw.names[0],) if data.id is None else (data.id,) if isinstance(data.id, str) else data.id
    target = data.label
    problems = []
    if label and target is None:
        target = next((name for name in raw.names if name not in ids), None)
        if target is None:
            what = "labels are the second column, and there is none"
            problems.append(Problem("error", "column", raw.where, what, "name the column of the labels as label"))
    if target in ids:
        what = f"the column {target!r} cannot hold both ids and labels"
        problems.append(Problem("error", "column", raw.where, what, "name another column as id or label"))
    given = tuple(data.columns) if data.columns is not None else ()
    features = given if isinstance(data.columns, tuple) else tuple(raw.names)
    times = Counter(given)
    for name in sorted({name for name in given if times[name] > 1 or name in ids or (label and name == target)}):
        what = f"features must be different columns, and neither the ids nor the labels, and {name!r} is not"
        problems.append(Problem("error", "column", raw.where, what, "take it out of columns"))
    wanted = (*ids, *((target,) if label and target else ()), *given)
    problems += [not_there(raw, name) for name in dict.fromkeys(wanted) if not raw.has(name)]
    taken = {*ids, target}
    return (
        Roles(
            tuple(name for name in ids if raw.has(name)),
            target if label and target and raw.has(target) and target not in ids else None,
            tuple(name for name in dict.fromkeys(features) if raw.has(name) and name not in taken),
        ),
        problems,
    )


def concerns(problem: Problem, used: Collection[str], data: Data) -> bool:
    """Whether a problem of the source matters if these columns are used; "" stands for the table. A name that two
    columns have matters if either is used, unless the file drops the second."""
    if problem.kind != TWICE:
        return problem.column in used
    return data.column(problem.column).use != "drop" and (problem.column in used or first_of(problem) in used)


def not_there(raw: Raw, name: str) -> Problem:
    near = nearest(name, raw.names)
    what = f"there is no column {name!r}"
    names = ", ".join(raw.names[:20]) + (", …" if len(raw.names) > 20 else "")
    return Problem("error", "column", raw.where, what, f"did you mean {near!r}?" if near else f"it has {names}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the word, in any case; None if none is."""
    folded = {name.casefold(): name for name in known}
    return next((folded[near] for near in difflib.get_close_matches(word.casefold(), list(folded), n=1)), None)
