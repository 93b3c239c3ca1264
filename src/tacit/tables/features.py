"""The columns to learn from: read, chosen, and checked one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.tables.cells import MARKS, Cells, Floats, Ints, Numbers, Raw, Read, Reading, Texts, is_missing, read, take
from tacit.tables.choose import Choice, choose
from tacit.tables.labels import Labels
from tacit.tables.problems import Problem, counted
from tacit.tables.settings import Column, Data
from tacit.tables.telling import tells

_GROUPS = re.compile(r"[+-]?(?:[0-9]+|[1-9][0-9]{0,2}(?:\.[0-9]{3})+)?")
DROPPED = frozenset({"empty", "constant", "text"})  # kinds of problems that the list of choices says too


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """A column of the rows that are kept, as it is read, and what becomes of it. No choice: it cannot be used."""

    name: str
    cells: Cells
    reading: Reading
    choice: Choice | None
    problems: tuple[Problem, ...]
    note: str = ""


def features_of(
    raw: Raw, data: Data, names: Sequence[str], rows: Ints, labels: Labels | Floats | None
) -> list[Feature]:
    """Every column to learn from, of these rows."""
    columns = [(name, data.column(name)) for name in names]
    reads = {name: _read(raw.column(name), given) for name, given in columns}
    if any(found.reading.decimal == "," and not data.column(name).decimal for name, found in reads.items()):
        reads |= {name: _with_commas(raw.column(name), given, reads[name]) for name, given in columns}
    whole = len(rows) == raw.rows
    return [_feature(raw, name, given, reads[name], None if whole else rows, labels) for name, given in columns]


def _read(cells: Cells, given: Column) -> Read:
    """A column as the file's use of it wants: numbers if it says so, categories as they are if not all are numbers."""
    match given.use:
        case "drop":
            return Read(Reading() if isinstance(cells, Texts) else Reading(cells.kind), cells, [])
        case "numeric" | "log" | "bin":
            return read(cells, given.decimal, share=0.5)
        case "one_hot":
            found = read(cells, given.decimal, share=1.0)
            return Read(Reading(), cells, []) if isinstance(cells, Texts) and found.reading.kind == "date" else found
    return read(cells, given.decimal)


def _with_commas(cells: Cells, given: Column, found: Read) -> Read:
    """In a table with decimal commas "1.234" and "1,234" are read as its other columns tell, if they tell nothing."""
    if given.decimal or not isinstance(cells, Texts) or found.reading.kind != "number" or given.use == "drop":
        return found
    grouped = found.reading == Reading("number") and "." in "".join(cells.values)
    if not (found.doubtful or (grouped and all(map(_GROUPS.fullmatch, cells.values)))):
        return found
    again = _read(cells, given.model_copy(update={"decimal": ","}))
    return Read(again.reading, again.cells, again.unread, "decimal comma, as in other columns")


def _feature(
    raw: Raw, name: str, given: Column, found: Read, rows: Ints | None, labels: Labels | Floats | None
) -> Feature:
    problems = _unread(raw, name, given, found, rows)
    cells = found.cells if rows is None else take(found.cells, rows)
    try:
        choice = choose(name, cells, given)
    except ValueError as error:
        what = str(error).removeprefix(f"column {name}: ")
        wrong = raw.problem("error", "use", *_sentence(what), name)
        return Feature(name, cells, found.reading, None, (*problems, wrong))
    problems += _dull(raw, name, cells, given, choice)
    if choice.use != "drop":
        problems += _refused(raw, name, cells, choice, rows)
        if labels is not None and (how := tells(cells, labels)):
            what = f"it predicts the label ({how})"
            remedy = "leave it out if it is known only after the label is"
            problems.append(raw.problem("warning", "tells", what, remedy, name))
    return Feature(name, cells, found.reading, choice, tuple(problems), found.note)


def _sentence(words: str) -> tuple[str, str]:
    """What is wrong, and the remedy behind the last colon."""
    what, _, remedy = words.rpartition(": ")
    return (what, remedy) if what else (words, "correct it in columns")


