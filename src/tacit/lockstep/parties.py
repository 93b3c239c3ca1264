"""What the settings of every kind of parties in lock step have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacit.sections import Settings, meeting_party

if TYPE_CHECKING:
    from tacit.tables.settings import Data


class Parties(Settings):
    """The settings of a few parties. It adds no field: one more would reorder every stored file."""

    if TYPE_CHECKING:
        parties: Mapping[str, Any]  # by name, each with a role and perhaps an address

    @property
    def lead(self) -> str:
        """The party whose training it is."""
        raise NotImplementedError

    def brings_data(self, name: str) -> bool:
        """Whether this party has a table."""
        return True

    @property
    def hub(self) -> str:
        """The party that the others connect to."""
        return meeting_party(self.lead, {name: party.address for name, party in self.parties.items()})


class TableParties(Parties):
    """The settings of parties with tables of the same rows. It adds no field either."""

    if TYPE_CHECKING:
        data: Mapping[str, Data]  # of the parties whose tables this file names
        task: str | None  # built-in data instead
        task_options: Mapping[str, Any]
        align: bool
        seed: int

    @property
    def active(self) -> str:
        """The party that has the labels."""
        return next(name for name, party in self.parties.items() if party.role == "active")

    @property
    def lead(self) -> str:
        return self.active

    @property
    def passives(self) -> tuple[str, ...]:
        """The parties with more features of the same rows."""
        return tuple(name for name, party in self.parties.items() if party.role == "passive")

    @property
    def owners(self) -> tuple[str, ...]:
        """The parties that have data."""
        return tuple(name for name in self.parties if self.brings_data(name))
