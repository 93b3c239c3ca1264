"""How a party gets its certificate by a token: what it says to the authority's enrolment server, and hears.

party                                       enrolment server (see `enrolment_server`)
  TLS 1.3; the party shows no certificate   ──►
          ◄──   Offer       the authority's certificate: it must be the one that the token names, and it must have
                            signed the server's own
  Enrol   the token, and a request          ──►
          ◄──   Enrolled    the certificate and the revocation list, or Declined and why

    enrol(token, folder)        all of it: makes the keys, asks, and writes the files

Nothing is said before the server is known to be the authority's: its certificate is for a name that no party can have.
The private keys never leave the party. A message is 4 bytes with its length, and then a frame (see `wire`).

An answer that was lost is asked for again by the same command: the keys are there already, and the server gives the
holder of the token the same certificate for the same keys.
"""

from __future__ import annotations

import hmac
import shutil
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net.certificates import ENROLMENT, MALFORMED, read_certificate
from tacit.net.enrolment_tokens import ID_BYTES, SECRET_BYTES, Token, authority_digest, read_token
from tacit.net.identity import (
    Credentials,
    authority_certificate,
    certificate_fingerprint,
    check_dates,
    check_signature,
    read_private,
    read_request,
    request,
)
from tacit.net.pem_files import (
    PRIVATE,
    PUBLIC,
    about,
    check_free,
    read_file,
    read_private_file,
    write_file,
    write_pair,
)
from tacit.net.revocation_list import LARGEST_LIST
from tacit.net.revocations import Revocations
from tacit.wire import Message, Text, decode, encode

LENGTH_BYTES = 4
LARGEST_REQUEST = 4096  # bytes of what a party sends
_LARGEST_OFFER = 16_384
_LARGEST_ANSWER = LARGEST_LIST + 16_384
_SECONDS = 30.0  # for all of it
_TRIES = 3  # connections, if one breaks or the server has too many
_PAUSE = 1.0


class Offer(Message, frozen=True, tag=80):
    """The authority's certificate."""

    authority: Annotated[bytes, msgspec.Meta(max_length=8192)]


class Enrol(Message, frozen=True, tag=81):
    """A token, and the request for a certificate, which shows that its maker holds both private keys."""

    token: Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
    secret: Annotated[bytes, msgspec.Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)]
    request: Annotated[bytes, msgspec.Meta(max_length=2048)]

    def __repr__(self) -> str:  # no secret in a traceback
        return "Enrol(...)"


class Enrolled(Message, frozen=True, tag=82):
    certificate: Annotated[bytes, msgspec.Meta(max_length=8192)]
    revoked: Annotated[bytes, msgspec.Meta(max_length=LARGEST_LIST)]  # empty if there is no list


class Declined(Message, frozen=True, tag=83):
    reason: Text


@dataclass(frozen=True, slots=True)
class Made:
    """The files of a party that enrolled."""

    name: str
    private: Path
    certificate: Path
    authority: Path
    revoked: Path | None
    expires: datetime
    fingerprint: str