def _unread(raw: Raw, name: str, given: Column, found: Read, rows: Ints | None) -> list[Problem]:
    """Cells that are not what the rest of the column is."""
    if given.use == "drop":
        return []
    problems = []
    kept = None if rows is None else set(rows.tolist())
    source = raw.column(name)

    def listed(which: Callable[[str], bool], among: Sequence[int]) -> list[int]:
        texts = source.values if isinstance(source, Texts) and among else []
        return [row for row in among if (kept is None or row in kept) and which(texts[row])]

    if isinstance(found.cells, Numbers) and isinstance(source, Numbers):
        infinite = [row for row in np.flatnonzero(np.isinf(source.values)).tolist() if kept is None or row in kept]
        texts = [str(source.values[row]) for row in infinite]
    elif isinstance(source, Texts):
        infinite = listed(_infinite, found.unread)
        texts = [source.values[row] for row in infinite]
    if infinite:
        what = counted(len(infinite), "number is infinite", "numbers are infinite")
        remedy = "correct them, or leave them blank"
        problems.append(raw.problem("error", "infinite", what, remedy, name, infinite, texts))
    if not isinstance(source, Texts) or isinstance(found.cells, Texts):
        return problems
    kind = found.reading.kind
    unread = listed(lambda text: not _infinite(text), found.unread)
    if unread:
        what = counted(
            len(unread), f"cell is not a {kind}, as the others are", f"cells are not {kind}s, as the others are"
        )
        remedy = f"correct them, leave them blank, or set columns: {{{name}: one_hot}}"
        cells = [source.values[row] for row in unread]
        problems.append(raw.problem("error", "unread", what, remedy, name, unread, cells))
    absent = int(np.count_nonzero(np.isnan(found.cells.values)))
    if absent > len(found.unread) and absent > len(found.unread) + source.values.count(""):
        marks = listed(lambda text: text.lower() in MARKS, range(len(source)))
        if marks:
            what = counted(len(marks), f"cell among {kind}s is a mark", f"cells among {kind}s are marks")
            cells = [source.values[row] for row in marks]
            problems.append(raw.problem("warning", "mark", what, "taken as missing", name, marks, cells))
    return problems


def _infinite(text: str) -> bool:
    if text.lower().lstrip("+-") in ("inf", "infinity"):
        return True
    try:
        return "_" not in text and bool(np.isinf(float(text)))
    except ValueError:
        return False


def _dull(raw: Raw, name: str, cells: Cells, given: Column, choice: Choice) -> list[Problem]:
    """A column that has nothing to learn from, or is dropped for what is in it."""
    if given.use == "drop":
        return []
    kind: Literal["", "empty", "constant"] = _without_contents(cells)
    if kind:
        what = "all cells are missing" if kind == "empty" else "it has one value only"
        remedy = "it is dropped" if choice.use == "drop" else "it has no information for the model"
        return [raw.problem("warning", kind, what, remedy, name)]
    if choice.use == "drop":
        return [raw.problem("warning", "text", choice.said or "it has no information", "it is dropped", name)]
    return []


def _without_contents(cells: Cells) -> Literal["", "empty", "constant"]:
    if isinstance(cells, Texts):
        values = set(cells.values)
        distinct, missing = len(values - {""}), "" in values
    else:
        known = cells.values[~np.isnan(cells.values)]
        distinct = 0 if not len(known) else 1 if known.min() == known.max() else 2
        missing = len(known) < len(cells)
    if not distinct:
        return "empty"
    return "constant" if distinct == 1 and not missing else ""


def _refused(raw: Raw, name: str, cells: Cells, choice: Choice, rows: Ints | None) -> list[Problem]:
    if choice.column.missing != "refuse":
        return []
    absent = np.flatnonzero(is_missing(cells))
    if not len(absent):
        return []
    absent = absent if rows is None else rows[absent]
    what = f"{counted(len(absent), 'value is', 'values are')} missing"
    instead = "own category" if choice.column.missing_apart else "mean or own category"
    remedy = f"fill them in, leave the column out, or set missing to {instead}"
    return [raw.problem("error", "missing", what, remedy, name, absent)]


def said(features: Sequence[Feature], choices: Sequence[Choice]) -> str:
    """What becomes of the columns, in one short sentence: numbers are counted, the others named."""
    notes = {feature.name: feature.note for feature in features}
    plain = [
        choice
        for choice in choices
        if choice.use == "numeric" and choice.said in ("", "numbers") and not notes.get(choice.name)
    ]
    counted_already = {choice.name for choice in plain}
    rest = [each for each in choices if each.name not in counted_already and (each.said or notes.get(each.name))]
    parts = [f"{counted(len(plain), 'column', 'columns')}: numeric"] if plain else []
    for choice in rest:
        use = "dropped" if choice.use == "drop" else choice.use
        why = ", ".join(filter(None, (choice.said, notes.get(choice.name, ""))))
        parts.append(f"{choice.name}: {use} ({why})")
    return "; ".join(parts)
