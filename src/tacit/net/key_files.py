"""The files by which parties identify each other. What is in them: `tacit.net.identity`.

authority.private.pem   of the party that signs names; never leaves its folder
authority.pem           of every party: whom it trusts
NAME.private.pem        both private keys of a party; never leaves its machine
NAME.request.pem        from the party to the authority
NAME.certificate.pem    back from the authority to the party

Private files are made with mode 0600, never opened wider for a moment, and not read if others can read them too.
"""

from __future__ import annotations

import os
import shlex
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.x509.oid import NameOID

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net import identity
from tacit.net.certificates import AUTHORITY_DAYS, CERTIFICATE_DAYS, read_certificate
from tacit.net.identity import Authority, Credentials, Request

WARNING_DAYS = 30
_PRIVATE, _PUBLIC = 0o600, 0o644
_RETRY = 1.0  # seconds until files that could not be used are read once more: it may have been between two of them
State = tuple[int, int, int] | None
_LARGEST = 1 << 20  # bytes of a file; real ones have less than 2,000


@dataclass(frozen=True, slots=True)
class Description:
    """What a file is, without anything secret. A private file or a request does not expire."""

    file: Path
    kind: str  # "authority", "certificate", "request", "private keys" or "authority's private key"
    name: str | None  # a private file does not say
    fingerprint: str | None
    expires: datetime | None = None
    days_left: int | None = None


def init_authority(folder: Path, *, days: int = AUTHORITY_DAYS, now: datetime | None = None) -> Description:
    """Make an authority in a folder. One that is there is never overwritten: all its certificates would be lost."""
    private, certificate = folder / "authority.private.pem", folder / "authority.pem"
    with _about(folder):
        authority = Authority.create(days=days, now=now)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_pair((private, authority.private_pem), (certificate, authority.certificate_pem), overwrite=False)
    return describe(certificate, now)


