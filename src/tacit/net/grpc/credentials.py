"""Mutual TLS for gRPC: both ends show a certificate of the same authority (see `identity`), or nothing is said.

    server_credentials(credentials), channel_credentials(credentials)
    channel_options(party)                  the client verifies who is there, not at which address
    peer_name(auth_context), peer_identity(auth_context, authority)     who called, inside a server's method

TLS 1.3 is required at both ends. gRPC's core takes 1.2 too and Python has no option for that, so it is left no cipher
suite for 1.2 when it is loaded. A program that loads gRPC before Tacit prevents this, and `ONLY_TLS13` is
False: its connections still use 1.3 if the server offers it. The server's side does not depend on it: see `hello`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from tacit.errors import PeerError
from tacit.net.certificates import target_name
from tacit.net.identity import Credentials, Identity, identity_of

_CIPHERS = "GRPC_SSL_CIPHER_SUITES"  # for TLS 1.2 only, though its name does not say so; read once, on import
_UNUSABLE = "ECDHE-PSK-CHACHA20-POLY1305"  # an empty list is an error; this one takes a shared key, and gRPC has none


@contextmanager
def _without_tls12() -> Iterator[None]:
    """Have gRPC loaded such that it negotiates TLS 1.3 or nothing. The environment is as before afterwards."""
    before = os.environ.get(_CIPHERS)
    os.environ[_CIPHERS] = _UNUSABLE
    try:
        yield
    finally:
        del os.environ[_CIPHERS]
        if before is not None:
            os.environ[_CIPHERS] = before


ONLY_TLS13 = "grpc" not in sys.modules
with _without_tls12():
    import grpc

AuthContext = Mapping[str, Iterable[bytes]]  # what grpc's `context.auth_context()` returns


def server_credentials(
    credentials: Credentials, say: Callable[[str], None] = lambda text: None
) -> grpc.ServerCredentials:
    """For a server: a client without a certificate of the same authority does not get as far as a method.

    A certificate that was renewed meanwhile is used for new connections. `say` is called in a thread of gRPC.
    """
    used = credentials

    def fetched() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        found = credentials.renewed(say)
        if found.certificate == used.certificate:
            return None
        used = found
        return _configuration(found)

    return grpc.dynamic_ssl_server_credentials(_configuration(credentials), fetched, require_client_authentication=True)


def _configuration(credentials: Credentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(credentials.private_key, credentials.certificate)], root_certificates=credentials.authority
    )


def channel_credentials(credentials: Credentials) -> grpc.ChannelCredentials:
    """For a client. The channel also needs `channel_options(party)`, or it looks for the host's name."""
    return grpc.ssl_channel_credentials(
        root_certificates=credentials.authority,
        private_key=credentials.private_key,
        certificate_chain=credentials.certificate,
    )


def channel_options(party: str) -> list[tuple[str, str]]:
    """With these a channel talks to `party` only, whatever the address."""
    return [("grpc.ssl_target_name_override", target_name(party))]


def peer_name(auth_context: AuthContext) -> str:
    """The name of the party at the other end.

    Assumes: the context is of a connection with `server_credentials`, whose handshake verified the certificate.
    """
    names = [name.decode("utf-8", "replace") for name in auth_context.get("x509_common_name", ())]
    domains = [name.decode("utf-8", "replace") for name in auth_context.get("x509_subject_alternative_name", ())]
    if len(names) != 1:
        raise PeerError("the other end showed no certificate of a party")
    try:
        expected = target_name(names[0])
    except ValueError:
        raise PeerError("the other end's certificate is not for the name of a party") from None
    if domains != [expected]:
        raise PeerError(f"the other end's certificate is of {names[0]}, but for another domain name than {expected}")
    return names[0]


def peer_identity(auth_context: AuthContext, authority_pem: bytes, now: datetime | None = None) -> Identity:
    """The party at the other end with its signing key, verified once more at `now`."""
    certificates = list(auth_context.get("x509_pem_cert", ()))
    if len(certificates) != 1:
        raise PeerError("the other end showed no certificate")
    return identity_of(certificates[0], authority_pem, now)
