"""How many ids several tables have in common, and what would raise it. Only where all tables are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_SMALL = 0.1  # of the smallest table's ids


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many ids each table has, how many are common to all, and what would make them more."""

    sizes: Mapping[str, int]
    common: int
    advice: tuple[str, ...]


def compare_ids(tables: Mapping[str, Sequence[str]]) -> Overlap:
    """Compare the ids of several tables, by the party's name. Advice is given if few are common, or none."""
    common = _common(tables, str)
    smallest = min((len(set(ids)) for ids in tables.values()), default=0)
    advice = []
    if len(tables) > 1 and common <= _SMALL * smallest:
        for change, remedy in _CHANGES:
            if (better := _common(tables, change)) > common:
                advice.append(f"{better} ids would be common instead of {common} {remedy}")
        if not advice:
            advice.append(f"{common} ids are common: check that id names the same thing in every table")
    return Overlap({name: len(ids) for name, ids in tables.items()}, common, tuple(advice))


def _common(tables: Mapping[str, Sequence[str]], change: Callable[[str], str]) -> int:
    sets = [set(map(change, ids)) for ids in tables.values()]
    return len(set.intersection(*sets)) if sets else 0


def _plain(text: str) -> str:
    return text.strip().casefold().lstrip("0")


_CHANGES: tuple[tuple[Callable[[str], str], str], ...] = (
    (str.strip, "without white space around them: set ids: {strip: true}"),
    (str.casefold, "if capital letters did not count: set ids: {casefold: true} at every party"),
    (lambda text: text.lstrip("0"), "without zeros in front: write ids with the same number of digits everywhere"),
    (lambda text: text.removesuffix(".0"), "without .0 behind: write ids as whole numbers"),
    (_plain, "without white space, capital letters and zeros in front"),
)
