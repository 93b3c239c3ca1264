"""One party's part in a file over a network, before it joins: how it joins, with which data, and what it paid so far.

What every kind says alike; each kind puts its own together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.net.site import own_credentials
from tacit.store.party_folder import party_of
from tacit.store.reading import Account, client_ledgers, ledgers


@dataclass(frozen=True, slots=True)
class Own:
    """What a party brings: its name, its local file and the folder of an earlier start."""

    name: str
    local: Local
    folder: Path  # that the local file's paths are relative to
    state: Path | None
    same: Callable[[Path], bool]  # whether the run in a folder has the settings of the file


class Priced(Protocol):
    """What something cost, as a ledger or a price list says."""

    @property
    def view(self) -> str: ...
    @property
    def covers(self) -> tuple[str, ...]: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...


def certified(own: Own) -> str:
    """Which certificate it joins with."""
    if own.local.keys is None:
        return "Its local file names no keys: `tacit keys` makes them, and on one machine --insecure does without."
    credentials = own_credentials(own.local, own.folder, own.name)
    return f"Its certificate is that of {credentials.name}, valid until {credentials.expires:%Y-%m-%d}."


def task_options(task: str, shared: Mapping[str, Any], own: Own) -> str:
    """With which options its task is made."""
    options = own.local.task_options
    if not options:
        return f"The task {task} is made with the options of the shared file: the local file adds none."
    replaced = sorted(options.keys() & shared.keys())
    words = ", ".join(f"{key}: {value}" for key, value in options.items())
    over = f"; {', '.join(replaced)} of the shared file {'is' if len(replaced) == 1 else 'are'} replaced"
    return f"The task {task} is made with these options of the local file: {words}{over if replaced else ''}."


def price(spent: Priced) -> str:
    """What something cost, in words."""
    return f"{spent.view} epsilon of {' and '.join(spent.covers)} {spent.epsilon:.4g} at delta {spent.delta:.3g}"


def account(spent: Account) -> str:
    """A ledger as a sentence."""
    words = price(spent)
    return f"{words[:1].upper()}{words[1:]} (unit {spent.unit}, {spent.relation})."


def nothing_paid(own: Own) -> str:
    """That its ledger is empty, and where an earlier one could be."""
    if own.state is not None:
        return f"Nothing: {own.state} holds nothing of {own.name} yet."
    return "Its ledger begins at nothing: name the folder of an earlier start with --state DIR."


def counted(own: Own, client: int | None = None) -> tuple[dict[str, int], tuple[Account, ...]]:
    """The counters and ledgers of an earlier start; of a client, those in its own file."""
    folder = own.state
    if folder is None or not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}, ()
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: this is not the folder of a run, it has no config.yaml: name that of {own.name}")
    whose = party_of(folder)
    if not _holds(whose, own.name, client):
        raise ConfigError(f"{folder}: this is the run of {whose or 'all parties in one process'}, not of {own.name}")
    if not own.same(folder):
        raise ConfigError(f"{folder}: its settings differ from those of the file, and `tacit join` would refuse them")
    return ({}, ledgers(folder)) if client is None else client_ledgers(folder / f"client-{client}.json")


def _holds(whose: str | None, party: str, client: int | None) -> bool:
    """Whether the folder of `whose`, which may be several clients, is of this party."""
    several = re.fullmatch(r"client-(\d{1,9}) to (\d{1,9})", whose or "")
    if several and client is not None:
        return int(several[1]) <= client <= int(several[2])
    return whose == party
