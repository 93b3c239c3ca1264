"""The release boundary, for every kind: what leaves a party, field by field.

Each kind has a module `boundary` whose `of(settings)` gives a `Boundary`; `plan`, `report` and `audit` read it, and
tests compare it with the messages of runs.
"""

from __future__ import annotations

from dataclasses import dataclass

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
class Boundary:
    """All that a file lets out of a party."""

    releases: tuple[Release, ...]
    sees: tuple[str, ...]  # who sees what, in sentences
    unprotected: tuple[str, ...]  # what stays open by nature
    covered: frozenset[str]  # fields of events that an epsilon covers
