"""The key that signs a pack, and the one that others check it with, from files.

read_signer(private, certificate)   the signing key of a private file; the certificate if it is of the same key
public_key_of(file)                 the signing key that a request or a certificate names
"""

from __future__ import annotations

from pathlib import Path

from tacit.config.source import ConfigError
from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.net import identity
from tacit.net.certificates import SIGNING_KEY, octets, read_certificate
from tacit.net.pem_files import read_file, read_private_file


def read_signer(private: Path, certificate: Path | None) -> tuple[SigningKey, bytes | None]:
    """The signing key, and the certificate's bytes. ConfigError if they are of different keys."""
    try:
        key = identity.read_private(read_private_file(private)).signing
    except PeerError as error:
        raise ConfigError(f"{private}: {error}") from None
    if certificate is None:
        return key, None
    data = read_file(certificate)
    if _certified(certificate, data) != key.public:
        raise ConfigError(f"{certificate} is not the certificate of the keys in {private}: give the one that is")
    return key, data


def public_key_of(file: Path) -> bytes:
    """The Ed25519 public key of a party, from its request or its certificate.

    Assumes: the file came from a source that is trusted to tell whose it is. A certificate is not checked here.
    """
    data = read_file(file)
    if b"CERTIFICATE REQUEST" in data:
        try:
            return identity.read_request(data).signing_public
        except (PeerError, ValueError) as error:
            raise ConfigError(f"{file}: {error}") from None
    return _certified(file, data)


def _certified(file: Path, data: bytes) -> bytes:
    try:
        public = octets(read_certificate(data).extensions, SIGNING_KEY, 32)
    except (PeerError, ValueError) as error:
        raise ConfigError(f"{file}: {error}") from None
    if public is None:
        raise ConfigError(f"{file}: it names no signing key: give NAME.request.pem or NAME.certificate.pem")
    return public
