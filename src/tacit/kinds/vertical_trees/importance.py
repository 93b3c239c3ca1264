"""How much each of a party's own columns is used by the trees: bars for its page; at the active, of each party too."""

from __future__ import annotations

import math

from tacit.events import Bars, Event, Tabled
from tacit.kinds.vertical_trees.part import Part

SECTION = "Own columns"
_DRAWN = 30


def told(name: str, part: Part) -> list[Event]:
    """The columns that split, most used first, and at the active the part of each party; nothing if no tree splits."""
    return [*_own(name, part), *_by_party(part)]


def _own(name: str, part: Part) -> list[Event]:
    found = part.importance()
    if not found:
        return []
    drawn = dict(list(found.items())[:_DRAWN])
    some = f"The {_DRAWN} most used of {len(found)}" if len(found) > _DRAWN else "All"
    if part.ensemble is not None:
        unit = "gain"
        caption = f"{some} columns of {name} that trees split by: how much all splits by each lower the loss."
    else:
        unit = "splits"
        caption = (
            f"{some} columns of {name} that trees split by: how many splits by each it was asked for, those of a round "
            "that was done again included."
        )
    return [Bars(f"Columns of {name}", unit, caption, drawn, SECTION)]


def _by_party(part: Part) -> list[Event]:
    """What the splits of each party gain together, as the active knows it."""
    if part.ensemble is None:
        return []
    gains, splits = dict.fromkeys(part.parties, 0.0), dict.fromkeys(part.parties, 0)
    for tree in part.ensemble.trees:
        for number, name in enumerate(part.parties):
            own = tree.party == number
            gains[name] += float(tree.gain[own].sum())
            splits[name] += int(own.sum())
    whole = math.fsum(gains.values())
    if not whole:
        return []
    rows: list[list[str | float]] = [[name, splits[name], gains[name], gains[name] / whole] for name in part.parties]
    caption = "How many splits are by columns of each party, and how much they lower the loss together."
    return [Tabled("Splits of each party", caption, ["party", "splits", "gain", "share of the gain"], rows, SECTION)]
