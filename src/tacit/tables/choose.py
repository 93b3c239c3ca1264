"""What becomes of a column: as the file says, or else by the kind of its cells. Labels are never looked at."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import date

import numpy as np

from tacit.tables.cells import Cells, Numbers, Texts, canonical, is_missing
from tacit.tables.settings import Column, Missing, Use, fits

MOST_PARTS = 100  # of a text column that the file says nothing of
_FEW = 50  # so many distinct texts are never too many
_SHOWN = 30  # characters of a cell in a message, which stays with this party


@dataclass(frozen=True, slots=True)
class Choice:
    """What becomes of a column.

    Args:
        column: as the file gives it, with `use`, `missing` and `value` resolved.
        said: why it was chosen, in a few words; "" if the file gave all of it.
        most: of one_hot: the number of parts at most; rarer categories than that are taken together.
    """

    name: str
    use: Use
    column: Column
    said: str
    most: int | None = None


def choose(name: str, cells: Cells, given: Column) -> Choice:
    """Choose by the kind of the cells of the whole own table what the file leaves open."""
    use, why, most = (given.use, "", None) if given.use is not None else _by_kind(cells, given)
    if use == "drop":
        return Choice(name, "drop", given.model_copy(update={"use": "drop"}), why)
    _check(name, cells, use, given)
    number = use in ("numeric", "log", "bin") or (use == "woe" and isinstance(cells, Numbers))
    if unfit := given.unfit(number=number):
        raise ValueError(f"column {name}: {unfit}")
    missing = _missing(cells, use, given)
    value = _value(name, cells, given, number) if missing == "constant" else None
    blanks = int(is_missing(cells).sum())
    if blanks and missing != given.missing:
        why = f"{why}, {blanks} missing: {missing}" if why else f"{blanks} missing: {missing}"
    return Choice(name, use, given.model_copy(update={"use": use, "missing": missing, "value": value}), why, most)


def _by_kind(cells: Cells, given: Column) -> tuple[Use, str, int | None]:
    """The use, why, and the number of parts at most."""
    missing = is_missing(cells)
    if missing.all():
        return "drop", "empty", None
    if isinstance(cells, Texts):
        return _of_texts(cells, given)
    present = cells.values[~missing]
    varies = (present != present[0]).any() or (given.missing == "constant" and missing.any())
    if not varies:
        return "drop", "one value only", None
    return "numeric", "days since 1970-01-01" if cells.kind == "date" else "numbers", None


def _of_texts(cells: Texts, given: Column) -> tuple[Use, str, int | None]:
    counts = Counter(cells.values)
    distinct = len(counts) - ("" in counts)
    if len(counts) == 1:
        return "drop", "one value only", None
    if distinct > len(cells) / 2 and distinct > _FEW:
        return "drop", "nearly every row has its own text", None
    kept = sum(rows >= given.rare for rows in counts.values())
    together = len(counts) - kept
    if not kept:
        return "drop", f"no category has {given.rare} rows", None
    if kept + (together > 0) > MOST_PARTS:
        return "one_hot", f"{MOST_PARTS - 1} of {distinct} categories, the rest together", MOST_PARTS
    rare = f", {together} rare" + (" together" if together > 1 else "") if together else ""
    return "one_hot", f"{distinct} {'category' if distinct == 1 else 'categories'}{rare}", None


def _check(name: str, cells: Cells, use: Use, given: Column) -> None:
    """Refuse a use that does not fit the cells, and what it cannot do with missing ones."""
    if isinstance(cells, Texts) and use in ("numeric", "log", "bin"):
        example = next((text for text in cells.values if text), None)
        if example is None:
            raise ValueError(f"column {name}: it is empty, and {use} needs numbers: drop it")
        raise ValueError(
            f'column {name}: {use} needs numbers, and it holds text such as "{example[:_SHOWN]}": say one_hot or woe'
        )
    if given.use is not None and given.missing is not None and not _fits(given.use, given):
        remedy = "own category, constant or refuse" if use == "one_hot" else "mean, median, constant or refuse"
        raise ValueError(f"column {name}: `missing: {given.missing}` does not go with {use}: say {remedy}")


def _missing(cells: Cells, use: Use, given: Column) -> Missing:
    """As given if it fits. What is said for all columns of a table does not fit each of them."""
    by_category = use == "one_hot" or (use == "woe" and isinstance(cells, Texts))
    if given.missing is not None and _fits("one_hot" if by_category else use, given):
        return given.missing
    return "mean" if use in ("numeric", "log") and not given.missing_apart else "own category"


def _fits(use: Use, given: Column) -> bool:
    apart = given.missing_apart and given.missing == "own category"
    return apart or given.missing is None or fits(use, given.missing)


def _value(name: str, cells: Cells, given: Column, number: bool) -> float | str:
    """The constant for missing cells, as a number (or the days of a date), or as the text of a category."""
    value = given.value if given.value is not None else ""
    if not number:
        text = canonical(value) if isinstance(value, float) else value.strip()
        if not text:
            raise ValueError(f"column {name}: `value` is empty, and `missing: constant` needs a category")
        return text
    try:
        days = isinstance(cells, Numbers) and cells.kind == "date" and isinstance(value, str)
        found = float((date.fromisoformat(str(value)) - date(1970, 1, 1)).days) if days else float(value)
    except ValueError:
        found = math.nan
    if not np.isfinite(found):
        raise ValueError(f"column {name}: `value: {value}` is not a number, but its cells are: give a number")
    return found
