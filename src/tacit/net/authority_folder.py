"""The folder of an authority: it signs, keeps a register of what it signed, and takes certificates back.

authority.private.pem, authority.pem    its key and its certificate
certificates.jsonl                      the register: a line for each certificate, before it is handed out, and for
                                        the number of each revocation list: one that is lost is not begun anew
revoked.pem                             the newest revocation list, for the coordinator and the parties
tokens/                                 of enrolment (see `enrolment_tokens`)
lock                                    held by a process while it changes one of them

    AuthorityFolder(folder).sign(request, days)             registered first; never for keys that were revoked
    AuthorityFolder(folder).revoke(certificates, reason)    the next list

An authority that was made by an earlier release begins its register with the next certificate.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.net.certificates import CERTIFICATE_DAYS
from tacit.net.identity import Authority, Request, authority_certificate, identity_of, read_request
from tacit.net.pem_files import PRIVATE, PUBLIC, State, about, read_file, read_private_file, state_of, write_file
from tacit.net.revocation_list import RevocationList, Revoked, read_list

_LIST = "revocation list"
_IS_LIST = b'{"revocation list": '  # how such a line begins: no name has a space in it
_LARGEST_REGISTER = 1 << 27  # bytes: half a million certificates


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate in the register."""

    name: str
    serial: int
    fingerprint: str
    expires: datetime


class AuthorityFolder:
    """An authority with its files; ConfigError, in a sentence, for whatever is wrong with one of them."""

    def __init__(self, folder: Path) -> None:
        private, certificate = folder / "authority.private.pem", folder / "authority.pem"
        if not private.exists() and folder.is_file():
            raise ConfigError(f"{folder}: give the folder of the authority, not a file")
        private_pem, self.certificate_pem = read_private_file(private), read_file(certificate)
        with about(folder):
            self.authority = Authority.of(private_pem, self.certificate_pem)
            self.certificate = authority_certificate(self.certificate_pem)
        self.folder = folder
        self.revoked_file = folder / "revoked.pem"
        self._register = folder / "certificates.jsonl"
        self._revoked = RevocationList()
        self._state: State = None
        self._signed: int | None = None  # the number of the newest list in the register

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes the folder meanwhile."""
        path = self.folder / "lock"
        with about(path):
            held = os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)

    def sign(self, request_pem: bytes, days: int = CERTIFICATE_DAYS, now: datetime | None = None) -> bytes:
        """A certificate for a request (see `Authority.sign`), once it is in the register.

        ValueError also if the keys in the request were revoked: they never get a certificate again.
        """
        with self.locked():
            return self.sign_locked(request_pem, days, now)

    def sign_locked(self, request_pem: bytes, days: int = CERTIFICATE_DAYS, now: datetime | None = None) -> bytes:
        """The same, inside `locked`."""
        asked: Request = read_request(request_pem)
        if (entry := self.revoked().keys_entry(asked.fingerprint)) is not None:
            raise ValueError(f"the keys of this request for {asked.name} were {entry.words}: it has to make new ones")
        certificate = self.authority.sign(request_pem, days, now)
        found = identity_of(certificate, self.certificate_pem, now)
        self._add(Issued(found.name, found.serial, found.fingerprint, found.expires))
        return certificate

    def revoked(self) -> RevocationList:
        """The newest list; number 0 if there was none yet. ConfigError if it or the register was lost."""
        if self._signed is None or state_of(self.revoked_file) != self._state:
            # Before the list is read: another process writes the list first.
            self._signed = max((int(json.loads(line)[_LIST]) for line in self._lines() if _IS_LIST in line), default=0)
        state = state_of(self.revoked_file)
        if state is not None and state != self._state:
            data = read_file(self.revoked_file)
            with about(self.revoked_file):
                self._revoked = read_list(data, self.certificate)
            self._state = state
        there = self._revoked.number if state is not None else 0
        if there > self._signed + 1 or (there and not self._register.exists()):
            line, self._signed = json.dumps({_LIST: there}), None  # to be read again
            raise ConfigError(
                f"{self._register}: it was lost, or is older than {self._revoked.words}: put it back, from a backup. "
                "Without one, certificates that are not in it can only be revoked by --certificate FILE. Then begin it "
                f"anew by: echo '{line}' >> {shlex.quote(str(self._register))}"
            )
        if there < self._signed:
            what = f"this is list {there}" if there else "there is no such file"
            raise ConfigError(
                f"{self.revoked_file}: {what}, and list {self._signed} was signed here: put it back, from a backup or "
                "from the coordinator. Parties refuse an older number"
            )
        return self._revoked

    def revoke(
        self, certificates: Sequence[Issued], reason: str = "unspecified", now: datetime | None = None
    ) -> RevocationList:
        """Take certificates back: the next list, which is stored when this returns."""
        with self.locked():
            before, date = self.revoked(), (now or datetime.now(UTC)).replace(microsecond=0)
            more = [
                Revoked(each.serial, each.fingerprint, date, reason)
                for each in certificates
                if before.entry_of(each.serial, "") is None
            ]
            if certificates and not more:
                raise ConfigError(f"the certificates of {certificates[0].name} are revoked already, by {before.words}")
            with about(self.revoked_file):
                made = self.authority.revoke(before, more, now)
            with about(self._register):
                self._register.touch(PRIVATE)  # so that a list without a register means that it was lost
            write_file(self.revoked_file, made.pem, PUBLIC, True)
            self._append({_LIST: made.number})  # after the file, which may be newer than the register and never older
            self._signed = made.number
            return made

    def issued(self, name: str | None = None) -> list[Issued]:
        """The certificates in the register, of one name or of all."""
        found = (self._entry(number, line) for number, line in enumerate(self._lines(), 1) if _IS_LIST not in line)
        return [each for each in found if name in (None, each.name)]

    def _lines(self) -> list[bytes]:
        try:
            if self._register.stat().st_size > _LARGEST_REGISTER:
                raise ConfigError(f"{self._register}: it is too large for a register")
            lines = self._register.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self._register}: it cannot be read: {error.strerror}") from None
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()  # the process was killed while it wrote: nobody was given this certificate
        return lines

    def given(self, certificate: bytes) -> Issued:
        """A certificate of this authority as an entry; PeerError if it is not one."""
        found = identity_of(certificate, self.certificate_pem)
        return Issued(found.name, found.serial, found.fingerprint, found.expires)

    def _entry(self, number: int, line: bytes) -> Issued:
        try:
            data = json.loads(line)
            return Issued(
                str(data["name"]), int(data["serial"], 16), str(data["fingerprint"]), _moment(data["expires"])
            )
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{self._register}:{number}: this line is no certificate: it was changed") from None

    def _add(self, made: Issued) -> None:
        self._append(
            {
                "name": made.name,
                "serial": f"{made.serial:x}",
                "fingerprint": made.fingerprint,
                "expires": made.expires.isoformat(),
            }
        )

    def _append(self, entry: dict[str, object]) -> None:
        """A line more in the register, on the disk when this returns."""
        with about(self._register):
            register = os.open(self._register, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE)
            try:
                _end_line(register)
                line = json.dumps(entry).encode() + b"\n"
                if os.write(register, line) < len(line):  # as much as there was room for
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(register)
            finally:
                os.close(register)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _end_line(descriptor: int) -> None:
    """Take away the half of a line that a killed process left."""
    end = os.fstat(descriptor).st_size
    at = end
    while at and os.pread(descriptor, 1, at - 1) != b"\n":
        at -= 1
    if at < end:
        os.ftruncate(descriptor, at)
