"""Tokens, each good for one certificate: what the authority hands to a party that makes its keys itself.

    create(folder, name, address, days)     the text of a new token; the authority keeps a hash
    Token.text, read_token(text)            what it says: name, address and authority, expiry, 128 bits of secret
    redeem(folder, id, secret, request)     the certificate, once

A token's file at the authority, `tokens/ID.json`, says of whom it is, until when, and a hash over that, the authority's
certificate and the secret. The secret itself is nowhere but in the token.

Guarantee: a token leads to certificates for one name and one pair of keys only, whatever is killed at whatever moment
    and however many ask at once: which keys they are is on the disk before they are signed. The same request may be
    repeated, for an answer that was lost.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec

from tacit.config.source import ConfigError
from tacit.crypto.byte_strings import frame
from tacit.errors import PeerError
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.certificates import CERTIFICATE_DAYS, document_der, party_name
from tacit.net.identity import read_request
from tacit.net.pem_files import PRIVATE, about, read_private_file, write_file

SECRET_BYTES, ID_BYTES = 16, 8
DAYS, MOST_DAYS = 7, 90  # that a token lasts
_PREFIX = "tacit-token-"
_LARGEST_TEXT = 1000
_CHECKSUM_BYTES = 4
_CONTEXT = b"tacit enrolment token 1"
_UNKNOWN = "this token is not known here: ask the authority for a new one"


class Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the party is handed."""

    name: Annotated[str, msgspec.Meta(max_length=64)]
    address: Annotated[str, msgspec.Meta(max_length=300)]  # of the enrolment server
    expires: Annotated[int, msgspec.Meta(ge=0, le=2**40)]  # seconds since 1970
    authority: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]  # the SHA-256 of its certificate
    id: Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
    secret: Annotated[bytes, msgspec.Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)]

    def __repr__(self) -> str:  # no secret in a traceback
        return f"Token({self.name}, {self.address})"

    @property
    def text(self) -> str:
        data = msgspec.msgpack.encode(self)
        return _PREFIX + base64.urlsafe_b64encode(data + _checksum(data)).rstrip(b"=").decode()


def read_token(text: str) -> Token:
    """What a token says; ValueError, in a sentence, if it is not one, or not whole."""
    text = "".join(text.split())
    wrong = "this is not a whole token: copy all of it, from tacit-token- to its end"
    if not text.startswith(_PREFIX) or len(text) > _LARGEST_TEXT:
        raise ValueError(wrong)
    encoded = text.removeprefix(_PREFIX)
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        if not hmac.compare_digest(_checksum(data[:-_CHECKSUM_BYTES]), data[-_CHECKSUM_BYTES:]):
            raise ValueError
        found = msgspec.msgpack.decode(data[:-_CHECKSUM_BYTES], type=Token, strict=True)
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        raise ValueError(wrong) from None
    party_name(found.name)
    return found


def _checksum(data: bytes) -> bytes:
    """Against mistakes in copying, not against people: they can make one."""
    return hashlib.sha256(data).digest()[:_CHECKSUM_BYTES]


def authority_digest(certificate_pem: bytes) -> bytes:
    """What a token says of the authority: 256 bits, since it is compared by a machine."""
    return hashlib.sha256(document_der(certificate_pem)).digest()


# --- at the authority


@dataclass(frozen=True, slots=True)
class Kept:
    """A token as the authority keeps it."""

    name: str
    expires: int
    digest: str = field(repr=False)
    days: int = CERTIFICATE_DAYS  # of the certificate
    keys: str = ""  # the fingerprint of the keys that it was used for
    certificate: str = ""  # that they were given


class Spent(PeerError):
    """A request that was refused although the secret is right."""


