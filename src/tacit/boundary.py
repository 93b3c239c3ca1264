"""The release boundary, for every kind: what leaves a party, field by field, and what a training will come to.

Each kind has a `boundary` with `releases(settings)`, `sentences(settings)` for people, `unprotected(settings)`, and a
`forecast` of its own; `plan`, `report` and `audit` read them, and tests compare them with the messages of runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CLEAR = "in the clear"


@dataclass(frozen=True, slots=True)
class Release:
    """One thing that leaves a party. By default from a client to the coordinator."""

    message: str
    field: str
    what: str
    protection: str
    sender: str = "client"  # a role
    receiver: str = "coordinator"


def session_releases(lead: str, other: str) -> tuple[Release, ...]:
    """What parties in lock step tell each other before they begin or resume, by role."""
    return (
        Release("Holding", "session", "the random number of the training it is part of, if any", CLEAR, other, lead),
        Release("Holding", "begun", "whether it has answered anything in it", CLEAR, other, lead),
        Release("Resuming", "session", "the random number of the training that all are part of", CLEAR, lead, other),
        Release("Resuming", "anew", "whether all begin anew", CLEAR, lead, other),
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a file will cost and show, before anybody trains."""

    title: str
    sections: Mapping[
        str, tuple[str, ...]
    ]  # sentences under their heading, in order; headings without any are left out
    figures: Mapping[str, Any] = field(default_factory=dict)  # the same as plain numbers, for `tacit plan --json`