def make_request(name: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, Description]:
    """Make the keys of a party. Returns where the private ones are, and what to send to the authority."""
    try:
        private_pem, request_pem = identity.request(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    private, request = folder / f"{name}.private.pem", folder / f"{name}.request.pem"
    with _about(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _write_pair((private, private_pem), (request, request_pem), overwrite=overwrite)
    return private, describe(request)


def sign_request(
    authority_folder: Path,
    request_file: Path,
    out: Path | None = None,
    *,
    days: int = CERTIFICATE_DAYS,
    overwrite: bool = False,
    approve: Callable[[Request], None] = lambda request: None,
    now: datetime | None = None,
) -> Description:
    """Sign a request; the certificate goes to `out`, or to the folder of the request.

    `approve` sees what will be signed (the same bytes, read once) and raises to refuse.
    """
    authority = _authority(authority_folder)
    request_pem = _read(request_file)
    with _about(request_file):
        request = identity.read_request(request_pem)
    target = out or request_file.with_name(f"{request.name}.certificate.pem")
    _check_free(target, overwrite)
    approve(request)
    with _about(request_file):
        certificate = authority.sign(request_pem, days, now)
    _write(target, certificate, _PUBLIC, overwrite)
    return describe(target, now)


def load_credentials(private: Path, certificate: Path, authority: Path, now: datetime | None = None) -> Credentials:
    """What a party proves its name with; ConfigError with the file that is at fault and what to do.

    They know their files: `renewed` reads them again when they have changed.
    """
    files = (private, certificate, authority)
    return KeyFiles(files, _states(files), _loaded(*files, now)).current


def _loaded(private: Path, certificate: Path, authority: Path, now: datetime | None) -> Credentials:
    private_pem, certificate_pem, authority_pem = _read_private(private), _read(certificate), _read(authority)
    with _about(private):
        identity.read_private(private_pem)
    with _about(authority):
        identity.authority_certificate(authority_pem)
    with _about(certificate):
        return Credentials.of(private_pem, certificate_pem, authority_pem, now)


class KeyFiles:
    """The files of a party that runs. A renewed certificate is used for new connections, without a restart.

    The name, the authority and the signing key stay what they were: others were told them. What cannot be used is
    said, and the last good files stay in use.
    """

    def __init__(self, files: tuple[Path, Path, Path], states: list[State], first: Credentials) -> None:
        self.current = replace(first, source=self)
        self._files = files
        self._states = states
        self._retry = 0.0
        self._lock = threading.Lock()

    def __call__(self, say: Callable[[str], None]) -> Credentials:
        with self._lock:
            states = _states(self._files)
            if states == self._states and not 0 < self._retry <= time.monotonic():
                return self.current
            try:
                found = _loaded(*self._files, None)
                self._check(found)
            except ConfigError as error:
                if states != self._states:
                    say(f"{error}; what was read before stays in use")
                self._states, self._retry = states, time.monotonic() + _RETRY
                return self.current
            self._states, self._retry = states, 0.0
            if found.certificate != self.current.certificate:
                say(f"the certificate of {found.name} was read again: it is valid until {found.expires:%Y-%m-%d}")
            self.current = replace(found, source=self)
            return self.current

    def _check(self, found: Credentials) -> None:
        private, certificate, authority = self._files
        if found.name != self.current.name:
            raise ConfigError(f"{certificate}: it is of {found.name} now, and this process is {self.current.name}")
        if found.authority != self.current.authority:
            raise ConfigError(f"{authority}: it is another authority now: start this party again to use it")
        if (found.private_key, found.signing_key.public) != (self.current.private_key, self.current.signing_key.public):
            raise ConfigError(
                f"{private}: it has new keys now, and a party keeps its keys for a run: use them in the next"
            )


def _states(files: tuple[Path, Path, Path]) -> list[State]:
    """By what a file is known to have changed."""
    found: list[State] = []
    for file in files:
        try:
            at = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((at.st_ino, at.st_size, at.st_mtime_ns))
    return found


def describe(file: Path, now: datetime | None = None) -> Description:
    """What a file is, of whom, and for how long. It is not verified: that takes an authority."""
    data = _read(file)
    with _about(file):
        if b"PRIVATE KEY-----" in data:
            data = _read_private(file)
            if data.count(b"-----BEGIN") == 1:
                return Description(file, "authority's private key", None, None)
            return Description(file, "private keys", None, identity.read_private(data).fingerprint)
        if b"CERTIFICATE REQUEST-----" in data:
            request = identity.read_request(data)
            return Description(file, "request", request.name, request.fingerprint)
        return _described(file, data, now or datetime.now(UTC))


def _described(file: Path, data: bytes, now: datetime) -> Description:
    certificate = read_certificate(data)
    expires = certificate.not_valid_after_utc
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if names else ""
    try:
        identity.authority_certificate(data)
        kind = "authority"
    except ValueError:
        kind = "certificate"
    fingerprint = identity.certificate_fingerprint(certificate)
    shown = name if name.isprintable() else repr(name)
    return Description(file, kind, shown, fingerprint, expires, (expires - now).days)


# --- files


def _authority(folder: Path) -> Authority:
    private, certificate = folder / "authority.private.pem", folder / "authority.pem"
    if not private.exists() and folder.is_file():
        raise ConfigError(f"{folder}: give the folder of the authority, not a file")
    private_pem, certificate_pem = _read_private(private), _read(certificate)
    with _about(folder):
        return Authority.of(private_pem, certificate_pem)


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """What goes wrong here is about this file."""
    try:
        yield
    except ConfigError:
        raise
    except (ValueError, PeerError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be used: {error.strerror}") from None


def _read(path: Path, *, private: bool = False) -> bytes:
    try:
        with path.open("rb") as file:
            # The opened file is asked, not the path: it cannot be exchanged in between.
            if private and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigError(f"{path}: others on this machine can read it: chmod 600 {shlex.quote(str(path))}")
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise ConfigError(f"{path}: it is too large for a key or a certificate")
    return data


def _read_private(path: Path) -> bytes:
    return _read(path, private=True)


def _check_free(path: Path, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(path):
        raise ConfigError(f"{path} exists and is not overwritten: choose another place, or move it away")


def _write_pair(private: tuple[Path, bytes], public: tuple[Path, bytes], *, overwrite: bool) -> None:
    """Both files or neither."""
    for path, _ in (private, public):
        _check_free(path, overwrite)
    _write(*private, _PRIVATE, overwrite)
    try:
        _write(*public, _PUBLIC, overwrite)
    except BaseException:
        private[0].unlink()  # nobody was sent its public half
        raise


def _write(path: Path, data: bytes, mode: int, overwrite: bool) -> None:
    """Write a file that has its mode from the first moment. In the place of another only as a whole."""
    made = path.with_name(f".{path.name}.tmp") if overwrite else path
    try:
        if overwrite:
            made.unlink(missing_ok=True)
        opened = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        _check_free(path, overwrite)
        raise ConfigError(f"{path}: another process is writing it") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be written: {error.strerror}") from None
    try:
        with open(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            made.replace(path)
    except BaseException as error:
        made.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ConfigError(f"{path}: it cannot be written: {error.strerror}") from None
        raise
