"""A run as its directory has it, of any kind: what every report begins with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from tacit.boundary import Boundary
from tacit.events import EPOCHS, Counted, Event
from tacit.sections import Settings
from tacit.store.reading import Account

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class Record(Generic[S]):
    """A run that is finished, was stopped or is still running. Each kind has a view of it."""

    path: Path
    settings: S
    boundary: Boundary
    party: str | None  # whose folder it is; None if all parties were in one process
    events: tuple[Event, ...]
    ledgers: tuple[Account, ...]
    environment: dict[str, str]  # versions
    counted: Counted = EPOCHS  # the words of its kind
