"""The files by which parties identify each other. What is in them: `tacit.net.identity`.

authority.private.pem   of the party that signs names; never leaves its folder
authority.pem           of every party: whom it trusts
NAME.private.pem        both private keys of a party; never leaves its machine
NAME.request.pem        from the party to the authority
NAME.certificate.pem    back from the authority to the party
revoked.pem             from the authority to the coordinator, and to any party that wants it (see `revocation_list`)

What the authority's folder holds besides: `tacit.net.authority_folder`. How files are read and written: `pem_files`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.x509.oid import NameOID

from tacit.config.source import ConfigError
from tacit.net import identity
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.certificates import AUTHORITY_DAYS, CERTIFICATE_DAYS, read_certificate
from tacit.net.identity import Authority, Credentials, Request
from tacit.net.pem_files import (
    PUBLIC,
    State,
    about,
    check_free,
    read_file,
    read_private_file,
    state_of,
    write_file,
    write_pair,
)
from tacit.net.revocation_list import read_unverified
from tacit.net.revocations import Revocations

_RETRY = 1.0  # seconds until files that could not be used are read once more: it may have been between two of them


@dataclass(frozen=True, slots=True)
class Description:
    """What a file is, without anything secret. A private file or a request does not expire."""

    file: Path
    kind: str  # "authority", "certificate", "request", "private keys", "authority's private key" or of a list
    name: str | None  # a private file does not say
    fingerprint: str | None
    expires: datetime | None = None
    days_left: int | None = None


def init_authority(folder: Path, *, days: int = AUTHORITY_DAYS, now: datetime | None = None) -> Description:
    """Make an authority in a folder. One that is there is never overwritten: all its certificates would be lost."""
    private, certificate = folder / "authority.private.pem", folder / "authority.pem"
    with about(folder):
        authority = Authority.create(days=days, now=now)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_pair((private, authority.private_pem), (certificate, authority.certificate_pem), overwrite=False)
    AuthorityFolder(folder).revoke([], now=now)  # the first list, of none: parties can name the file from the start
    return describe(certificate, now)


def make_request(name: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, Description]:
    """Make the keys of a party. Returns where the private ones are, and what to send to the authority."""
    try:
        private_pem, request_pem = identity.request(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    private, request = folder / f"{name}.private.pem", folder / f"{name}.request.pem"
    with about(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_pair((private, private_pem), (request, request_pem), overwrite=overwrite)
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
    authority = AuthorityFolder(authority_folder)
    request_pem = read_file(request_file)
    with about(request_file):
        request = identity.read_request(request_pem)
    target = out or request_file.with_name(f"{request.name}.certificate.pem")
    check_free(target, overwrite)
    approve(request)
    with about(request_file):
        certificate = authority.sign(request_pem, days, now)
    write_file(target, certificate, PUBLIC, overwrite)
    return describe(target, now)


def load_credentials(
    private: Path, certificate: Path, authority: Path, now: datetime | None = None, *, revoked: Path | None = None
) -> Credentials:
    """What a party proves its name with; ConfigError with the file that is at fault and what to do.

    They know their files: `renewed` reads them again when they have changed. `revoked` is a revocation list.
    """
    files = (private, certificate, authority)
    states, loaded = _states(files), _loaded(*files, now)
    revocations = Revocations(identity.authority_certificate(loaded.authority), revoked)
    with about(certificate):
        revocations.check(identity.identity_of(loaded.certificate, loaded.authority, now))
    return KeyFiles(files, states, replace(loaded, revocations=revocations)).current


def _loaded(private: Path, certificate: Path, authority: Path, now: datetime | None) -> Credentials:
    private_pem, certificate_pem, authority_pem = (
        read_private_file(private),
        read_file(certificate),
        read_file(authority),
    )
    with about(private):
        identity.read_private(private_pem)
    with about(authority):
        identity.authority_certificate(authority_pem)
    with about(certificate):
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
            self.current = replace(found, source=self, revocations=self.current.revocations)
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
    return [state_of(file) for file in files]


def describe(file: Path, now: datetime | None = None) -> Description:
    """What a file is, of whom, and for how long. It is not verified: that takes an authority."""
    data = read_file(file)
    with about(file):
        if b"PRIVATE KEY-----" in data:
            data = read_private_file(file)
            if data.count(b"-----BEGIN") == 1:
                return Description(file, "authority's private key", None, None)
            return Description(file, "private keys", None, identity.read_private(data).fingerprint)
        if b"X509 CRL-----" in data:
            found = read_unverified(data)
            count = len(found.entries)
            words = f"{found.words} with {count} certificate" + ("" if count == 1 else "s")
            return Description(file, words, None, None)
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
