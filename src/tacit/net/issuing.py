"""Keys and certificates for many parties at once, in one process: for a fleet whose machines one organisation sets up.

    names_in(file)                                  the names, one a line; every line is checked before anything is made
    issue(authority, names, out, ...)               a folder for each name, all or nothing
    unusable(authority, certificate)                why a certificate that is there already is of no use

A folder is made beside its place and moved there when it is complete: a run that was killed leaves no half of one, and
is run again for the names that are left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.certificates import CERTIFICATE_DAYS, party_name
from tacit.net.identity import request
from tacit.net.pem_files import PRIVATE, PUBLIC, about, read_file, write_file

MOST_NAMES = 100_000
_WRITERS = 8  # threads: nearly all of the time goes by until files are on the disk


def names_in(file: Path) -> list[str]:
    """The names in a file, in order. Empty lines and what follows a # do not count."""
    try:
        lines = read_file(file).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: it is not text in UTF-8 (byte {error.start + 1})") from None
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        try:
            party_name(name)
        except ValueError as error:
            raise ConfigError(f"{file}:{number}: {error}") from None
        if name in found:
            raise ConfigError(f"{file}:{number}: {name} stands on line {found[name]} already: give each name once")
        found[name] = number
    if not found:
        raise ConfigError(f"{file}: there is no name in it: write one a line, such as client-0")
    if len(found) > MOST_NAMES:
        raise ConfigError(f"{file}: {len(found)} names, at most {MOST_NAMES} are issued at once")
    return list(found)


def issue(
    authority: AuthorityFolder,
    names: Sequence[str],
    out: Path,
    *,
    days: int = CERTIFICATE_DAYS,
    overwrite: bool = False,
    made: Callable[[str, bool], None] = lambda name, new: None,
) -> dict[str, str]:
    """Make keys and a certificate for each name, in `out`/NAME. `made` hears of each, and whether it is new.

    A name whose certificate is there is left as it is, unless `overwrite`. Certificates that are replaced stay valid.
    Gives the names whose certificate was left and is of no use, with the reason.
    """
    useless: dict[str, str] = {}

    def one(name: str) -> bool:
        folder = out / name
        certificate = folder / f"{name}.certificate.pem"
        if not overwrite and certificate.exists():
            if (reason := unusable(authority, read_file(certificate))) is not None:
                useless[name] = reason
            return False
        if folder.exists() and not overwrite:
            raise ConfigError(
                f"{folder} exists and has no {name}.certificate.pem: move it away, or replace its keys with --force"
            )
        _issue(authority, name, folder, days)
        return True

    if out.is_file():
        raise ConfigError(f"{out} is a file: give a folder by --out")
    with about(out):
        out.mkdir(parents=True, exist_ok=True)
    with _alone(out), ThreadPoolExecutor(_WRITERS) as pool:
        running = [pool.submit(one, name) for name in names]
        try:
            for name, each in zip(names, running, strict=True):
                made(name, each.result())
        finally:
            for each in running:
                each.cancel()
    return useless


def unusable(authority: AuthorityFolder, certificate: bytes) -> str | None:
    """Why parties that trust this authority would refuse a certificate; None if they would not."""
    try:
        found = authority.given(certificate)
    except (PeerError, ValueError) as error:
        return str(error)
    entry = authority.revoked().entry_of(found.serial, found.fingerprint)
    return None if entry is None else f"it was {entry.words}"


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """No other process issues in this folder meanwhile: both would make the same folders."""
    with about(out):
        held = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ConfigError(
            f"{out}: another `tacit keys issue` writes there: wait for it, or choose another place"
        ) from None
    finally:
        os.close(held)


def _issue(authority: AuthorityFolder, name: str, folder: Path, days: int) -> None:
    private, asked = request(name)
    with about(authority.folder):
        certificate = authority.sign(asked, days)
    files = [
        (f"{name}.private.pem", private, PRIVATE),
        (f"{name}.request.pem", asked, PUBLIC),
        ("authority.pem", authority.certificate_pem, PUBLIC),
        (f"{name}.certificate.pem", certificate, PUBLIC),
    ]
    if (revoked := authority.revoked()).number:
        files.insert(3, ("revoked.pem", revoked.pem, PUBLIC))
    if folder.exists():  # what else is in it stays
        with about(folder):
            (folder / files[-1][0]).unlink(missing_ok=True)  # it comes last: until then the folder is not complete
        for file, data, mode in files:
            write_file(folder / file, data, mode, True)
        return
    beside = folder.with_name(f".{name}.tmp")
    with about(beside):
        if beside.exists():
            shutil.rmtree(beside)  # of a process that was killed
        beside.mkdir(mode=0o700)
    for file, data, mode in files:
        write_file(beside / file, data, mode, False)
    with about(folder):
        beside.rename(folder)
