"""How much each of a party's own columns is used by the trees: bars for its page."""

from __future__ import annotations

from tacit.events import Bars, Event
from tacit.kinds.vertical_trees.part import Part

SECTION = "Own columns"
_DRAWN = 30


def told(name: str, part: Part) -> list[Event]:
    """The columns that split, most used first; nothing if none does."""
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
