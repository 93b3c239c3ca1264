"""Mutual TLS for gRPC: both ends show a certificate of the same authority (see `identity`), or nothing is said.

    server_credentials(credentials), channel_credentials(credentials)
    channel_options(party)                  the client verifies who is there, not at which address
    peer_name(auth_context), peer_identity(auth_context, authority)     who called, inside a server's method
    diagnose(host, port, credentials, party)    gRPC only says "unavailable"; this says why, in a sentence

An address proves nothing here: a certificate names a party, `client-3.tacit.invalid`, wherever it runs.

TLS 1.3 is required at both ends. gRPC's core takes 1.2 too and Python has no option for that, so it is left no cipher
suite for 1.2 when it is loaded. A program that loads gRPC before Tacit prevents this, and `ONLY_TLS13` is
False: its connections still use 1.3 if the server offers it. The server's side does not depend on it: see `hello`.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from tacit.errors import PeerError
from tacit.net.identity import (
    Authority,
    Credentials,
    Identity,
    Request,
    identity_of,
    read_request,
    request,
    target_name,
)

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

__all__ = [
    "ONLY_TLS13",
    "Authority",
    "Credentials",
    "Identity",
    "Request",
    "channel_credentials",
    "channel_options",
    "diagnose",
    "identity_of",
    "peer_identity",
    "peer_name",
    "read_request",
    "request",
    "server_credentials",
    "target_name",
]

AuthContext = Mapping[str, Iterable[bytes]]  # what grpc's `context.auth_context()` returns

# OpenSSL's names for what the other end says about our certificate, and its numbers for what we find about theirs.
_ALERTS = {
    "UNKNOWN_CA": "it trusts another authority than the one that signed ours",
    "CERTIFICATE_EXPIRED": "to it, ours is expired: compare the clocks",
    "CERTIFICATE_REQUIRED": "it got none",
    "CERTIFICATE_REVOKED": "to it, ours is revoked",
}
# gRPC's server sends no alert, it only closes the connection.
_SILENT = "it gave no reason; see whether both have the same authority.pem, and compare the clocks"
_CUT = "the connection was cut: it may have too many at the moment, or is starting"
_EXPIRED, _NOT_YET_VALID = 10, 9


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


def diagnose(host: str, port: int, credentials: Credentials, party: str, *, timeout: float = 5.0) -> str | None:
    """Why a connection to `party` at this address fails, in one sentence; None if it works.

    It blocks for up to three times `timeout` seconds, judges by the system's clock, and sends nothing but a handshake.
    """
    where = f"{host}:{port}"
    try:
        plain = socket.create_connection((host, port), timeout)
    except socket.gaierror:
        return f"{host}: there is no machine of this name, or no name service to ask"
    except ConnectionRefusedError:
        return f"{where}: nobody listens there: is {party} started, and is the port right?"
    except TimeoutError:
        return f"{where}: no answer within {timeout:g} s: is the address right, and does a firewall let it through?"
    except ConnectionResetError:
        return f"{where}: {_CUT}"
    except OSError as error:
        return f"{where}: the machine cannot be reached: {error.strerror}"
    with plain:
        family = plain.family
    # A second connection: Python loses a socket that is cut while it is wrapped.
    with _context(credentials).wrap_socket(socket.socket(family), server_hostname=target_name(party)) as secure:
        secure.settimeout(timeout)
        try:
            secure.connect((host, port))
            return _judged(secure, where, credentials, party)
        except ssl.SSLCertVerificationError as error:
            return f"{where}: {_their_fault(error, party)}"
        except TimeoutError:
            return f"{where}: somebody listens there, but does not answer a TLS handshake"
        except ConnectionResetError:
            return f"{where}: {_CUT}"
        except OSError as error:  # ssl.SSLError is one
            reason = getattr(error, "reason", None) or ""
            if "ALERT" in reason and "PROTOCOL_VERSION" not in reason:
                return f"{where}: {_our_fault(reason, credentials, party)}"
            return f"{where}: somebody listens there, but does not speak TLS 1.3"


def _judged(secure: ssl.SSLSocket, where: str, credentials: Credentials, party: str) -> str | None:
    """After the handshake: who is there, and what do they say to our certificate?"""
    try:
        there = identity_of(secure.getpeercert(binary_form=True) or b"", credentials.authority)
    except PeerError as error:
        return f"{where}: {error}"
    if there.name != party:
        return f"{where}: {there.name} is there, not {party}: is the address right?"
    # In TLS 1.3 a server judges our certificate after our handshake is over. One of gRPC speaks first if it is content.
    try:
        if secure.recv(1):
            return None
        reason = None
    except TimeoutError:
        return f"{where}: {party} took the connection and then said nothing: is it busy, or no gRPC server?"
    except ConnectionResetError:
        return f"{where}: {_CUT}"
    except OSError as error:
        reason = getattr(error, "reason", None)
    return f"{where}: {_our_fault(reason, credentials, party)}"


def _our_fault(reason: str | None, credentials: Credentials, party: str) -> str:
    """They ended it: a TLS alert, or just the end of the connection."""
    if credentials.expires < datetime.now(UTC):
        said = f"it expired on {credentials.expires:%Y-%m-%d}"
    else:
        said = next((words for alert, words in _ALERTS.items() if alert in (reason or "")), _SILENT)
    return f"{party} did not accept the certificate of {credentials.name}: {said}"


def _their_fault(error: ssl.SSLCertVerificationError, party: str) -> str:
    """We ended it, at their certificate."""
    match error.verify_code:
        case code if code == _EXPIRED:
            return f"the certificate that should be {party}'s is expired: it has to be signed again"
        case code if code == _NOT_YET_VALID:
            return f"the certificate that should be {party}'s is not valid yet: compare the clocks"
        case _:
            return (
                f"the certificate that should be {party}'s was not signed by our authority ({error.verify_message}): "
                "do both have the same authority.pem?"
            )


def _context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # `_judged` compares the name itself, so as to say who is there instead
    context.load_verify_locations(cadata=credentials.authority.decode())
    context.set_alpn_protocols(["h2"])  # gRPC's server refuses to talk without
    with _readable(credentials.certificate) as certificate, _readable(credentials.private_key) as key:
        context.load_cert_chain(certificate, key)
    return context


@contextmanager
def _readable(data: bytes) -> Iterator[str]:
    """A path that holds the data. `ssl` reads keys from paths only: with a pipe, no key comes to lie on a disk."""
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as file:
            file.write(data)  # a PEM file is smaller than any pipe's buffer
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
