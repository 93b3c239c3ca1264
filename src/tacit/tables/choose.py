"""A stand-in until the chosen uses of columns are merged: numbers are numeric, text is one_hot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.tables.cells import Cells, Numbers, Texts
from tacit.tables.settings import Column, Use


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    use: Use
    column: Column
    said: str


def choose(name: str, cells: Cells, given: Column) -> Choice:
    values = set(cells.values) - {""} if isinstance(cells, Texts) else set(np.unique(cells.values).tolist())
    use: Use = "numeric" if isinstance(cells, Numbers) else "one_hot"
    said = "numbers" if use == "numeric" else f"{len(values)} categories"
    if isinstance(cells, Texts) and len(values) > len(cells) / 2 and len(values) > 50:
        use, said = "drop", "nearly every row has its own text"
    if len({value for value in values if value == value}) < 2:
        use, said = "drop", "one value only" if values else "empty"
    if given.use is not None:
        use, said = given.use, ""
        if isinstance(cells, Texts) and use in ("numeric", "log", "bin"):
            raise ValueError(f"column {name}: {use} needs numbers, and it holds text: say one_hot or woe")
    missing = given.missing or ("mean" if use == "numeric" else "own category")
    return Choice(name, use, given.model_copy(update={"use": use, "missing": missing}), said)
