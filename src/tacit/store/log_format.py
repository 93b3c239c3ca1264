"""How a line of a log looks: what it says, or that with its time and level, or as JSON.

plain   round 4/30 survivors 10 accuracy: 0.91 2.1 s
text    2026-11-18T20:00:00Z INFO round 4/30 survivors 10 accuracy: 0.91 2.1 s
json    {"time": "2026-11-18T20:00:00.000Z", "level": "INFO", "event": "RoundFinished", "message": ..., "fields": ...}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from tacit.events import (
    EPOCHS,
    AnswerRefused,
    BudgetReached,
    ClientBlamed,
    ClientRefused,
    Counted,
    Event,
    PortWatched,
    RoundAborted,
    RunFinished,
    SharesDisputed,
)
from tacit.store.files import plain
from tacit.store.log_lines import line

Format = Literal["plain", "text", "json"]
Level = Literal["INFO", "WARNING", "ERROR"]
_NOTHING: Mapping[str, Any] = {}


def event_line(event: Event, rounds: int | None, at: float, form: Format, counted: Counted = EPOCHS) -> str:
    """The event as a line; empty if it is not worth one. `at`: seconds since 1970."""
    words = line(event, rounds, counted)
    if not words or form == "plain":
        return words
    return written(words, at, form, level_of(event), type(event).__name__, asdict(event))


def written(
    words: str, at: float, form: Format, level: Level = "INFO", name: str = "", fields: Mapping[str, Any] = _NOTHING
) -> str:
    """Anything else that is said, as a line. `name`: of the event."""
    when = datetime.fromtimestamp(at, UTC)
    match form:
        case "plain":
            return words
        case "text":
            return f"{when:%Y-%m-%dT%H:%M:%SZ} {level} {words}"
        case "json":
            time = f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"
            data = {"time": time, "level": level, "event": name, "message": words, "fields": fields}
            return json.dumps(plain(data), allow_nan=False)


def level_of(event: Event) -> Level:
    """How much attention an event asks for."""
    match event:
        case RunFinished(status="failed"):
            return "ERROR"
        case (
            ClientRefused()
            | ClientBlamed()
            | SharesDisputed()
            | RoundAborted()
            | AnswerRefused()
            | BudgetReached()
            | PortWatched()
            | RunFinished(status="budget reached")
        ):
            return "WARNING"
        case _:
            return "INFO"
