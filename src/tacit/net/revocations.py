"""The revocation list that a party goes by: the newest that it has seen, from any party.

Its own local file may name one (`keys: {revoked: FILE}`), the coordinator or the hub sends its own, and the newest is
kept in the run's folder. All are signed by the authority, so that it does not matter who passed them on.

Guarantee: the number of the list that is used never falls, also over a restart with the same folder.
Assumes: nothing about a list that this party was never shown. A party that keeps a newer one from it is not noticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net.pem_files import State, read_file, state_of
from tacit.net.revocation_list import RevocationList, read_list

if TYPE_CHECKING:
    from tacit.net.identity import Identity

_RETRY = 1.0  # seconds until a file that could not be used is read once more


class Revocations:
    """Which certificates of this authority are taken back, as far as a party knows.

    Args:
        authority: whose lists are believed; without one there are none.
        file: that the party's local file names. It is read again when it has changed.
    """

    def __init__(self, authority: x509.Certificate | None = None, file: Path | None = None) -> None:
        self.newest = RevocationList()
        self._authority = authority
        self._file = file
        self._state: State = None
        self._retry = 0.0
        self._store: Callable[[RevocationList], None] = lambda newest: None
        if file is not None:
            self._state = state_of(file)
            self._adopt(self._own(file))

    def keep(self, stored: bytes, store: Callable[[RevocationList], None]) -> str:
        """Begin with what an earlier process stored, and have newer ones stored. What should be said, if anything.

        ValueError: what was stored is not a list of this authority.
        """
        old, self._store = self.newest, store
        known = self._verified(stored) if stored else RevocationList()
        if known.number > old.number:
            self.newest = known
            return f"{self._file}: {_older(old, known)}; {_USED}" if self._file is not None else ""
        if known.number == old.number and known.data != old.data:
            raise ValueError(_two(old))
        if old.number > known.number:
            store(old)
        return ""

    def take(self, data: bytes) -> bool:
        """Take a list that another party passed on: whether it is newer. PeerError: it is older, or of another.

        Its bytes are bounded before they are looked at.
        """
        try:
            return self._adopt(self._verified(data))
        except ValueError as error:
            raise PeerError(str(error)) from None

    def read(self, say: Callable[[str], None]) -> bool:
        """Read the party's own file again if it has changed: whether its list is newer. Says what is wrong."""
        if self._file is None:
            return False
        state = state_of(self._file)
        changed = state != self._state
        if not changed and not 0 < self._retry <= time.monotonic():
            return False
        self._state, self._retry = state, 0.0
        try:
            newer = self._adopt(self._own(self._file))
        except OSError:  # it could not be stored, so it is not used: the file counts as not read
            self._state = None
            raise
        except ConfigError as error:
            self._retry = time.monotonic() + _RETRY
            if changed:
                say(f"{error}; what was read before stays in use")
            return False
        except ValueError as error:
            say(f"{self._file}: {error}; {_USED}")
            return False
        if newer:
            count = len(self.newest.entries)
            say(f"{self.newest.words} was read: it revokes {count} certificate{'' if count == 1 else 's'}")
        return newer

    def check(self, found: Identity) -> None:
        """PeerError if a certificate was revoked, or another one with its keys."""
        if (reason := self.reason_against(found)) is not None:
            raise PeerError(reason)

    def reason_against(self, found: Identity) -> str | None:
        """Why a certificate is not accepted; None if it is not revoked."""
        return self.reason(found.name, found.serial, found.fingerprint)

    def reason(self, name: str, serial: int, fingerprint: str) -> str | None:
        """The same, of a certificate that was not verified, such as the party's own."""
        entry = self.newest.entry_of(serial, fingerprint)
        if entry is None:
            return None
        return f"the certificate of {name} was {entry.words} ({self.newest.words}): it takes part with new keys"

    def revoked(self, fingerprint: str) -> bool:
        """Whether these keys are on the list."""
        return self.newest.keys_entry(fingerprint) is not None

    def _own(self, file: Path) -> RevocationList:
        data = read_file(file)
        try:
            return self._verified(data)
        except ValueError as error:
            raise ConfigError(f"{file}: {error}: get the newest from the authority") from None

    def _verified(self, data: bytes) -> RevocationList:
        if self._authority is None:
            raise ValueError("a revocation list means nothing without certificates")
        return read_list(data, self._authority)

    def _adopt(self, found: RevocationList) -> bool:
        """Use a list if it is newer. ValueError if it is older, or another one with the same number."""
        if found.number < self.newest.number:
            raise ValueError(_older(found, self.newest))
        if found.number == self.newest.number:
            if found.data != self.newest.data:
                raise ValueError(_two(found))
            return False
        self._store(found)  # before anything is decided by it
        self.newest = found
        return True


_USED = "the newer one is used"


def _older(found: RevocationList, newest: RevocationList) -> str:
    return f"{found.words} is older than {newest.words}, which was seen before"


def _two(found: RevocationList) -> str:
    return f"there are two different lists with the number {found.number}: the authority has signed both, ask it"
