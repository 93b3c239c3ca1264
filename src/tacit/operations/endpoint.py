"""Where a party's pages are served, and who may read them.

On this machine anyone may, unless there is a token. At any other address the pages are served over TLS 1.3 to those
who show the token: `Authorization: Bearer TOKEN`. A token has at least 128 bits, in a file that only its owner reads.

    endpoint_of(address, folder, token_file, certificate, private)      ConfigError says what is missing
"""

from __future__ import annotations

import hmac
import math
import os
import ssl
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from cryptography import x509

from tacit.config.source import ConfigError
from tacit.net.loopback import on_loopback

_BITS = 128
_DISTINCT = 8  # letters: a random token of this length has fewer once in 10^7
_LONGEST = 4096  # bytes of a token
_MAKES_ONE = "(umask 077; openssl rand -hex 32 > FILE) makes one"
State = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that readers show. Only its hash is kept, and compared in constant time."""

    digest: bytes = field(repr=False)

    def opens(self, authorization: str) -> bool:
        """Whether the header of a request shows it."""
        scheme, _, shown = authorization.partition(" ")
        # Both sides are hashed: neither the length nor a common beginning of the token takes a time of its own.
        given = sha256(shown.strip().encode("utf-8", "surrogateescape")).digest()
        return hmac.compare_digest(given, self.digest) and scheme.lower() == "bearer"


class Secure:
    """TLS with a certificate that may be renewed while the party runs."""

    def __init__(self, certificate: Path, private: Path) -> None:
        self._files = (certificate, private)
        self._lock = threading.Lock()
        self._states = self._now()
        self._context, self._expires = self._loaded()

    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        with self._lock:
            self._renew()
            return self._context

    def expires(self) -> float:
        """Until when the certificate in use is valid, in seconds since 1970."""
        with self._lock:
            self._renew()
            return self._expires

    def _renew(self) -> None:
        """Read files that have changed. Those that cannot be used leave the last good ones in use."""
        if (states := self._now()) != self._states:
            self._states = states
            with suppress(ConfigError):
                self._context, self._expires = self._loaded()

    def _now(self) -> State:
        try:
            found = [path.stat() for path in self._files]
        except OSError:
            return ()
        return tuple((each.st_mtime_ns, each.st_ino) for each in found)

    def _loaded(self) -> tuple[ssl.SSLContext, float]:
        certificate, private = self._files
        read_private(private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(certificate, private, password=lambda: b"")
            first = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{certificate}: it cannot be served with {private.name} ({error}): metrics.certificate and "
                "metrics.private must be PEM files of one certificate and its key, without a password"
            ) from None
        return context, first.not_valid_after_utc.timestamp()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, and what it takes to be answered there."""

    host: str
    port: int
    token: Token | None = None
    secure: Secure | None = None

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return on_loopback(f"[{self.host}]:1" if ":" in self.host else f"{self.host}:1")


def endpoint_of(
    address: str, folder: Path, token_file: str | None, certificate: str | None, private: str | None
) -> Endpoint:
    """The endpoint that a party's local file describes; its paths are relative to `folder`."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host:
        raise ConfigError("metrics.address needs the address to listen on: an empty one would be 0.0.0.0, all of them")
    if (certificate is None) != (private is None):
        raise ConfigError("metrics.certificate and metrics.private belong together: give both, or neither")
    if not on_loopback(address) and (certificate is None or token_file is None):
        raise ConfigError(
            f"metrics.address is {address}, which other machines reach: give metrics.token_file, metrics.certificate "
            "and metrics.private too, or an address of this machine only, such as 127.0.0.1:9100"
        )
    token = None if token_file is None else read_token(folder / token_file)
    secure = None if certificate is None or private is None else Secure(folder / certificate, folder / private)
    return Endpoint(host, int(port), token, secure)


def read_token(path: Path) -> Token:
    """The token in a file of this user's own; ConfigError, in a sentence, where it protects nothing."""
    text = read_private(path).strip()
    if not text.isascii() or any(letter <= 32 for letter in text) or not text or len(text) > _LONGEST:
        raise ConfigError(f"{path}: a token is one line of printable ASCII without spaces: {_MAKES_ONE}")
    bits = _bits(text.decode())
    if bits < _BITS or len(set(text)) < _DISTINCT:
        raise ConfigError(f"{path}: a token needs {_BITS} random bits, and this has {bits} at most: {_MAKES_ONE}")
    return Token(sha256(text).digest())


def _bits(token: str) -> int:
    """The most that so many letters of this alphabet can hold."""
    alphabets = {10: "0123456789", 16: "0123456789abcdefABCDEF"}
    letters = next((size for size, alphabet in alphabets.items() if set(token) <= set(alphabet)), 64)
    return math.floor(len(token) * math.log2(letters))


def read_private(path: Path) -> bytes:
    """The beginning of a file that only its owner, this user, can read; else ConfigError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would keep us waiting
    except OSError as error:
        raise ConfigError(f"{path}: this file cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path}: this is not a file")
        if found.st_uid != os.geteuid():
            raise ConfigError(f"{path}: it belongs to another user: it must belong to the user of this process")
        if found.st_mode & 0o077:
            raise ConfigError(f"{path}: other users can read it: chmod 600 {path}")
        return os.read(descriptor, _LONGEST + 1)
    finally:
        os.close(descriptor)
