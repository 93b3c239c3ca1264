"""The ledger of a site: what all its runs reserved and paid, in a folder that outlives them.

    ledger.json, ledger.copy.json   an entry for each run; replaced in one step, with a checksum
    ledger.lock                     held while it is changed
    ID.lock                         held by the one process that takes part in the run with this id
    approved.json                   which files the site's operator approved, with a copy

    begin(folder)       begin it. A missing ledger is never taken for an empty one
    read(folder)        as it is now
    changed(folder)     the entries, to be changed while no other process does; what a `with` leaves is written

Each write adds one to `writes`: of two copies of one ledger, the one with more is the later. A folder that was put back
to an earlier time whole does not show it: keep that number elsewhere.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tacit.config.source import ConfigError
from tacit.dp.accounting import Ledger
from tacit.dp.lifetime import Plain
from tacit.store.files import Damaged, copy_of, make_folder, read_plain, read_twice, write_twice

__all__ = ["Entry", "SiteLedger", "approve", "approved", "begin", "changed", "checked_folder", "held", "read"]

_KEYS = frozenset({"version", "site", "began", "writes", "runs"})
_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of a party of this site."""

    id: str
    name: str
    kind: str
    protection: str
    party: str
    file: str  # fingerprint of the settings
    tasks: tuple[str, ...]  # digests of their source
    began: float  # seconds since 1970, as this machine's clock said
    last: float
    most: tuple[Plain, ...]  # ledgers that are reserved
    paid: tuple[Plain, ...]
    state: Literal["open", "closed", "settled"]  # settled: by hand

    @property
    def counted(self) -> tuple[Plain, ...]:
        """What the site must assume: all that is reserved, until the run is over."""
        return self.most if self.state == "open" else self.paid


@dataclass(slots=True)
class SiteLedger:
    """All runs of a site."""

    site: str  # drawn when it was begun: another ledger has another
    began: float
    writes: int
    runs: dict[str, Entry] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        runs = [asdict(entry) for entry in self.runs.values()]
        return {"version": 1, "site": self.site, "began": self.began, "writes": self.writes, "runs": runs}


# --- the folder


def checked_folder(folder: Path) -> Path:
    """The folder; ConfigError if it is a link, or others may write there."""
    if folder.is_symlink():
        raise ConfigError(f"{folder}: policy.folder must not be a link: name the folder itself")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: policy.folder is a file: name a folder, which tacit ledger SITE --begin makes")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder: begin the site's ledger with tacit ledger SITE --begin")
    if folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"{folder}: other users may write there: chmod 700 {folder}")
    return folder


def begin(folder: Path) -> SiteLedger:
    """Begin a ledger; ConfigError if there is one, or what may be left of one."""
    if not folder.exists() and not folder.is_symlink():
        make_folder(folder)
        folder.chmod(0o700)
    checked_folder(folder)
    with _locked(folder / "ledger.lock", wait=True):
        path = folder / "ledger.json"
        if path.exists() or copy_of(path).exists():
            raise ConfigError(f"{path}: this site's ledger was begun already: it is never begun anew")
        fresh = SiteLedger(os.urandom(16).hex(), time.time(), 0)
        write_twice(path, fresh.to_json())
    return fresh


def read(folder: Path) -> SiteLedger:
    """ConfigError if it is missing or damaged: then nobody joins."""
    path = checked_folder(folder) / "ledger.json"
    if path.is_symlink():
        raise ConfigError(f"{path}: the site's ledger must not be a link: put the file itself there")
    try:
        found = read_twice(path, frozenset())
        if found is not None:
            return _later(_parsed(path, found), copy_of(path))
    except Damaged as error:
        raise ConfigError(f"{error}: no run is joined without it{_intact(copy_of(path))}") from None
    raise ConfigError(
        f"{path}: there is no ledger, and a missing one is not taken for an empty one: put it back, or, if this site "
        "never had one, begin it with tacit ledger SITE --begin"
    )