def enrol(
    text: str,
    folder: Path,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda text: None,
    now: datetime | None = None,
) -> Made:
    """Get the certificate that a token is good for; ConfigError, in a sentence, if there is none to be had.

    Guarantee: the token is told to nobody but an enrolment server of the authority that it names, and what is written
        is that authority's.
    Assumes: the token came from the authority unread and unchanged.
    """
    try:
        token = read_token(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if (now or datetime.now(UTC)).timestamp() > token.expires:
        over = f"{datetime.fromtimestamp(token.expires, UTC):%Y-%m-%d}"
        raise ConfigError(f"the token for {token.name} expired on {over}: ask the authority for a new one")
    certificate = folder / f"{token.name}.certificate.pem"
    check_free(certificate, overwrite)
    _check_authority(folder / "authority.pem", token)
    # Keys that have a certificate are replaced only once there is one for the new keys.
    keys = folder / f".{token.name}.new" if certificate.exists() else folder
    asked = _request(token.name, keys, _certified(certificate), overwrite or keys != folder)
    answer, authority = _answer(token, asked, say)
    return _written(token.name, folder, keys, answer, authority)


def _check_authority(authority: Path, token: Token) -> None:
    """Before the token is used: it is good for these keys only from then on."""
    if authority.exists():
        found = read_file(authority)
        with about(authority):
            same = authority_digest(found) == token.authority
        if not same:
            raise ConfigError(f"{authority} is of another authority than this token: give an empty folder by --out")


def _request(name: str, keys: Path, certified: str, overwrite: bool) -> bytes:
    """The request for this party's keys, which are made unless an earlier attempt made them."""
    private, asked = keys / f"{name}.private.pem", keys / f"{name}.request.pem"
    if private.exists() and asked.exists():
        found, private_pem = read_file(asked), read_private_file(private)
        with about(asked):
            fingerprint = read_request(found).fingerprint
        with about(private):
            own = read_private(private_pem).fingerprint
        if own != fingerprint:
            raise ConfigError(f"{asked} is not of the keys in {private}: move both away")
        if fingerprint != certified:
            return found
    with about(keys):
        keys.mkdir(parents=True, exist_ok=True)
        private_pem, request_pem = request(name)
    write_pair((private, private_pem), (asked, request_pem), overwrite=overwrite)
    return request_pem


def _certified(certificate: Path) -> str:
    """The fingerprint of the keys in a certificate; empty if there is none."""
    if not certificate.exists():
        return ""
    data = read_file(certificate)
    with about(certificate):
        return certificate_fingerprint(read_certificate(data))


def _written(name: str, folder: Path, keys: Path, answer: Enrolled, authority_pem: bytes) -> Made:
    """Write what came, once it is known to be what was asked for."""
    private, certificate = folder / f"{name}.private.pem", folder / f"{name}.certificate.pem"
    authority, revoked = folder / "authority.pem", folder / "revoked.pem"
    private_pem = read_private_file(keys / private.name)
    try:
        found = Credentials.of(private_pem, answer.certificate, authority_pem)
        if found.name != name:
            raise ValueError(f"the certificate is of {found.name}, not of {name}")
        if revoked.exists():  # an older one does not take its place
            found = replace(found, revocations=Revocations(authority_certificate(authority_pem), revoked))
        if answer.revoked:
            found.revocations.take(answer.revoked)
        who, listed = found.identify(found.certificate), found.revocations.newest
    except (ValueError, PeerError) as error:
        raise ConfigError(f"what the enrolment server sent is not used: {error}") from None
    write_file(authority, authority_pem, PUBLIC, True)
    if listed.number:
        write_file(revoked, listed.pem, PUBLIC, True)
    if keys != folder:
        write_file(private, private_pem, PRIVATE, True)
        write_file(folder / f"{name}.request.pem", read_file(keys / f"{name}.request.pem"), PUBLIC, True)
    write_file(certificate, answer.certificate, PUBLIC, keys != folder)  # last: with it the party is complete
    if keys != folder:
        shutil.rmtree(keys, ignore_errors=True)
    expires, fingerprint = found.expires, who.fingerprint
    return Made(name, private, certificate, authority, revoked if listed.number else None, expires, fingerprint)


# --- the conversation


class _Away(Exception):
    """The server was not reached, or broke off. It may be there again in a moment."""


def _answer(token: Token, asked: bytes, say: Callable[[str], None]) -> tuple[Enrolled, bytes]:
    """The server's answer, and the authority's certificate."""
    for left in reversed(range(_TRIES)):
        try:
            return _ask(token, asked)
        except _Away as error:
            if not left:
                raise ConfigError(f"{error}: is `tacit keys serve` running there? Then repeat the command") from None
            say(f"{error}: trying again")
            time.sleep(_PAUSE)
    raise AssertionError


def _ask(token: Token, asked: bytes) -> tuple[Enrolled, bytes]:
    deadline = time.monotonic() + _SECONDS
    host, _, port = token.address.rpartition(":")
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as plain,
            _context().wrap_socket(plain) as secure,
        ):
            authority = _verified(token, secure, _received(secure, _LARGEST_OFFER, deadline))
            data = encode(Enrol(token.id, token.secret, asked))
            secure.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)
            answer: Any = decode(_received(secure, _LARGEST_ANSWER, deadline), Enrolled | Declined, _LARGEST_ANSWER)  # type: ignore[arg-type]
    except OSError as error:
        raise _Away(f"{token.address} does not answer as an enrolment server ({_why(error)})") from None
    except (PeerError, ValueError) as error:
        raise ConfigError(f"{token.address}: {error}") from None
    if isinstance(answer, Declined):
        raise ConfigError(f"the authority declined: {answer.reason}")
    return answer, authority


def _why(error: OSError) -> str:
    return str(error.strerror or error.args[0] if error.args else type(error).__name__)


def _verified(token: Token, secure: ssl.SSLSocket, offered: bytes) -> bytes:
    """The authority's certificate; PeerError unless the token names it and it signed the certificate of the server.

    The handshake showed that the server holds that certificate's key.
    """
    authority_pem = decode(offered, Offer, _LARGEST_OFFER).authority
    if not hmac.compare_digest(authority_digest(authority_pem), token.authority):
        raise PeerError("another authority is there than the one that gave out this token: nothing was sent to it")
    authority = authority_certificate(authority_pem)
    own = read_certificate(secure.getpeercert(binary_form=True) or b"")
    try:
        check_signature(own, authority)
        check_dates("the enrolment server's certificate", own, datetime.now(UTC))
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        usages = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        right = list(names) == [x509.DNSName(ENROLMENT)] and ExtendedKeyUsageOID.SERVER_AUTH in usages
    except (*MALFORMED, x509.ExtensionNotFound) as error:
        raise PeerError(f"the authority's enrolment server is not there: {error}") from None
    if not right:
        raise PeerError("the authority's enrolment server is not there, another party of the same authority is")
    return authority_pem


def _received(secure: ssl.SSLSocket, limit: int, deadline: float) -> bytes:
    """One message. OSError: it did not come, or not in time."""
    length = int.from_bytes(_exactly(secure, LENGTH_BYTES, deadline), "big")
    if length > limit:
        raise PeerError(f"a message of {length} bytes, at most {limit} are allowed here")
    return _exactly(secure, length, deadline)


def _exactly(secure: ssl.SSLSocket, count: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < count:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {_SECONDS:g} s")
        secure.settimeout(left)
        piece = secure.recv(min(count - len(data), 1 << 16))
        if not piece:
            raise ConnectionResetError("the connection was closed")
        data += piece
    return bytes(data)


def _context() -> ssl.SSLContext:
    """TLS 1.3, with any certificate: `_verified` judges it, before anything is said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
