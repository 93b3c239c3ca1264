"""The events of one run as a page shows them: a line of words each, and points of its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.events import (
    Answered,
    Bars,
    Curve,
    EpochFinished,
    Evaluated,
    Event,
    RoundAborted,
    RoundFinished,
    RunFinished,
    RunResumed,
    Stepped,
    Tabled,
    TrainingResumed,
    Tree,
)
from tacit.report.listing import clean
from tacit.store.log_lines import line
from tacit.store.run_summary import costs_of_round
from tacit.store.tail import UNREADABLE, Told, read_piece

_PIECE = 1 << 18
_UNCOVERED = " (not covered by ε)"  # of private records, where others see only what ε covers
_BEGINNING = 1 << 23  # bytes before the end at which a page begins
_DRAWN = Curve | Bars | Tabled | Tree  # of them a line tells only how many points they have: the report draws them


def events_of(folder: Path, offset: int | None) -> dict[str, Any]:
    """The events after `offset`, as JSON: rows, where to go on, and whether there is more already.

    Without an offset, the last ones: a page that is opened late must not read gigabytes. `anew` if the file was
    replaced since the offset was given.
    """
    path = folder / "events.jsonl"
    size = path.lstat().st_size
    begin = max(0, size - _BEGINNING) if offset is None else offset
    piece = read_piece(path, begin, _PIECE)
    rows = [row for told in piece.told if (row := _row(told)) is not None]
    return {
        "rows": rows,
        "from": begin,
        "next": piece.end,
        "more": piece.end < piece.size and piece.end > begin,
        "anew": piece.end < begin,
        "damaged": piece.damaged,
    }


def _row(told: Told) -> dict[str, Any] | None:
    try:
        words = "" if isinstance(told.event, _DRAWN) else clean(line(told.event))
        at, points = place(told.event)
        row: dict[str, Any] = {"time": told.at, "words": words, "tone": _tone(told.event)}
        if points:
            row |= {"x": at, "points": points}
        if isinstance(told.event, RunResumed | TrainingResumed):
            row["back"] = at  # what was drawn after it is done again
    except UNREADABLE:
        return None
    return row if words or points else None


def place(event: Event) -> tuple[float, dict[str, float]]:
    """Where an event stands, in rounds or epochs, and the figures that it has there."""
    match event:
        case RoundFinished():
            spent = {f"ε of {of}": epsilon for of, (epsilon, _) in costs_of_round(event).items()}
            others = {"training loss": event.training_loss, "survivors": event.survivors}
            return event.round + 1, _finite({**event.metrics, **spent, **others})
        case Evaluated():
            return event.round + 1, _finite({event.eval_type.removesuffix("_SCORE").lower(): event.score})
        case EpochFinished():
            mark = "" if event.epsilon is None else _UNCOVERED
            local = {f"{name}{mark}": value for name, value in event.local.items()}
            return event.epoch + 1, _finite({**event.metrics, **local, "ε": event.epsilon})
        case Stepped():
            whole = event.epoch + event.step / max(1, event.steps)
            # Always marked: steps of a private training have an epsilon only now and then.
            return whole, _finite({f"loss of steps{_UNCOVERED}": event.loss, "ε": event.epsilon})
        case Answered():
            return event.round + 1, _finite({f"ε of {of}": value for of, value in event.epsilons.items()})
        case RunResumed():
            return event.round, {}
        case TrainingResumed():
            return event.epoch, {}
        case _:
            return 0.0, {}


def _finite(figures: Mapping[str, float | None]) -> dict[str, float]:
    found = {name: float(value) for name, value in figures.items() if value is not None}
    return {clean(name, 60): value for name, value in found.items() if math.isfinite(value)}


def _tone(event: Event) -> str:
    if isinstance(event, RunFinished):
        return "good" if event.status == "done" else "bad" if event.status == "failed" else "fair"
    return "fair" if isinstance(event, RoundAborted) else ""