def _later(found: SiteLedger, copy: Path) -> SiteLedger:
    """The ledger, or its copy if that was written later.

    It was if a process was killed between the two, or if the ledger alone was put back to an earlier time.
    """
    try:
        other = _parsed(copy, read_plain(copy, frozenset()))
    except Damaged:
        return found
    return other if other.site == found.site and other.writes > found.writes else found


def _intact(copy: Path) -> str:
    try:
        _parsed(copy, read_plain(copy, frozenset()))
    except Damaged:
        return "; its copy is damaged too: put back a backup that holds the last runs"
    return f"; its copy is intact: cp {copy} {copy.with_name('ledger.json')}"


@contextmanager
def changed(folder: Path) -> Iterator[SiteLedger]:
    """The ledger, which no other process changes meanwhile. Written at the end, unless an error ends the `with`."""
    with _locked(checked_folder(folder) / "ledger.lock", wait=True):
        found = read(folder)
        yield found
        found.writes += 1
        write_twice(folder / "ledger.json", found.to_json())


@contextmanager
def held(folder: Path, id: str) -> Iterator[None]:
    """Be the one process of this site that takes part in a run: a copy of the run's folder has the same id."""
    with _locked(checked_folder(folder) / f"{id}.lock", wait=False):
        yield


@contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[None]:
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ConfigError(
                f"{path}: another process takes part in this run, from this folder or a copy of it: wait until it "
                "ends, or stop it"
            ) from None
        yield
    finally:
        os.close(opened)


# --- reading what is stored


def _parsed(path: Path, data: Mapping[str, Any]) -> SiteLedger:
    try:
        if data["version"] != 1 or not data.keys() >= _KEYS or not _ID.fullmatch(data["site"]):
            raise ValueError("it is of another version")
        runs = [_entry(each) for each in data["runs"]]
        return SiteLedger(data["site"], float(data["began"]), int(data["writes"]), {each.id: each for each in runs})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{path}: this file is damaged or missing: {error}") from None


def _entry(data: Mapping[str, Any]) -> Entry:
    entry = Entry(**{**data, "tasks": tuple(data["tasks"]), "most": tuple(data["most"]), "paid": tuple(data["paid"])})
    if not _ID.fullmatch(entry.id) or entry.state not in ("open", "closed", "settled"):
        raise ValueError(f"no run has the id {entry.id!r} and the state {entry.state!r}")
    for each in (*entry.most, *entry.paid):
        check_ledger(each)
    return entry


def check_ledger(data: Plain) -> None:
    """ValueError unless a ledger is one that `dp.lifetime` can compose."""
    epsilon, delta = data["epsilon"], data["delta"]
    if epsilon != "infinite" and not (type(epsilon) in (int, float) and 0 <= epsilon < math.inf):
        raise ValueError(f"epsilon cannot be {epsilon!r}")
    if type(delta) not in (int, float) or not 0 <= delta < 1:
        raise ValueError(f"delta cannot be {delta!r}")
    if not isinstance(data["view"], str) or not isinstance(data["covers"], list | tuple):
        raise ValueError("a ledger does not say what it covers")
    plain = {key: data[key] for key in ("unit", "relation", "lines")}
    Ledger.from_json({"version": 1, "budget": None, **plain})


# --- approvals


def approve(folder: Path, digest: str) -> None:
    """Note that the site's operator approved a plan."""
    with _locked(checked_folder(folder) / "ledger.lock", wait=True):
        known = approved(folder)
        if digest not in known:
            write_twice(folder / "approved.json", {"version": 1, "approved": [*sorted(known), digest]})


def approved(folder: Path) -> frozenset[str]:
    """The digests of what was approved. ConfigError if the file is damaged."""
    path = checked_folder(folder) / "approved.json"
    try:
        found = read_twice(path, frozenset())
    except Damaged as error:
        raise ConfigError(f"{error}: remove it and its copy, and approve again") from None
    known = [] if found is None else found.get("approved")
    if not isinstance(known, list) or not all(isinstance(each, str) and _DIGEST.fullmatch(each) for each in known):
        raise ConfigError(f"{path}: it does not say what was approved: remove it and its copy, and approve again")
    return frozenset(known)
