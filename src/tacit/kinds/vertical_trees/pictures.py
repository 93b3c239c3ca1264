"""The first trees as the active sees them: its own splits in words, those of others as numbers.

told(part)                      one event for each tree that is drawn
split_words(column, left)       a split of an own column, as a sentence that is true for rows that go left
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tacit.events import Event
from tacit.events import Tree as Drawn
from tacit.kinds.vertical_trees.columns import Column
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.protocol.bins import Numbers
from tacit.kinds.vertical_trees.protocol.features import BoolArray
from tacit.kinds.vertical_trees.protocol.tree import LEAF, Tree
from tacit.report.numbers import short

SECTION = "Trees"
_DRAWN = 3  # rounds
_MOST = 12  # trees
_NAMED = 3  # categories of a split


def told(part: Part) -> list[Event]:
    """The trees of the first rounds; nothing for a party that has none."""
    if part.ensemble is None:
        return []
    outputs = part.ensemble.outputs
    found: list[Event] = []
    for place, tree in enumerate(part.ensemble.trees[: min(_MOST, _DRAWN * outputs)]):
        of = _class(part, place % outputs)
        name = f"Tree {place // outputs + 1}" + (f", {of}" if outputs > 1 else "")
        found.append(_drawn(tree, name, of, part))
    return found


def _class(part: Part, output: int) -> str:
    """What the scores of an output raise."""
    if not part.classes:
        return ""
    return part.classes[output if part.ensemble is not None and part.ensemble.outputs > 1 else 1]


def _drawn(tree: Tree, name: str, of: str, part: Part) -> Drawn:
    raised = f"the score of {of}" if of else "the score"
    caption = (
        f"Rows for which a split holds are above it, the others below. A leaf says what it adds to {raised}. Splits of "
        "other parties are numbers of features and bins: their names and bounds stay with their owners."
    )
    words, owners = [], []
    children: list[list[int]] = []
    for node, party in enumerate(tree.party.tolist()):
        if party == LEAF:
            value = float(tree.value[node])
            words.append(f"{'+' if value >= 0 else ''}{short(value, 3)}")
            owners.append("")
            children.append([])
            continue
        feature, left = int(tree.feature[node]), tree.left[node]
        said = split_words(part.columns.columns[feature], left) if party == 0 else _opaque(feature, left)
        words.append(f"{said} (gain {short(float(tree.gain[node]), 3)})")
        owners.append(part.parties[party])
        children.append(tree.children[node].tolist())
    return Drawn(name, caption, words, owners, children, SECTION)


def split_words(column: Column, left: BoolArray) -> str:
    """A split of an own column, as a sentence that is true for rows that go left. `left` has a flag for each bin."""
    bins = column.bins.bins
    flags, missing = left[: bins - 1], bool(left[bins - 1]) and column.filled is None
    if not isinstance(column.bins, Numbers):
        names = [column.part(number) for number in np.flatnonzero(left[:bins]).tolist()]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{column.name} is {', '.join(names[:_NAMED])}{more}"
    count = int(flags.sum())
    if count == bins - 1:
        return f"{column.name} is known"
    if not count:
        return f"{column.name} is missing"
    return f"{column.name} ≤ {column.bins.edges[count - 1]:.6g}" + (" or missing" if missing else "")


def _opaque(feature: int, left: BoolArray) -> str:
    """A split of another party, as the active knows it. Features and bins are counted from 1."""
    places = np.flatnonzero(left) + 1
    ends = [0, *(place + 1 for place, (one, two) in enumerate(pairwise(places)) if two > one + 1), len(places)]
    runs = [(int(places[start]), int(places[end - 1])) for start, end in pairwise(ends) if end > start]
    said = ", ".join(f"{first}" if first == last else f"{first}–{last}" for first, last in runs[:_NAMED])
    return f"feature {feature + 1} in bins {said}{', …' if len(runs) > _NAMED else ''}"