def create(
    folder: AuthorityFolder,
    name: str,
    address: str,
    *,
    days: int = DAYS,
    certificate_days: int = CERTIFICATE_DAYS,
    now: datetime | None = None,
) -> Token:
    """A new token for a name."""
    if not 1 <= days <= MOST_DAYS:
        raise ConfigError(f"{days} days: a token lasts from 1 to {MOST_DAYS}")
    with about(folder.folder):
        party_name(name)
        ends = (now or datetime.now(UTC)) + timedelta(days=days)
        folder.authority.lasting(certificate_days, ends)  # or the token might be used, and no certificate signed
    expires = int(ends.timestamp())
    authority = authority_digest(folder.certificate_pem)
    made = Token(name, address, expires, authority, secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
    kept = Kept(name, expires, _digest(made.id, made.secret, name, expires, authority), certificate_days)
    with folder.locked():
        _write(_path(folder, made.id), kept)
    return made


def redeem(
    folder: AuthorityFolder, token: bytes, secret: bytes, request_pem: bytes, now: datetime | None = None
) -> bytes:
    """The certificate for the keys in a request; PeerError, in a sentence for the party, if it gets none.

    The comparison of secrets takes the same time for any two. That an id is known is no secret.
    """
    now = now or datetime.now(UTC)
    with folder.locked():
        path = _path(folder, token)
        kept = _read(path)
        known = kept or Kept("", 0, "")
        authority = authority_digest(folder.certificate_pem)
        right = hmac.compare_digest(known.digest, _digest(token, secret, known.name, known.expires, authority))
        if kept is None or not right:
            raise PeerError(_UNKNOWN)
        if now.timestamp() > kept.expires:
            raise Spent(f"the token for {kept.name} expired on {_day(kept.expires)}: ask the authority for a new one")
        try:
            asked = read_request(request_pem)
        except (PeerError, ValueError) as error:
            raise Spent(str(error)) from None
        if asked.name != kept.name:
            raise Spent(f"the token is for {kept.name}, and the request for {asked.name}")
        if kept.keys and kept.keys != asked.fingerprint:
            raise Spent(
                f"the token for {kept.name} was used already, for other keys: if not by you, tell the authority"
            )
        if (entry := folder.revoked().keys_entry(asked.fingerprint)) is not None:
            raise Spent(f"the keys of this request for {kept.name} were {entry.words}: it has to make new ones")
        if not kept.keys:
            kept = replace(kept, keys=asked.fingerprint)
            _write(path, kept)  # from here on it is used
        try:
            if not kept.certificate:
                kept = replace(kept, certificate=folder.sign_locked(request_pem, kept.days, now).decode())
                _write(path, kept)
        except ValueError as error:
            raise Spent(str(error)) from None
        return kept.certificate.encode()


def cancel(folder: AuthorityFolder, name: str) -> int:
    """Make the unused tokens of a name void: how many there were."""
    count = 0
    with folder.locked():
        for path in _paths(folder):
            kept = _read(path)
            if kept is not None and kept.name == name:
                count += not kept.keys
                with about(path):
                    path.unlink()
    return count


def remove_expired(folder: AuthorityFolder, now: datetime | None = None) -> None:
    """Remove the files of tokens that nobody can use any more."""
    limit = (now or datetime.now(UTC)).timestamp()
    with folder.locked():
        for path in _paths(folder):
            kept = _read(path)
            if kept is not None and kept.expires < limit - timedelta(days=MOST_DAYS).total_seconds():
                with suppress(OSError):
                    path.unlink()


def _digest(token: bytes, secret: bytes, name: str, expires: int, authority: bytes) -> str:
    """A hash is enough, without salt or stretching: a secret has 128 random bits."""
    parts = frame(_CONTEXT, token, secret, name.encode(), str(expires).encode(), authority)
    return hashlib.sha256(parts).hexdigest()


def _paths(folder: AuthorityFolder) -> Iterator[Path]:
    return iter(sorted((folder.folder / "tokens").glob("*.json")))


def _path(folder: AuthorityFolder, token: bytes) -> Path:
    return folder.folder / "tokens" / f"{token.hex()}.json"


def _read(path: Path) -> Kept | None:
    if not path.exists():
        return None
    data = read_private_file(path)
    try:
        return Kept(**json.loads(data))
    except (ValueError, TypeError):
        raise ConfigError(f"{path}: it is damaged: remove it, and make a new token") from None


def _write(path: Path, kept: Kept) -> None:
    with about(path.parent):
        path.parent.mkdir(mode=0o700, exist_ok=True)
    write_file(path, json.dumps(asdict(kept)).encode(), PRIVATE, True)


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
