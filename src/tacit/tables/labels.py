"""What is to be learnt: classes, or a number."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.tables.cells import Cells, Floats, Ints, Numbers, Raw, canonical, canonical_texts, is_missing, read
from tacit.tables.problems import Problem, counted, shown

MOST_CLASSES = 100
Wanted = Literal["classes", "number"]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Classes in order, numbers by their value and others by their text, and the class of each row by its place."""

    classes: tuple[str, ...]
    codes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """The labels of the rows that have one, the rows' numbers, and what is wrong with labels."""

    labels: Labels | Floats
    rows: Ints
    problems: tuple[Problem, ...]


def labels_of(raw: Raw, name: str, wanted: Wanted, rows: Ints, decimal: Literal[".", ","] | None = None) -> Labelled:
    """The labels in a column, of these rows."""
    cells = raw.column(name)
    missing = is_missing(cells)
    problems = []
    kept = rows
    if wanted == "classes":
        missing |= _marked(cells)
    blank = rows[missing[rows]]
    if len(blank):
        what = f"{counted(len(blank), 'row has', 'rows have')} no label (blank, NA, null or none)"
        if len(blank) == len(rows):
            problems.append(raw.problem("error", "no label", what, "fill labels in", name, blank))
        else:
            problems.append(raw.problem("warning", "no label", what, "left out of the training", name, blank))
        kept = rows[~missing[rows]]
    if wanted == "number":
        values, wrong = _numbers(raw, name, cells, kept, decimal)
        return Labelled(values, kept, (*problems, *wrong))
    if isinstance(cells, Numbers) and len(infinite := kept[np.isinf(cells.values[kept])]):
        what = f"{counted(len(infinite), 'label is', 'labels are')} infinite"
        problems.append(raw.problem("error", "infinite", what, "correct them, or leave them blank", name, infinite))
        kept = kept[np.isfinite(cells.values[kept])]
    texts, ordered = _classes(cells, kept)
    if len(kept) and len(ordered) < 2:
        what = f"there is one class only ({shown(ordered)})"
        problems.append(raw.problem("error", "one class", what, "a model needs rows of two or more", name))
    if len(ordered) > MOST_CLASSES:
        what = f"there are {len(ordered)} classes, at most {MOST_CLASSES} are learnt"
        remedy = (
            "if it is a number, take a model of numbers (model: linear, for trees objective: squared); if not, name "
            "another column as label"
        )
        problems.append(raw.problem("error", "many classes", what, remedy, name))
    places_of = {text: place for place, text in enumerate(ordered)}
    codes = np.fromiter((places_of[text] for text in texts), dtype=np.int64, count=len(texts))
    return Labelled(Labels(tuple(ordered), codes), kept, tuple(problems))


def _marked(cells: Cells) -> NDArray[np.bool_]:
    """Rows with a mark such as "?" among classes that are numbers: a missing label."""
    found = read(cells, share=1.0)
    if isinstance(found.cells, Numbers) and found.reading.kind == "number" and not found.unread:
        return np.isnan(found.cells.values)
    return np.zeros(len(cells), dtype=np.bool_)


def _classes(cells: Cells, rows: Ints) -> tuple[list[str], list[str]]:
    """The class of each row, and all classes in their order."""
    found = read(cells, share=1.0)
    if isinstance(found.cells, Numbers) and found.reading.kind == "number" and not found.unread:
        values = found.cells.values[rows]
        texts = canonical_texts(Numbers(values))
        return texts, list(map(canonical, np.unique(values).tolist()))
    whole = canonical_texts(cells)
    texts = [whole[row] for row in rows.tolist()]
    return texts, sorted(set(texts))


def _numbers(
    raw: Raw, name: str, cells: Cells, rows: Ints, decimal: Literal[".", ","] | None
) -> tuple[Floats, list[Problem]]:
    found = read(cells, decimal, share=0.5)
    if not isinstance(found.cells, Numbers) or found.reading.kind != "number":
        example = Counter(canonical_texts(cells)[row] for row in rows.tolist()).most_common(1)
        what = f"the label is not a number (such as {shown([text for text, _ in example])})"
        remedy = (
            "take a model of classes (model: logistic, for trees objective: binary), or name another column as label"
        )
        return np.zeros(len(rows)), [raw.problem("error", "label", what, remedy, name)]
    values = found.cells.values[rows]
    unread = sorted(set(found.unread) & set(rows.tolist()) | set(rows[~np.isfinite(values)].tolist()))
    if unread:
        what = counted(len(unread), "label is not a number", "labels are not numbers")
        texts = canonical_texts(cells)
        cells_there = [texts[row] for row in unread]
        return values, [
            raw.problem("error", "unread", what, "correct them, or leave them blank", name, unread, cells_there)
        ]
    if len(values) and values.min() == values.max():
        what = "all labels are the same number"
        return values, [raw.problem("error", "one class", what, "a model needs different ones", name)]
    return values, []
