"""The tables of the task `table`: whose they are, where they lie, and what is wrong with them. Needs no torch.

    check_options(options, parties)         what the shared file says of tables; ValueError in a sentence
    data_of(options, seat)                  one party's section, and the folder of its paths
    absent(settings, name)                  whether a party's table is elsewhere
    check_tables(settings, party, ...)      everything that is wrong with the tables that are here

In the shared file `task_options.data` has a section for each party by its name; in a party's local file it is that
party's own section. A section is the one that regressions have (`tables.settings.Data`), without weight of evidence:
that needs counts of labels, which nobody sends here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tacit.config.source import ConfigError
from tacit.tables.settings import Data, data_from
from tacit.tables.table import checked

if TYPE_CHECKING:
    from tacit.config.local import Local
    from tacit.kinds.split.settings import Settings
    from tacit.tables.check import Checked

TASK = "table"
_KEY = "task_options.data"


class Roles(Protocol):
    """Whose table it is: a `Seat`, or what is known of one without torch."""

    @property
    def party(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def own_options(self) -> frozenset[str]: ...
    @property
    def folder(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class _Owner:
    party: str
    role: str
    own_options: frozenset[str] = frozenset()
    folder: Path = Path()


def check_options(options: Mapping[str, Any], roles: Mapping[str, str]) -> None:
    """What the shared file says of the tables of these parties."""
    for name in _by_party(options):
        if name not in roles:
            raise ValueError(f"{_KEY}: {name} is none of the parties {', '.join(roles)}")
        _section(_by_party(options)[name], f"{_KEY}.{name}", name, roles[name])


def data_of(options: Mapping[str, Any], seat: Roles) -> tuple[Data, Path] | None:
    """What a file says of a party's table, and the folder of its paths; None if it says nothing."""
    if "data" in seat.own_options:
        return _section(options["data"], f"the local file of {seat.party}: {_KEY}", seat.party, seat.role), seat.folder
    given = _by_party(options).get(seat.party)
    return None if given is None else (_section(given, f"{_KEY}.{seat.party}", seat.party, seat.role), Path())


def no_data(name: str) -> str:
    """What to do if a party has no table."""
    return (
        f"there are no data of {name}: add task_options: {{data: {{{name}: {{path: FILE}}}}}} to the file, or "
        f"task_options: {{data: {{path: FILE}}}} to its --local file"
    )


def absent(settings: Settings, name: str) -> bool:
    """Whether a party's table is not on this machine, as far as the shared file says: then a plan does without it."""
    found = data_of(settings.task_options, _Owner(name, settings.parties[name].role))
    return found is None or (found[0].path is not None and not Path(found[0].path).exists())


def check_tables(settings: Settings, party: str | None, local: Local, folder: Path) -> dict[str, Checked]:
    """Everything that is wrong with one party's table, or with all that are here."""
    if settings.task != TASK:
        raise ConfigError(f"the data come from the task {settings.task}: there is no table to check")
    if party is not None and party not in settings.parties:
        raise ConfigError(f"--party is {party!r}: give {' or '.join(settings.parties)}")
    own = local.task_options if party is not None else {}
    options = {**settings.task_options, **own}
    found = {}
    for name in settings.parties if party is None else (party,):
        owner = _Owner(name, settings.parties[name].role, frozenset(own), folder)
        try:
            given = data_of(options, owner)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if given is not None:
            found[name] = checked(*given, "classes" if owner.role == "leader" else None)
        elif party is not None:
            raise ConfigError(no_data(name))
    if not found:
        raise ConfigError(f"no table is here: add {_KEY} to the file, or give --party NAME --local FILE")
    return found


def _by_party(options: Mapping[str, Any]) -> Mapping[str, Any]:
    found = options.get("data") or {}
    if not isinstance(found, Mapping) or not all(isinstance(each, Mapping) for each in found.values()):
        raise ValueError(
            f"{_KEY} of the shared file: give each party's table by its name, as in {{bank: {{path: FILE}}}}"
        )
    return found


def _section(given: Any, where: str, name: str, role: str) -> Data:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {str(given)[:60]!r}: give {{path: FILE}}")
    data = data_from(given, where)
    if data.frame is not None:
        raise ValueError(f"{where}: a frame is not taken here: write it to a file, and give its path")
    if role != "leader" and data.label is not None:
        raise ValueError(f"{where}: {name} is a follower and has no label: leave out label, or make it the leader")
    if data.weighs_evidence:
        raise ValueError(
            f"{where}.columns: woe needs counts of labels, which a split training does not exchange: say one_hot, bin "
            "or numeric"
        )
    if data.label_counts:
        raise ValueError(f"{where}: a split training exchanges no counts of labels: leave out label_counts")
    return data
